package dev.rushgate;

/** What happens to a new task when the queue is full. */
public enum Overflow {
    /** It is refused. */
    REFUSE,
    /** It is dropped. */
    DROP_NEW,
    /** The oldest waiting task is dropped for it. */
    DROP_OLDEST
}
