package dev.rushgate;

import dev.rushgate.internal.Check;
import java.time.Duration;

/**
 * Sliding-window rate limit: at most {@code n} tasks in any period.
 *
 * @param n number of tasks, 1 to 10,000
 * @param per period, 1 ms to 400 days
 */
public record Rate(int n, Duration per) {
    /** Checks the limits. */
    public Rate {
        Check.whole("rate.n", n, Contract.RATE);
        Check.micros("rate.per", per, Contract.PERIOD_US);
    }
}
