package dev.rushgate;

import java.time.Instant;

/** Outcome of an enqueue. */
public sealed interface Enqueued {
    /** Whether the queue has the task now, or a live one under its ID. */
    default boolean isAccepted() {
        return this instanceof Added || this instanceof Kept || this instanceof Replaced || this instanceof Displaced;
    }

    /** Reason for refusing a task. */
    enum Why {
        /** The dependency does not exist. */
        UNKNOWN,
        /** The batch is not open. */
        NOT_OPEN,
        /** A task with the ID is in the way. */
        TAKEN
    }

    /**
     * The task was added.
     *
     * @param revision revision of the task
     */
    record Added(long revision) implements Enqueued {}

    /**
     * The live task under the ID stays as it is.
     *
     * @param revision revision of the task
     */
    record Kept(long revision) implements Enqueued {}

    /**
     * The live task was replaced.
     *
     * @param revision revision of the task
     */
    record Replaced(long revision) implements Enqueued {}

    /**
     * The task was added, and the oldest waiting task was dropped for it.
     *
     * @param revision revision of the task
     * @param dropped ID of that task
     */
    record Displaced(long revision, String dropped) implements Enqueued {}

    /**
     * The queue is full. The task was not enqueued.
     *
     * @param bound capacity
     */
    record Full(long bound) implements Enqueued {}

    /**
     * The queue is full, and drops new tasks.
     *
     * @param bound capacity
     */
    record Dropped(long bound) implements Enqueued {}

    /**
     * The ID is in its uniqueness window. The task was not enqueued.
     *
     * @param until end of the window
     */
    record Recent(Instant until) implements Enqueued {}

    /**
     * A dependency or batch does not allow the task. It was not enqueued.
     *
     * @param task ID of the other task
     * @param why reason
     */
    record Refused(String task, Why why) implements Enqueued {}
}
