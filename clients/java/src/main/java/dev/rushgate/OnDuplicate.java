package dev.rushgate;

/** What happens to a task whose ID is live. */
public enum OnDuplicate {
    /** The new task is ignored. */
    KEEP,
    /** The new task replaces the first. */
    REPLACE,
    /** The first task gets the earlier due time of both. */
    EARLIEST,
    /** The new task replaces the first, and is due at most {@code maxWait} after the first was enqueued. */
    DEBOUNCE
}
