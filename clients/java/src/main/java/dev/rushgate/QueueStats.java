package dev.rushgate;

import java.time.Duration;
import java.time.Instant;

/**
 * Task counts and limits of a queue.
 *
 * @param queue name of the queue
 * @param ready tasks that are due
 * @param scheduled tasks that are due later
 * @param leased tasks that run
 * @param blocked tasks that wait for their key or for other tasks
 * @param dead dead letters
 * @param done finished tasks that are kept
 * @param dropped tasks that were dropped in total
 * @param lag how long the oldest ready task has been ready
 * @param rateUntil when the rate limit allows more, or null
 * @param lastClaim time of the latest claim, or null
 * @param paused whether the queue is paused
 * @param limits limits
 */
public record QueueStats(
        String queue,
        long ready,
        long scheduled,
        long leased,
        long blocked,
        long dead,
        long done,
        long dropped,
        Duration lag,
        Instant rateUntil,
        Instant lastClaim,
        boolean paused,
        QueueLimits limits) {}
