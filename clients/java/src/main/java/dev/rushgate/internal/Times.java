package dev.rushgate.internal;

import java.time.Duration;
import java.time.Instant;
import java.util.concurrent.TimeUnit;

/** Conversions of times, and a monotonic clock. */
public final class Times {
    private static final long PER_SECOND = 1_000_000;

    private Times() {}

    /** A duration in µs. Too long ones are {@code Long.MAX_VALUE}. */
    public static long micros(Duration duration) {
        try {
            return Math.addExact(Math.multiplyExact(duration.getSeconds(), PER_SECOND), duration.getNano() / 1_000);
        } catch (ArithmeticException tooLong) {
            return duration.isNegative() ? Long.MIN_VALUE : Long.MAX_VALUE;
        }
    }

    /** A timestamp in µs since 1970. */
    public static long micros(Instant instant) {
        try {
            return Math.addExact(Math.multiplyExact(instant.getEpochSecond(), PER_SECOND), instant.getNano() / 1_000);
        } catch (ArithmeticException tooFar) {
            return instant.getEpochSecond() < 0 ? Long.MIN_VALUE : Long.MAX_VALUE;
        }
    }

    /** A duration of µs. */
    public static Duration ofMicros(long micros) {
        return Duration.of(micros, java.time.temporal.ChronoUnit.MICROS);
    }

    /** The timestamp of µs since 1970. */
    public static Instant instant(long micros) {
        return Instant.ofEpochSecond(Math.floorDiv(micros, PER_SECOND), Math.floorMod(micros, PER_SECOND) * 1_000);
    }

    /** The timestamp of µs since 1970, or null for null or 0. */
    public static Instant optionalInstant(Long micros) {
        return micros == null || micros == 0 ? null : instant(micros);
    }

    /** A duration in whole ms, rounded up. */
    public static long millis(Duration duration) {
        return TimeUnit.MICROSECONDS.toMillis(micros(duration) + 999);
    }

    /** Time from one moment to a later one, in whole ms. 0 if it is not later. */
    public static Duration since(Instant from, Instant to) {
        Duration between = Duration.between(from, to);
        return between.isNegative() ? Duration.ZERO : Duration.ofMillis(between.toMillis());
    }

    /** The shortest of these durations. */
    public static Duration min(Duration first, Duration... others) {
        Duration shortest = first;
        for (Duration other : others) {
            if (other.compareTo(shortest) < 0) {
                shortest = other;
            }
        }
        return shortest;
    }

    /** The longer of two durations. */
    public static Duration max(Duration one, Duration other) {
        return one.compareTo(other) < 0 ? other : one;
    }

    /** The time for which a lease certainly lasts: less a tenth of it, 1 ms to 1 s, because clocks drift. */
    public static Duration certain(Duration leaseLeft) {
        Duration margin = max(Duration.ofMillis(1), min(leaseLeft.dividedBy(10), Duration.ofSeconds(1)));
        return leaseLeft.minus(margin);
    }
}
