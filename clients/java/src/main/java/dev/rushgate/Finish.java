package dev.rushgate;

/** How a retained task ended. */
public enum Finish {
    /** Completed. */
    DONE,
    /** Completed without work. */
    DISCARDED,
    /** Canceled. */
    CANCELLED,
    /** Dropped by a full queue. */
    DROPPED
}
