package dev.rushgate;

/** What happens to a task if one that it waits for becomes a dead letter. */
public enum IfDead {
    /** It keeps waiting. */
    WAIT,
    /** It becomes a dead letter too. */
    FAIL,
    /** It runs. */
    RUN
}
