package dev.rushgate.internal.redis;

import dev.rushgate.Contract;
import dev.rushgate.KeyLimits;
import dev.rushgate.Overflow;
import dev.rushgate.QueueLimits;
import dev.rushgate.Rate;
import dev.rushgate.Retention;
import dev.rushgate.internal.Times;
import java.time.Duration;
import java.util.List;
import java.util.Objects;

/** Limits of a queue, as {@code queue_limit} takes them and {@code queue_stats} returns them. */
final class Limits {
    private static final String NONE = "-";
    /** Words that every version writes. */
    private static final int WORDS = 11;

    private Limits() {}

    static List<String> write(QueueLimits limits) {
        Rate rate = limits.rate();
        KeyLimits perKey = limits.perKey();
        Rate keyRate = perKey.rate();
        Retention kept = limits.retention();
        return List.of(text(limits.bound()), text(limits.concurrency()), rate == null ? "" : text(rate.n()),
                rate == null ? "" : Store.us(rate.per()), text(perKey.concurrency()), keyRate == null ? "" : text(keyRate.n()),
                keyRate == null ? "" : Store.us(keyRate.per()), perKey.fifo() ? "1" : "0",
                kept == null ? "" : Store.us(kept.age()), kept == null ? "" : text(kept.count()),
                text(limits.overflow().ordinal()), text(limits.events()));
    }

    private static String text(Number number) {
        return Objects.toString(number, "");
    }

    static QueueLimits read(Long bound, String text) {
        if (text.isEmpty()) {
            return new QueueLimits(bound, Overflow.REFUSE, null, null, KeyLimits.NONE, null, null);
        }
        Words words = new Words(List.of(text.split(" ")));
        if (words.list().size() < WORDS) {
            throw Answer.strange();
        }
        KeyLimits perKey = new KeyLimits(words.number(3), words.rate(4), words.number(6) == 1);
        Retention kept = words.isNone(7) ? null : new Retention(words.duration(7), words.number(8));
        Overflow overflow = Answer.constant(Overflow.class, Contract.OVERFLOW, words.number(9));
        return new QueueLimits(bound, overflow, words.number(0), words.rate(1), perKey, kept, words.number(10));
    }

    private record Words(List<String> list) {
        boolean isNone(int at) {
            return list.get(at).equals(NONE);
        }

        Integer number(int at) {
            return isNone(at) ? null : Integer.valueOf(list.get(at));
        }

        Duration duration(int at) {
            return Times.ofMicros(Long.parseLong(list.get(at)));
        }

        Rate rate(int at) {
            return isNone(at) ? null : new Rate(number(at), duration(at + 1));
        }
    }
}
