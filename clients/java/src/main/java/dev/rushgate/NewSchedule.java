package dev.rushgate;

import dev.rushgate.internal.Check;

/**
 * A schedule to save.
 *
 * @param recurrence when it fires
 * @param content content of its tasks
 * @param priority priority of its tasks, 0 to 9
 * @param maxAttempts maximum number of attempts of its tasks, 1 to 1,000
 * @param paused whether it is paused; null keeps the setting, and a new schedule is active
 */
public record NewSchedule(Recurrence recurrence, Content content, int priority, int maxAttempts, Boolean paused) {
    /** Checks the limits. */
    public NewSchedule {
        Check.present("recurrence", recurrence);
        Check.present("content", content);
        Check.whole("priority", priority, Contract.PRIORITY);
        Check.whole("maxAttempts", maxAttempts, Contract.ATTEMPTS);
    }

    /** A schedule with the default priority and number of attempts. */
    public static NewSchedule of(Recurrence recurrence, Content content) {
        return new NewSchedule(recurrence, content, Contract.DEFAULT_PRIORITY, Contract.DEFAULT_ATTEMPTS, null);
    }

    /** The same schedule with another priority for its tasks: 0 (first) to 9 (last). */
    public NewSchedule priority(int priority) {
        return new NewSchedule(recurrence, content, priority, maxAttempts, paused);
    }

    /** The same schedule with another maximum number of attempts for its tasks: 1 to 1,000. */
    public NewSchedule maxAttempts(int maxAttempts) {
        return new NewSchedule(recurrence, content, priority, maxAttempts, paused);
    }

    /** The same schedule, paused or active. */
    public NewSchedule paused(boolean paused) {
        return new NewSchedule(recurrence, content, priority, maxAttempts, paused);
    }
}
