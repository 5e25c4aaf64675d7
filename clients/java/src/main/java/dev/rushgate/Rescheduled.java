package dev.rushgate;

import java.time.Instant;

/** Outcome of rescheduling a task. */
public sealed interface Rescheduled {
    /**
     * The task has a new due time.
     *
     * @param due when it is due
     */
    record Done(Instant due) implements Rescheduled {}

    /** A worker is running the task. Nothing was changed. */
    record Leased() implements Rescheduled {}

    /**
     * The new due time is not before the deadline of the task. Nothing was changed.
     *
     * @param deadline deadline of the task
     */
    record TooLate(Instant deadline) implements Rescheduled {}

    /** The task is not live. */
    record NotFound() implements Rescheduled {}
}
