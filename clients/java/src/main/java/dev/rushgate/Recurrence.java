package dev.rushgate;

import dev.rushgate.internal.Check;
import java.time.Duration;

/**
 * When a schedule fires: a cron pattern in a time zone, or an interval.
 *
 * @param cron pattern {@code minute hour day month weekday}, with seconds in front if there are six fields; or null
 * @param zone IANA time zone of the pattern, or null for UTC
 * @param every interval, 1 s to 400 days in whole ms, or null
 * @param missed what happens to missed occurrences
 */
public record Recurrence(String cron, String zone, Duration every, Missed missed) {
    /** Checks the limits. */
    public Recurrence {
        if ((cron == null) == (every == null)) {
            throw Check.invalid("cron", "or every must be set, and not both");
        }
        if (cron != null) {
            Check.bytes("cron", Check.utf8("cron", cron).length, Contract.RECURRENCE_BYTES / 2);
        } else {
            Check.micros("every", every, Contract.INTERVAL_US);
            every = Duration.ofMillis(every.toMillis());
        }
        if (zone != null) {
            Check.zone(zone, every == null);
        }
        Check.present("missed", missed);
    }

    /** A cron pattern in UTC. Of missed occurrences, the latest runs. */
    public static Recurrence cron(String pattern) {
        return new Recurrence(pattern, null, null, Missed.ONCE);
    }

    /** An interval: 1 s to 400 days in whole ms, counted from 1970. Of missed occurrences, the latest runs. */
    public static Recurrence every(Duration interval) {
        return new Recurrence(null, null, interval, Missed.ONCE);
    }

    /** The same pattern in an IANA time zone, such as {@code Europe/Berlin}. */
    public Recurrence in(String zone) {
        return new Recurrence(cron, zone, every, missed);
    }

    /** The same recurrence with another policy for missed occurrences. */
    public Recurrence missed(Missed missed) {
        return new Recurrence(cron, zone, every, missed);
    }
}
