package dev.rushgate;

import java.time.Instant;

/** Outcome of failing an attempt. */
public sealed interface Retried {
    /**
     * The task waits for its next attempt.
     *
     * @param due when it is due
     */
    record Scheduled(Instant due) implements Retried {}

    /** The task is a dead letter. */
    record Dead() implements Retried {}

    /** A pending replacement took over. */
    record Requeued() implements Retried {}

    /** The task had been canceled and is removed. */
    record Cancelled() implements Retried {}

    /** The claim was lost. Nothing was changed. */
    record Stale() implements Retried {}
}
