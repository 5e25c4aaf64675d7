package dev.rushgate;

/**
 * Work under a lock.
 *
 * @param <T> type of its result
 */
@FunctionalInterface
public interface LockWork<T> {
    /** Does the work. {@code held} is released afterwards. */
    T run(HeldLock held) throws Exception;
}
