package dev.rushgate;

/** Outcome of extending the lease of a task. */
public enum TaskExtended {
    /** The lease starts again. */
    EXTENDED,
    /** The lease starts again, and a client asked to cancel the task: stop, and complete it. */
    CANCELLED,
    /** The claim was lost: stop. */
    LOST
}
