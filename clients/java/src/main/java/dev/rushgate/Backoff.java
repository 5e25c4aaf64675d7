package dev.rushgate;

import dev.rushgate.internal.Check;
import java.time.Duration;
import java.util.concurrent.ThreadLocalRandom;

/**
 * Retry delay of failed tasks: exponential, capped, with full jitter.
 *
 * @param base delay after the first failure, up to 400 days
 * @param factor multiplier for each further failure, 1 or more
 * @param max longest delay, up to 400 days
 * @param jitter whether each delay is drawn evenly from zero to that delay
 */
public record Backoff(Duration base, double factor, Duration max, boolean jitter) {
    /** 1 s, doubling, up to 1 h, with jitter. */
    public static final Backoff DEFAULTS = new Backoff(
            Contract.DEFAULT_BACKOFF_BASE, Contract.DEFAULT_BACKOFF_FACTOR, Contract.DEFAULT_BACKOFF_MAX, true);

    /** Checks the limits. */
    public Backoff {
        Check.micros("base", base, Contract.DELAY_US);
        Check.micros("max", max, Contract.DELAY_US);
        if (!(factor >= 1)) {
            throw Check.invalid("factor", "is " + factor + "; it must be 1 or more");
        }
    }

    /** The same delay after every failure, without jitter. */
    public static Backoff constant(Duration delay) {
        return new Backoff(delay, 1, delay, false);
    }

    /** The delay after an attempt, from 1. */
    Duration draw(int attempt) {
        double longest = Math.min(base.toMillis() * Math.pow(factor, Math.max(attempt - 1, 0)), max.toMillis());
        return Duration.ofMillis((long) (jitter ? longest * ThreadLocalRandom.current().nextDouble() : longest));
    }
}
