package dev.rushgate;

/** Outcome of completing a task. */
public enum Completed {
    /** The task is done. */
    DONE,
    /** The run is done, and a pending replacement took over. */
    REQUEUED,
    /** The claim was lost. Nothing was changed. */
    STALE
}
