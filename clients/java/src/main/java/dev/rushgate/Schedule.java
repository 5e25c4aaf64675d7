package dev.rushgate;

import java.time.Instant;
import java.util.List;

/**
 * A schedule.
 *
 * @param id ID of the schedule
 * @param recurrence when it fires, or null if this package cannot read it
 * @param content content of its tasks
 * @param priority priority of its tasks
 * @param maxAttempts maximum number of attempts of its tasks
 * @param next next occurrence, or null
 * @param upcoming next occurrences: at most five, and none while the schedule is paused
 * @param previous previous occurrence, or null
 * @param paused whether it is paused
 * @param revision revision
 */
public record Schedule(
        String id,
        Recurrence recurrence,
        Content content,
        int priority,
        int maxAttempts,
        Instant next,
        List<Instant> upcoming,
        Instant previous,
        boolean paused,
        long revision) {}
