package dev.rushgate;

import java.time.Instant;

/** How a task ended. */
public sealed interface Ended {
    /**
     * The task has finished, and the queue keeps it.
     *
     * @param task the task
     */
    record Finished(TaskInfo task) implements Ended {}

    /**
     * The task is a dead letter.
     *
     * @param error error of the last attempt
     * @param attempts number of attempts made
     * @param died when it became a dead letter
     */
    record Dead(String error, int attempts, Instant died) implements Ended {}

    /** The task is not live, and nothing is kept of it. */
    record Gone() implements Ended {}
}
