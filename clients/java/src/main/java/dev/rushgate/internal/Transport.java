package dev.rushgate.internal;

import dev.rushgate.Cancelled;
import dev.rushgate.Closed;
import dev.rushgate.Completed;
import dev.rushgate.Content;
import dev.rushgate.Created;
import dev.rushgate.DeadLetter;
import dev.rushgate.DeadRequeued;
import dev.rushgate.Decision;
import dev.rushgate.Ended;
import dev.rushgate.Enqueued;
import dev.rushgate.Hold;
import dev.rushgate.Holder;
import dev.rushgate.LockState;
import dev.rushgate.NewSale;
import dev.rushgate.NewSchedule;
import dev.rushgate.NewTask;
import dev.rushgate.Page;
import dev.rushgate.Progress;
import dev.rushgate.QueueLimits;
import dev.rushgate.QueueStats;
import dev.rushgate.Rescheduled;
import dev.rushgate.Reservation;
import dev.rushgate.Reserved;
import dev.rushgate.Restored;
import dev.rushgate.Retried;
import dev.rushgate.SaleState;
import dev.rushgate.SaleStatus;
import dev.rushgate.Schedule;
import dev.rushgate.Scheduled;
import dev.rushgate.Task;
import dev.rushgate.TaskExtended;
import dev.rushgate.TaskInfo;
import dev.rushgate.TaskReleased;
import dev.rushgate.Waited;
import dev.rushgate.Why;
import dev.rushgate.WorkerInfo;
import dev.rushgate.WorkerMode;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Optional;

/** What the classes of a client need: one method per verb. Arguments are checked already. */
public interface Transport extends AutoCloseable {
    /** Verbs of locks. */
    Locks locks();

    /** Verbs of queues. */
    Queues queues();

    /** Verbs of sales. */
    Sales sales();

    /** Closes the connections. */
    @Override
    void close();

    /**
     * A granted lock.
     *
     * @param token proof of the acquisition
     * @param fence fencing token
     * @param heldUntil until when the lock is certainly held
     */
    record Grant(String token, long fence, Deadline heldUntil) {}

    /** How to acquire a lock. */
    record AcquireRequest(Duration lease, Duration longestWait, String label, boolean barging) {}

    /** Verbs of locks. */
    interface Locks {
        /** Nothing if another client holds the lock when the wait ends. */
        Optional<Grant> acquire(String name, AcquireRequest request);

        /** Nothing if the token does not hold the lock. */
        Optional<Grant> extend(String name, String token, Duration lease);

        boolean release(String name, String token);

        /** Calls {@code lost} when an operator force-releases the lock, if the transport notices. Returns how to stop. */
        Runnable watch(String token, Runnable lost);

        LockState show(String name);

        Optional<Holder> forceRelease(String name);
    }

    /** How to claim tasks. */
    record ClaimRequest(int n, Duration lease, Duration longestWait, String worker) {}

    /** A claim that ends with success. The result may be null. */
    record Completion(String ticket, Content result, boolean discarded) {}

    /** A claim that ends with a failed attempt. */
    record Failure(String ticket, Duration delay, String error, boolean giveUp) {}

    /** A claim that ends without an attempt. */
    record Release(String ticket, Duration delay) {}

    /** A claim that continues. The progress may be null. */
    record Heartbeat(String ticket, Progress progress) {}

    /** What a worker says of itself. */
    record Announcement(String id, String name, String version, int concurrency, int running, Duration lease) {}

    /** Verbs of queues. An empty list of IDs of dead letters stands for all. */
    interface Queues {
        List<Enqueued> enqueue(String queue, List<NewTask> tasks);

        List<Task> claim(String queue, ClaimRequest request);

        List<Completed> complete(String queue, List<Completion> completions);

        List<Retried> retry(String queue, List<Failure> failures);

        List<TaskReleased> release(String queue, List<Release> releases);

        List<TaskExtended> extend(String queue, List<Heartbeat> heartbeats, Duration lease);

        Cancelled cancel(String queue, String id);

        List<Task> top(String queue, int n);

        List<Task> pop(String queue, int n);

        /** Whether the task was removed. */
        boolean dequeue(String queue, String ticket);

        /** One of the delay and the due time is null. */
        Rescheduled reschedule(String queue, String id, Duration delay, Instant due);

        Optional<TaskInfo> task(String queue, String id);

        /** Nothing if the task is live after the wait. */
        Optional<Ended> waitFor(String queue, String id, Duration wait);

        List<Why> why(String queue, String id);

        Closed closeBatch(String queue, String id);

        List<String> dependents(String queue, String id, int n);

        List<Waited> waited(String queue, String id, Page page);

        /** When the window would have ended. Empty if the ID has none. */
        Optional<Instant> clearUnique(String queue, String id);

        QueueStats stats(String queue);

        void limit(String queue, QueueLimits limits);

        void pause(String queue, boolean paused);

        List<DeadLetter> dead(String queue, Page page);

        DeadRequeued requeueDead(String queue, List<String> ids);

        long deleteDead(String queue, List<String> ids);

        Scheduled saveSchedule(String queue, String id, NewSchedule schedule);

        List<Schedule> schedules(String queue, Page page);

        boolean deleteSchedule(String queue, String id);

        /** Announces a worker. Returns what an operator asks of it. */
        WorkerMode announce(String queue, Announcement worker);

        /** Says that a worker has ended. */
        void endWorker(String queue, String id);

        List<WorkerInfo> workers(String queue, Page page);

        /** False if the worker is not listed. */
        boolean setWorker(String queue, String id, WorkerMode mode);

        /**
         * Fires due schedules. The result is the time until the next look; empty if the server fires schedules. A schedule that
         * cannot be read stays due, for other programs.
         */
        default Optional<Duration> fireSchedules(String queue, Unreadable unreadable) {
            return Optional.empty();
        }
    }

    /** Gets a schedule that cannot be read. Its revision is 0 if nothing of it can. */
    interface Unreadable {
        void report(String id, long revision, RuntimeException why);
    }

    /** Verbs of sales. */
    interface Sales {
        Created create(NewSale sale);

        SaleStatus open(String id);

        SaleStatus end(String id);

        SaleState show(String id);

        Reserved reserve(String id, Reservation reservation);

        Decision confirm(String id, String reservation);

        Decision cancel(String id, String reservation);

        Optional<Hold> reservation(String id, String reservation);

        /** The reservation when it is final, or after the wait. */
        Optional<Hold> waitFinal(String id, String reservation, Duration wait);

        Restored restore(String id, String receipt);
    }
}
