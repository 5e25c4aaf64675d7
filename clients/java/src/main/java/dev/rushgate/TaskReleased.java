package dev.rushgate;

/** Outcome of returning a task to the queue. */
public enum TaskReleased {
    /** The task waits again. */
    WAITING,
    /** The task had been canceled and is removed. */
    CANCELLED,
    /** The claim was lost. Nothing was changed. */
    STALE
}
