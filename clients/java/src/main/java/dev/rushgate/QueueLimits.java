package dev.rushgate;

import dev.rushgate.internal.Check;
import java.time.Duration;

/**
 * Limits of a queue. A limit that is null does not apply.
 *
 * @param bound capacity: the most live tasks, or null
 * @param overflow what happens to a new task when the queue is full
 * @param concurrency the most tasks that run at a time, 1 to 1,000,000, or null
 * @param rate rate limit, or null
 * @param perKey limits for each key
 * @param retention how long finished tasks are kept, or null for not at all
 * @param events how many of the latest events are kept, 1 to 100,000, or null for none
 */
public record QueueLimits(
        Long bound,
        Overflow overflow,
        Integer concurrency,
        Rate rate,
        KeyLimits perKey,
        Retention retention,
        Integer events) {
    /** No limits. */
    public static final QueueLimits NONE = builder().build();

    /** Checks the limits. */
    public QueueLimits {
        if (bound != null) {
            Check.whole("bound", bound, Contract.BOUND);
        }
        if (concurrency != null) {
            Check.whole("concurrency", concurrency, Contract.CONCURRENCY);
        }
        if (events != null) {
            Check.whole("events", events, Contract.EVENTS);
        }
        Check.present("overflow", overflow);
        Check.present("perKey", perKey);
    }

    /** A builder without limits. */
    public static Builder builder() {
        return new Builder();
    }

    /** Builds limits. */
    public static final class Builder {
        private Long bound;
        private Overflow overflow = Overflow.REFUSE;
        private Integer concurrency;
        private Rate rate;
        private KeyLimits perKey = KeyLimits.NONE;
        private Retention retention;
        private Integer events;

        private Builder() {}

        /** Capacity: the most live tasks. */
        public Builder bound(long bound) {
            this.bound = bound;
            return this;
        }

        /** What happens to a new task when the queue is full. Default: it is refused. */
        public Builder overflow(Overflow overflow) {
            this.overflow = overflow;
            return this;
        }

        /** The most tasks that run at a time: 1 to 1,000,000. */
        public Builder concurrency(int concurrency) {
            this.concurrency = concurrency;
            return this;
        }

        /** Rate limit: at most {@code n} tasks in any period. */
        public Builder rate(int n, Duration per) {
            rate = new Rate(n, per);
            return this;
        }

        /** Limits for the tasks of each key. */
        public Builder perKey(KeyLimits perKey) {
            this.perKey = perKey;
            return this;
        }

        /** How long finished tasks are kept: at most {@code count} for at most {@code age}. */
        public Builder retention(Duration age, int count) {
            retention = new Retention(age, count);
            return this;
        }

        /** How many of the latest events are kept: 1 to 100,000. */
        public Builder events(int events) {
            this.events = events;
            return this;
        }

        /** The limits. Throws {@link InvalidException} if one is out of range. */
        public QueueLimits build() {
            return new QueueLimits(bound, overflow, concurrency, rate, perKey, retention, events);
        }
    }
}
