package dev.rushgate;

/** Runs a task. It runs in a thread of the worker, which is interrupted when the handler must stop. */
@FunctionalInterface
public interface Handler {
    /** Handles a task. What it throws fails the attempt; the retry delay of the worker applies. */
    Outcome handle(Job job) throws Exception;
}
