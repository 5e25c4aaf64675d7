package dev.rushgate;

import dev.rushgate.internal.Check;

/**
 * Limits for the tasks of each key.
 *
 * @param concurrency the most tasks of a key that run at a time, 1 to 1,000,000, or null
 * @param rate rate limit of a key, or null
 * @param fifo whether one task of a key runs at a time and a failed task keeps its place
 */
public record KeyLimits(Integer concurrency, Rate rate, boolean fifo) {
    /** No limits. */
    public static final KeyLimits NONE = new KeyLimits(null, null, false);

    /** Checks the limits. */
    public KeyLimits {
        if (concurrency != null) {
            Check.whole("concurrency", concurrency, Contract.CONCURRENCY);
            if (fifo && concurrency != 1) {
                throw Check.invalid("concurrency", "per key must be 1 if the order per key is first in, first out");
            }
        }
    }
}
