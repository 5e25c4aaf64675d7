package dev.rushgate;

import java.time.Duration;
import java.time.Instant;
import java.util.List;

/** Reason why a task is not running. */
public sealed interface Why {
    /**
     * A task that another one waits for.
     *
     * @param id ID of the task
     * @param error error of the task if it is a dead letter, or null
     */
    record Dependency(String id, String error) {}

    /**
     * The task is running, or its worker has died and the lease has not expired yet.
     *
     * @param worker worker that claimed it
     * @param attempt number of the attempt
     * @param fence fencing token of the claim
     * @param leaseUntil end of the lease
     * @param leaseLeft time until then
     * @param cancelled whether a client asked to cancel it
     * @param replaced whether a pending replacement waits
     */
    record Busy(
            String worker,
            int attempt,
            long fence,
            Instant leaseUntil,
            Duration leaseLeft,
            boolean cancelled,
            boolean replaced) implements Why {}

    /** The queue is paused. */
    record Paused() implements Why {}

    /**
     * The task is scheduled for later.
     *
     * @param due when it is due
     * @param left time until then
     * @param attempts attempts so far
     * @param maxAttempts maximum number of attempts
     * @param error error of the latest failed attempt, or null
     */
    record NotDue(Instant due, Duration left, int attempts, int maxAttempts, String error) implements Why {}

    /**
     * The concurrency limit of the queue is reached.
     *
     * @param concurrency limit
     * @param running running tasks, at most ten
     */
    record QueueBusy(int concurrency, List<Running> running) implements Why {}

    /**
     * The rate limit of the queue, or of the key, is reached.
     *
     * @param key key, or null for the limit of the queue
     * @param until when the limit allows the next task
     * @param left time until then
     */
    record RateLimited(String key, Instant until, Duration left) implements Why {}

    /**
     * The concurrency limit of the key is reached.
     *
     * @param key key
     * @param running running tasks of the key, at most ten
     */
    record KeyBusy(String key, List<Running> running) implements Why {}

    /**
     * The task is behind others of its key.
     *
     * @param key key
     * @param first first task of the key, or null if it was not found
     */
    record InLine(String key, String first) implements Why {}

    /**
     * The task waits for other tasks, or is the callback of an open batch.
     *
     * @param left how many tasks it waits for
     * @param dead how many dead letters are among the first 1,000 of those
     * @param first some of them, at most five, dead letters first
     * @param ifDead what happens if one is dead
     * @param open whether the batch is open
     */
    record WaitsFor(long left, long dead, List<Dependency> first, IfDead ifDead, boolean open) implements Why {}

    /**
     * The task is ready, and no worker has claimed it.
     *
     * @param ahead due tasks ahead of it, or null for 1,000 or more
     * @param leased tasks of the queue that run
     * @param dueFor how long it has been ready
     * @param lastClaim time of the latest claim, or null
     */
    record Waiting(Integer ahead, long leased, Duration dueFor, Instant lastClaim) implements Why {}

    /**
     * The task has a deadline.
     *
     * @param deadline deadline
     * @param left time until then
     */
    record Deadline(Instant deadline, Duration left) implements Why {}

    /**
     * The task is a dead letter.
     *
     * @param attempts attempts made
     * @param maxAttempts maximum number of attempts
     * @param error error of the last attempt
     * @param died when it became a dead letter
     */
    record Dead(int attempts, int maxAttempts, String error, Instant died) implements Why {}

    /**
     * The task is over, and the queue keeps it.
     *
     * @param how how it ended
     * @param finished when it ended
     * @param worker worker of the last claim, or null
     */
    record Done(Finish how, Instant finished, String worker) implements Why {}

    /**
     * The task is not live, and its ID is in its uniqueness window.
     *
     * @param until end of the window
     * @param left time until then
     */
    record Unique(Instant until, Duration left) implements Why {}

    /** The task is not live, dead or kept. */
    record Unknown() implements Why {}
}
