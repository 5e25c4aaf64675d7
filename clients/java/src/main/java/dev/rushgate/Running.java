package dev.rushgate;

import java.time.Instant;

/**
 * A running task.
 *
 * @param id ID of the task
 * @param worker worker that claimed it
 * @param leaseUntil end of its lease, unless it is extended
 */
public record Running(String id, String worker, Instant leaseUntil) {}
