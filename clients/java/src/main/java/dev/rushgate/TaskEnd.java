package dev.rushgate;

/** How a task ended. */
public enum TaskEnd {
    /** Completed. */
    DONE,
    /** Completed without work. */
    DISCARDED,
    /** Canceled. */
    CANCELLED,
    /** Dropped by a full queue. */
    DROPPED,
    /** Popped. */
    POPPED,
    /** Deleted as a dead letter. */
    DELETED,
    /** Failed for good. */
    DEAD
}
