package dev.rushgate;

/** How a run without success ended. */
public enum PastEnd {
    /** The handler failed. */
    FAILED,
    /** The lease expired. */
    LOST,
    /** The worker returned the task to the queue. */
    SNOOZED
}
