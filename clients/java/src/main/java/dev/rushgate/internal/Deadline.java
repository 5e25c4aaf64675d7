package dev.rushgate.internal;

import java.time.Duration;

/** A moment on the monotonic clock. */
public final class Deadline {
    private final long nanos;

    private Deadline(long nanos) {
        this.nanos = nanos;
    }

    /** Now. */
    public static Deadline now() {
        return new Deadline(System.nanoTime());
    }

    /** The moment after a duration from now. */
    public static Deadline in(Duration duration) {
        return now().plus(duration);
    }

    /** The moment after a duration from this one. */
    public Deadline plus(Duration duration) {
        return new Deadline(nanos + duration.toNanos());
    }

    /** Time until this moment. Zero if it has passed. */
    public Duration left() {
        return Duration.ofNanos(Math.max(0, nanos - System.nanoTime()));
    }

    /** Whether this moment has passed. */
    public boolean hasPassed() {
        return nanos - System.nanoTime() <= 0;
    }

    /** Whether this moment is before another one. */
    public boolean isBefore(Deadline other) {
        return nanos - other.nanos < 0;
    }

    /** The earlier of two moments. */
    public Deadline earlier(Deadline other) {
        return isBefore(other) ? this : other;
    }

    /** The later of two moments. */
    public Deadline later(Deadline other) {
        return isBefore(other) ? other : this;
    }
}
