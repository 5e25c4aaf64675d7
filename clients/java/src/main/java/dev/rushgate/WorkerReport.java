package dev.rushgate;

/**
 * How many tasks a worker has claimed, and how they ended.
 *
 * @param claimed claimed
 * @param done completed
 * @param discarded completed without work
 * @param retried failed, to be tried again
 * @param dead failed for good
 * @param released returned to the queue
 * @param cancelled canceled while they ran
 * @param lost the claim was lost before the end was stored
 * @param unanswered the store did not take the end: the task runs again
 */
public record WorkerReport(long claimed, long done, long discarded, long retried, long dead, long released, long cancelled,
        long lost, long unanswered) {}
