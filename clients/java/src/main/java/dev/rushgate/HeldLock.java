package dev.rushgate;

import dev.rushgate.RushgateException.Details;
import dev.rushgate.internal.Check;
import dev.rushgate.internal.Deadline;
import dev.rushgate.internal.Timers;
import dev.rushgate.internal.Times;
import dev.rushgate.internal.Transport;
import dev.rushgate.internal.Transport.Grant;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.Future;

/** A held lock, which is renewed until it is released or lost. Any number of threads may share it. */
public final class HeldLock implements AutoCloseable {
    /** Longest time between two tries of a failed renewal. */
    private static final Duration RENEW_AGAIN = Duration.ofSeconds(1);
    private static final int RENEWALS_PER_LEASE = 3;
    private static final int TRIES_PER_LEASE = 20;

    private final Transport.Locks locks;
    private final Timers timers;
    private final String name;
    private final LockOptions options;
    private final String token;
    private final long fence;
    private final Runnable unwatch;
    private final Object releasing = new Object();
    /** Extensions follow one another, so that the latest answer is about the latest lease. */
    private final Object extending = new Object();
    private final List<Runnable> onLost = new ArrayList<>();
    private State state = State.HELD;
    private Duration lease;
    private Deadline heldUntil;
    private Future<?> renewal;
    private Future<?> expiry;
    private Boolean released;

    private enum State {
        HELD, RELEASED, LOST
    }

    HeldLock(Transport.Locks locks, Timers timers, String name, LockOptions options, Grant grant) {
        this.locks = locks;
        this.timers = timers;
        this.name = name;
        this.options = options;
        token = grant.token();
        fence = grant.fence();
        lease = options.lease();
        heldUntil = grant.heldUntil();
        // A notification that comes at once waits for the end of the constructor.
        synchronized (this) {
            unwatch = locks.watch(token, this::lose);
            schedule();
        }
    }

    /** Name of the lock. */
    public String name() {
        return name;
    }

    /** Fencing token: greater than that of every earlier grant. Let the protected resource refuse smaller ones. */
    public long fence() {
        return fence;
    }

    /** Secret proof of this acquisition. */
    public String token() {
        return token;
    }

    /** Whether the lock is certainly held. */
    public synchronized boolean isHeld() {
        return state == State.HELD && !heldUntil.hasPassed();
    }

    /** How long the lock is certainly held, unless it is renewed. Zero if it was lost or released. */
    public synchronized Duration leaseLeft() {
        return state == State.HELD ? heldUntil.left() : Duration.ZERO;
    }

    /**
     * Runs an action, in a thread of the client, when the lock is lost: before the store can grant the lock to another
     * client, unless an operator force-releases it. Runs it at once if the lock was lost already.
     */
    public void onLost(Runnable action) {
        Check.present("action", action);
        synchronized (this) {
            if (state != State.LOST) {
                onLost.add(action);
                return;
            }
        }
        timers.run(action);
    }

    /** Extends the lease to its full length from now. Throws {@link LockLostException} if the lock was lost. */
    public void extend() {
        synchronized (extending) {
            extendTo(currentLease());
        }
    }

    /**
     * Sets the lease to 10 ms to 24 h from now. Later renewals keep this length. Throws {@link LockLostException} if the lock
     * was lost.
     */
    public void extend(Duration lease) {
        Check.micros("lease", lease, Contract.LEASE_US);
        synchronized (extending) {
            extendTo(lease);
        }
    }

    private synchronized Duration currentLease() {
        return lease;
    }

    private void extendTo(Duration length) {
        synchronized (this) {
            if (state != State.HELD) {
                throw lost();
            }
            // If no answer comes, the store may have a shorter lease now.
            heldUntil = heldUntil.earlier(Deadline.in(Times.certain(length)));
        }
        schedule();
        Optional<Grant> grant;
        try {
            grant = locks.extend(name, token, length);
        } catch (RuntimeException failed) {
            renewSoon();
            throw failed;
        }
        if (grant.isEmpty()) {
            lose();
            throw lost();
        }
        synchronized (this) {
            if (state != State.HELD) {
                throw lost();
            }
            lease = length;
            heldUntil = grant.get().heldUntil();
        }
        schedule();
    }

    /** Releases the lock. False if it was lost before. Calling it again returns the same answer. */
    public boolean release() {
        synchronized (releasing) {
            if (released == null) {
                boolean wasLost = end(State.RELEASED);
                released = locks.release(name, token) && !wasLost;
            }
            return released;
        }
    }

    /** Releases the lock. */
    @Override
    public void close() {
        release();
    }

    LockLostException lost() {
        return new LockLostException("The lock `" + name + "` was lost.", Details.NONE);
    }

    /** Renews after a third of the lease, and signals the loss at its certain end. */
    private synchronized void schedule() {
        if (state != State.HELD) {
            return;
        }
        cancelTimers();
        if (options.renew()) {
            renewal = timers.after(lease.dividedBy(RENEWALS_PER_LEASE), this::renew);
        }
        expiry = timers.after(heldUntil.left(), this::expire);
    }

    private void expire() {
        if (!isHeld()) {
            lose();
        }
    }

    private void renew() {
        try {
            extend();
        } catch (RushgateException failed) {
            // The loss was signaled, or the renewal is repeated soon.
        }
    }

    /** After a failed extension. The lease ends at the old or the new time, so a third of either could be too late. */
    private synchronized void renewSoon() {
        if (state == State.HELD && options.renew()) {
            renewal.cancel(false);
            renewal = timers.after(Times.min(lease.dividedBy(TRIES_PER_LEASE), RENEW_AGAIN), this::renew);
        }
    }

    private void lose() {
        if (!end(State.LOST)) {
            List<Runnable> actions;
            synchronized (this) {
                actions = state == State.LOST ? List.copyOf(onLost) : List.of();
            }
            actions.forEach(timers::run);
        }
    }

    /** Ends the hold. Returns whether it was lost before. A released lock is not lost afterwards. */
    private boolean end(State as) {
        synchronized (this) {
            if (state != State.HELD) {
                return state == State.LOST;
            }
            state = as;
            cancelTimers();
        }
        unwatch.run();
        return false;
    }

    private void cancelTimers() {
        if (renewal != null) {
            renewal.cancel(false);
        }
        if (expiry != null) {
            expiry.cancel(false);
        }
    }
}
