package dev.rushgate;

import dev.rushgate.internal.Check;
import java.time.Duration;

/**
 * How long finished tasks are kept.
 *
 * @param age longest time, 1 ms to 400 days
 * @param count the most tasks, 1 to 1,000,000
 */
public record Retention(Duration age, int count) {
    /** Checks the limits. */
    public Retention {
        Check.micros("retention.age", age, Contract.PERIOD_US);
        Check.whole("retention.count", count, Contract.RETAINED);
    }
}
