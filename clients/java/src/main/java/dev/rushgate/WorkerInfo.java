package dev.rushgate;

import java.time.Instant;

/**
 * A worker of a queue, busy or idle.
 *
 * @param id ID of the worker, new at every start
 * @param name name under which it claims
 * @param version program and version
 * @param concurrency how many tasks it runs at a time
 * @param running how many tasks of the queue it ran at its latest announcement
 * @param since its first announcement
 * @param seen its latest announcement
 * @param leaseUntil until when it is listed, unless it announces itself again
 * @param mode what an operator asks of it
 */
public record WorkerInfo(
        String id,
        String name,
        String version,
        int concurrency,
        int running,
        Instant since,
        Instant seen,
        Instant leaseUntil,
        WorkerMode mode) {}
