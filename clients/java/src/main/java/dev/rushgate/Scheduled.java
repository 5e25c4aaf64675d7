package dev.rushgate;

/** Outcome of saving a schedule. */
public sealed interface Scheduled {
    /**
     * The schedule is new.
     *
     * @param revision revision of the schedule
     */
    record Added(long revision) implements Scheduled {}

    /**
     * The schedule was changed.
     *
     * @param revision revision of the schedule
     */
    record Changed(long revision) implements Scheduled {}

    /**
     * The schedule had these settings already.
     *
     * @param revision revision of the schedule
     */
    record Unchanged(long revision) implements Scheduled {}

    /** The queue has the most schedules that are allowed. Nothing was changed. */
    record Full() implements Scheduled {}
}
