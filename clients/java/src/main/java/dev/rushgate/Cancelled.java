package dev.rushgate;

/** Outcome of canceling a task. */
public enum Cancelled {
    /** The task is removed. */
    REMOVED,
    /** The task is running, and its worker will stop it. */
    MARKED,
    /** The task is not live. */
    NOT_FOUND
}
