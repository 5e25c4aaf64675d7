package dev.rushgate.internal;

import dev.rushgate.InvalidException;
import dev.rushgate.Missed;
import dev.rushgate.Recurrence;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * What a schedule does now.
 *
 * @param runs occurrences to enqueue tasks for
 * @param next next occurrence, if there is one
 */
public record Occurrences(List<Instant> runs, Optional<Instant> next) {
    /** How late an occurrence may be noticed before it counts as missed. */
    private static final Duration LATE = Duration.ofMinutes(1);
    /** How many occurrences a schedule lists. */
    private static final int LISTED = 5;

    /**
     * What a schedule does now whose next occurrence is {@code first}. At most {@code most} runs; the rest is due again at once.
     * Throws {@link dev.rushgate.InvalidException} for a malformed pattern.
     */
    public static Occurrences due(Recurrence recurrence, Instant first, Instant now, int most) {
        if (recurrence.missed() == Missed.ALL) {
            List<Instant> runs = new ArrayList<>(List.of(first));
            Optional<Instant> next = Cron.find(recurrence, first);
            while (runs.size() < most && next.isPresent() && !next.get().isAfter(now)) {
                runs.add(next.get());
                next = Cron.find(recurrence, next.get());
            }
            return new Occurrences(runs, next);
        }
        Instant latest = latestUntil(recurrence, first, now);
        boolean counts = recurrence.missed() == Missed.ONCE || Duration.between(latest, now).compareTo(LATE) <= 0;
        return new Occurrences(counts ? List.of(latest) : List.of(), Cron.find(recurrence, now));
    }

    /** The next occurrences of a schedule, from {@code first} on. Of a recurrence that cannot be read, only {@code first}. */
    public static List<Instant> upcoming(Recurrence recurrence, Instant first) {
        List<Instant> moments = new ArrayList<>();
        Optional<Instant> next = Optional.of(first);
        while (next.isPresent() && moments.size() < LISTED) {
            moments.add(next.get());
            next = following(recurrence, next.get());
        }
        return List.copyOf(moments);
    }

    private static Optional<Instant> following(Recurrence recurrence, Instant moment) {
        try {
            return recurrence == null ? Optional.empty() : Cron.find(recurrence, moment);
        } catch (InvalidException unknown) {
            return Optional.empty();
        }
    }

    /** The latest occurrence at or before a moment. {@code first} is an earlier one. */
    private static Instant latestUntil(Recurrence recurrence, Instant first, Instant moment) {
        // The latest one is after `low`, and none is after `high`.
        long low = first.toEpochMilli();
        long high = moment.toEpochMilli();
        while (low < high) {
            long middle = (low + high) / 2;
            boolean isEarly = Cron.find(recurrence, Instant.ofEpochMilli(middle)).map(next -> !next.isAfter(moment)).orElse(false);
            if (isEarly) {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Instant latest = Instant.ofEpochMilli(low);
        return latest.isAfter(first) ? latest : first;
    }

    /** A moment as in the IDs of tasks: {@code 2026-11-22T03:30:00Z}. */
    public static String written(Instant moment) {
        return moment.toString().replaceFirst("(\\.\\d*?)0+Z$", "$1Z");
    }
}
