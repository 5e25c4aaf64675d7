package dev.rushgate;

import dev.rushgate.RushgateException.Details;
import dev.rushgate.internal.Check;
import dev.rushgate.internal.Timers;
import dev.rushgate.internal.Transport;
import dev.rushgate.internal.Transport.AcquireRequest;
import java.time.Duration;
import java.util.Optional;

/**
 * A distributed lock. At most one client holds it at a time, and waiters get it in the order of their arrival.
 *
 * <p>Any number of threads may share it. Each acquisition is separate, so that threads of one process exclude each other.
 */
public final class Lock {
    private final Transport.Locks locks;
    private final Timers timers;
    private final String name;
    private final LockOptions options;

    Lock(Transport transport, Timers timers, String name, LockOptions options) {
        locks = transport.locks();
        this.timers = timers;
        this.name = Check.name("lock", name);
        this.options = Check.present("options", options);
    }

    /** Name of the lock. */
    public String name() {
        return name;
    }

    /** Acquires the lock if it is free. Nothing if another client holds it. */
    public Optional<HeldLock> acquire() {
        return acquire(Duration.ZERO);
    }

    /**
     * Acquires the lock, and waits for it up to 24 h. Nothing if another client holds it when the wait ends. Throws
     * {@link WaitInterruptedException}, and leaves the wait queue, if the thread is interrupted.
     */
    public Optional<HeldLock> acquire(Duration wait) {
        Check.micros("wait", wait, Contract.WAIT_US);
        AcquireRequest request = new AcquireRequest(options.lease(), wait, options.label(), options.barging());
        return locks.acquire(name, request).map(grant -> new HeldLock(locks, timers, name, options, grant));
    }

    /**
     * Runs work while it holds the lock. Throws {@link LockBusyException} if the lock is not free within the wait, and
     * {@link LockLostException} if it was lost before the work ended.
     */
    public <T> T run(Duration wait, LockWork<T> work) throws Exception {
        Check.present("work", work);
        HeldLock held = acquire(wait).orElseThrow(() ->
                new LockBusyException("Another client holds the lock `" + name + "`.", Details.NONE));
        T result;
        try (held) {
            result = work.run(held);
        }
        if (!held.release()) {
            throw held.lost();
        }
        return result;
    }

    /** The holder and the wait queue. */
    public LockState state() {
        return locks.show(name);
    }

    /** Takes the lock from its holder, which is notified, and grants it to the next waiter. For operators. */
    public Optional<Holder> forceRelease() {
        return locks.forceRelease(name);
    }
}
