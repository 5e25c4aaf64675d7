package dev.rushgate;

import java.util.List;

/**
 * A lock and its wait queue.
 *
 * @param name name of the lock
 * @param holder holder, or null
 * @param waiters waiters by position
 */
public record LockState(String name, Holder holder, List<Waiter> waiters) {}
