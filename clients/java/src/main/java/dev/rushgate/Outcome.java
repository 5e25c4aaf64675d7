package dev.rushgate;

import dev.rushgate.internal.Check;
import java.time.Duration;

/** Outcome of a task, as its handler reports it. */
public sealed interface Outcome {
    /**
     * The task is done.
     *
     * @param result result of at most 64 KiB, or null
     */
    record Done(Content result) implements Outcome {
        /** Checks the limit. */
        public Done {
            if (result != null) {
                ClaimedTask.checkedResult(result);
            }
        }
    }

    /** The task leaves the queue without work, because there is nothing to do. */
    record Discarded() implements Outcome {}

    /**
     * The attempt failed.
     *
     * @param error what failed and why
     * @param delay delay before the next attempt, or null for the retry delay of the worker
     */
    record Failed(String error, Duration delay) implements Outcome {
        /** Checks the limits. */
        public Failed {
            Check.present("error", error);
            Check.optionalMicros("delay", delay, Contract.DELAY_US);
        }
    }

    /**
     * The task failed for good.
     *
     * @param error what failed and why
     */
    record GivenUp(String error) implements Outcome {
        /** Checks the error. */
        public GivenUp {
            Check.present("error", error);
        }
    }

    /**
     * The task returns to the queue. The attempt does not count.
     *
     * @param delay delay before the task is due again
     */
    record Snoozed(Duration delay) implements Outcome {
        /** Checks the limits. */
        public Snoozed {
            Check.micros("delay", delay, Contract.DELAY_US);
        }
    }

    /** The task is done. */
    static Outcome done() {
        return new Done(null);
    }

    /** The task is done, with a result of at most 64 KiB, which is kept if the queue has a retention. */
    static Outcome done(Content result) {
        return new Done(result);
    }

    /** There is nothing to do: the task leaves the queue. */
    static Outcome discard() {
        return new Discarded();
    }

    /** The attempt failed. The retry delay of the worker applies. */
    static Outcome retry(String error) {
        return new Failed(error, null);
    }

    /** The attempt failed. The next one is due after a delay of 0 to 400 days. */
    static Outcome retry(String error, Duration delay) {
        return new Failed(error, delay);
    }

    /** The task failed for good: it becomes a dead letter now. */
    static Outcome giveUp(String error) {
        return new GivenUp(error);
    }

    /** The task is due again after a delay of 0 to 400 days. The attempt does not count. */
    static Outcome snooze(Duration delay) {
        return new Snoozed(delay);
    }
}
