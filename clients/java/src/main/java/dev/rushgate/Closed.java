package dev.rushgate;

/** Outcome of closing a batch. */
public sealed interface Closed {
    /**
     * The batch is closed: its callback runs when all members have finished.
     *
     * @param left how many tasks it still waits for
     */
    record Done(long left) implements Closed {}

    /** The batch is not open. */
    record NotOpen() implements Closed {}

    /** The batch does not exist. */
    record NotFound() implements Closed {}
}
