package dev.rushgate;

/** State of a task. */
public enum TaskState {
    /** Due later. */
    SCHEDULED,
    /** Due now. */
    READY,
    /** A worker runs it. */
    LEASED,
    /** It waits for its key or for other tasks. */
    BLOCKED,
    /** It has finished and is kept. */
    DONE
}
