package dev.rushgate;

import dev.rushgate.internal.Check;
import java.time.Duration;

/**
 * How to claim tasks. Immutable: start with {@link #DEFAULTS}.
 *
 * @param n maximum number of tasks, 1 to 1,000
 * @param lease lease, 10 ms to 24 h; a task whose lease expires becomes available again
 * @param longestWait longest wait for the first task, 0 to 24 h
 * @param worker name of the worker, as shown to operators: at most 200 bytes; null for host and process ID
 */
public record ClaimOptions(int n, Duration lease, Duration longestWait, String worker) {
    /** One task, a lease of 30 s, and no wait. */
    public static final ClaimOptions DEFAULTS = new ClaimOptions(1, Contract.DEFAULT_LEASE, Duration.ZERO, null);

    /** Checks the limits. */
    public ClaimOptions {
        Check.whole("n", n, Contract.BATCH);
        Check.micros("lease", lease, Contract.LEASE_US);
        Check.micros("wait", longestWait, Contract.WAIT_US);
        if (worker != null) {
            Check.label("worker", worker);
        }
    }

    /** The same settings for more tasks: 1 to 1,000. */
    public ClaimOptions n(int n) {
        return new ClaimOptions(n, lease, longestWait, worker);
    }

    /** The same settings with another lease: 10 ms to 24 h. */
    public ClaimOptions lease(Duration lease) {
        return new ClaimOptions(n, lease, longestWait, worker);
    }

    /** The same settings with a wait: 0 to 24 h. */
    public ClaimOptions waitUpTo(Duration longestWait) {
        return new ClaimOptions(n, lease, longestWait, worker);
    }

    /** The same settings with the name of the worker: at most 200 bytes. */
    public ClaimOptions worker(String worker) {
        return new ClaimOptions(n, lease, longestWait, worker);
    }
}
