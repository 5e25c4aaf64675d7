package dev.rushgate;

import java.time.Instant;

/**
 * A holder of a lock.
 *
 * @param host name of its host
 * @param pid process ID
 * @param label what it does
 * @param fence fencing token of the grant
 * @param since when it was granted the lock
 * @param leaseUntil end of its lease, unless it is extended
 */
public record Holder(String host, long pid, String label, long fence, Instant since, Instant leaseUntil) {}
