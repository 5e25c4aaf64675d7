package dev.rushgate;

import dev.rushgate.internal.Deadline;
import dev.rushgate.internal.Timers;
import dev.rushgate.internal.Times;
import dev.rushgate.internal.Transport.Heartbeat;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Future;

/** Extends the leases of the claims of a worker together, after each third of the lease. */
final class Leases implements AutoCloseable {
    /** Longest time between two checks. */
    private static final Duration CHECK = Duration.ofMillis(500);
    /** Longest time before a failed heartbeat is sent again. */
    private static final Duration AGAIN = Duration.ofSeconds(1);
    private static final int CHECKS_PER_LEASE = 20;

    private final Queue queue;
    private final Duration lease;
    private final Timers timers;
    private final Set<Lease> held = ConcurrentHashMap.newKeySet();
    private final Future<?> checks;

    /** A claim whose lease is extended until it is removed. */
    static final class Lease {
        private final String ticket;
        private final Job job;
        private final Runnable onLost;
        private final Runnable onCanceled;
        private volatile Deadline until;
        private volatile Deadline nextBeat;

        private Lease(String ticket, Job job, Runnable onLost, Runnable onCanceled) {
            this.ticket = ticket;
            this.job = job;
            this.onLost = onLost;
            this.onCanceled = onCanceled;
        }
    }

    Leases(Queue queue, Duration lease, Timers timers) {
        this.queue = queue;
        this.lease = lease;
        this.timers = timers;
        checks = timers.each(Times.min(lease.dividedBy(CHECKS_PER_LEASE), CHECK), this::check);
    }

    /** Adds a claim, whose lease began at {@code granted}, and whose first heartbeat is due at {@code firstBeat}. */
    Lease add(String ticket, Job job, Deadline granted, Deadline firstBeat, Runnable onLost, Runnable onCanceled) {
        Lease added = new Lease(ticket, job, onLost, onCanceled);
        added.until = granted.plus(Times.certain(lease));
        added.nextBeat = firstBeat;
        held.add(added);
        return added;
    }

    /** Removes a claim, which has ended. */
    void remove(Lease ended) {
        held.remove(ended);
    }

    /** Signals lost leases, and extends those that are due. */
    private void check() {
        List<Lease> due = new ArrayList<>();
        for (Lease one : held) {
            if (one.until.hasPassed()) {
                lose(one);
            } else if (one.nextBeat.hasPassed() && due.size() < Contract.BATCH.max()) {
                // If no answer comes by then, the heartbeat is sent again.
                one.nextBeat = Deadline.in(lease.dividedBy(4));
                due.add(one);
            }
        }
        if (!due.isEmpty()) {
            timers.run(() -> beat(due));
        }
    }

    private void beat(List<Lease> due) {
        Deadline sent = Deadline.now();
        List<Heartbeat> heartbeats = due.stream().map(one -> new Heartbeat(one.ticket, one.job.takeProgress())).toList();
        try {
            List<TaskExtended> outcomes = queue.queues().extend(queue.name(), heartbeats, lease);
            for (int at = 0; at < due.size(); at++) {
                answered(due.get(at), outcomes.get(at), sent);
            }
        } catch (RushgateException failed) {
            Deadline again = Deadline.in(Times.min(lease.dividedBy(CHECKS_PER_LEASE), AGAIN));
            for (int at = 0; at < due.size(); at++) {
                due.get(at).nextBeat = again;
                due.get(at).job.putBack(heartbeats.get(at).progress());
            }
        }
    }

    private void answered(Lease one, TaskExtended outcome, Deadline sent) {
        if (!held.contains(one)) {
            return;
        }
        if (outcome == TaskExtended.LOST) {
            lose(one);
            return;
        }
        one.until = sent.plus(Times.certain(lease)).later(one.until);
        one.nextBeat = sent.plus(lease.dividedBy(3));
        if (outcome == TaskExtended.CANCELLED) {
            one.onCanceled.run();
        }
    }

    private void lose(Lease one) {
        if (held.remove(one)) {
            one.onLost.run();
        }
    }

    @Override
    public void close() {
        checks.cancel(false);
    }
}
