package dev.rushgate;

import dev.rushgate.internal.Check;
import java.time.Duration;

/**
 * Settings of a lock. Immutable: start with {@link #DEFAULTS}.
 *
 * @param lease lease, 10 ms to 24 h; if the holder dies, the lock is free after this time
 * @param renew whether to renew the lease after each third of it, until the lock is released
 * @param label what the holder does, as shown to operators: at most 200 bytes
 * @param barging whether to take a free lock ahead of the wait queue
 */
public record LockOptions(Duration lease, boolean renew, String label, boolean barging) {
    /** A lease of 30 s that is renewed, no label, and no barging. */
    public static final LockOptions DEFAULTS = new LockOptions(Contract.DEFAULT_LEASE, true, "", false);

    /** Checks the limits. */
    public LockOptions {
        Check.micros("lease", lease, Contract.LEASE_US);
        Check.label("label", label);
    }

    /** The same settings with another lease: 10 ms to 24 h. */
    public LockOptions lease(Duration lease) {
        return new LockOptions(lease, renew, label, barging);
    }

    /** The same settings without renewal: the lock is lost at the end of its lease. */
    public LockOptions withoutRenewal() {
        return new LockOptions(lease, false, label, barging);
    }

    /** The same settings with a label: at most 200 bytes. */
    public LockOptions label(String label) {
        return new LockOptions(lease, renew, label, barging);
    }

    /** The same settings with barging: the client takes a free lock ahead of the wait queue. */
    public LockOptions withBarging() {
        return new LockOptions(lease, renew, label, true);
    }
}
