package dev.rushgate;

import java.time.Instant;

/**
 * A waiter for a lock. The one at position 1 is next.
 *
 * @param position position in the wait queue, from 1
 * @param host name of its host
 * @param pid process ID
 * @param label what it does
 * @param since when it joined
 * @param waitUntil end of its wait
 */
public record Waiter(int position, String host, long pid, String label, Instant since, Instant waitUntil) {}
