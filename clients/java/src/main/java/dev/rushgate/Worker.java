package dev.rushgate;

import dev.rushgate.RushgateException.Details;
import dev.rushgate.internal.Check;
import dev.rushgate.internal.Deadline;
import dev.rushgate.internal.ErrorText;
import dev.rushgate.internal.Pauses;
import dev.rushgate.internal.Presence;
import dev.rushgate.internal.Tally;
import dev.rushgate.internal.Timers;
import dev.rushgate.internal.Times;
import dev.rushgate.internal.Transport.ClaimRequest;
import dev.rushgate.internal.Transport.Completion;
import dev.rushgate.internal.Transport.Failure;
import dev.rushgate.internal.Transport.Release;
import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.LongAdder;

/**
 * Claims tasks of a queue, runs a handler for each, and reports one outcome per task. A worker runs once.
 *
 * <p>A handler that must stop is interrupted: at its timeout, when its claim is lost, when its task is canceled, and at the
 * end of the grace of a stopped worker. Its outcome is reported at once. Its thread counts as busy until it returns.
 *
 * <p>The worker announces itself to its queue every 10 s, and obeys the operator who quiets or stops it: see
 * {@link Queue#setWorker}.
 */
public final class Worker {
    private static final System.Logger LOGGER = System.getLogger("dev.rushgate");
    private static final String EVERY_KIND = "*";
    /** Longest wait of one claim. */
    private static final Duration CLAIM_WAIT = Duration.ofMinutes(1);
    /** Longest claim whose lease counts from its answer. */
    private static final Duration QUICK = Duration.ofMillis(100);
    /** Time for sending the remaining ends after the last handler has ended. */
    private static final Duration FLUSH = Duration.ofSeconds(5);
    private static final Contract.Range CONCURRENCY = new Contract.Range(1, 10_000);
    private static final Contract.Range TIMEOUT_US = new Contract.Range(1, Contract.DELAY_US.max());

    private final Queue queue;
    private final Timers timers;
    private final Map<String, Route> routes;
    private final int concurrency;
    private final Duration lease;
    private final Duration grace;
    private final String label;
    private final ExecutorService executor;
    private final boolean ownsExecutor;
    private final Semaphore permits;
    private final Map<Counter, LongAdder> counters = new EnumMap<>(Counter.class);
    private final Set<Run> running = ConcurrentHashMap.newKeySet();
    private final Set<String> unreadable = ConcurrentHashMap.newKeySet();
    /** Claims whose ends are not stored yet. */
    private final Tally unsettled = new Tally();
    private final AtomicBoolean started = new AtomicBoolean();
    private final EndBatcher<Completion, Completed> completions;
    private final EndBatcher<Failure, Retried> failures;
    private final EndBatcher<Release, TaskReleased> releases;
    private volatile boolean stopping;
    /** Whether an operator asked the worker to claim nothing. */
    private volatile boolean quiet;
    private volatile boolean hurry;
    private Thread claiming;
    private Leases leases;

    private enum Counter {
        CLAIMED, DONE, DISCARDED, RETRIED, DEAD, RELEASED, CANCELLED, LOST, UNANSWERED
    }

    /** A handler and its settings. The timeout may be null. */
    private record Route(Handler handler, Duration timeout, Backoff backoff) {}

    private Worker(Builder builder) {
        queue = builder.queue;
        timers = builder.timers;
        routes = Map.copyOf(builder.routes());
        concurrency = builder.concurrency;
        lease = builder.lease;
        grace = builder.grace;
        label = builder.label;
        ownsExecutor = builder.executor == null;
        executor = ownsExecutor ? Executors.newCachedThreadPool(Timers.daemons("rushgate-handler")) : builder.executor;
        permits = new Semaphore(concurrency);
        for (Counter counter : Counter.values()) {
            counters.put(counter, new LongAdder());
        }
        completions = new EndBatcher<>(ends -> queue.queues().complete(queue.name(), ends), () -> hurry, timers);
        failures = new EndBatcher<>(ends -> queue.queues().retry(queue.name(), ends), () -> hurry, timers);
        releases = new EndBatcher<>(ends -> queue.queues().release(queue.name(), ends), () -> hurry, timers);
    }

    /** Builds a worker. */
    public static final class Builder {
        private final Queue queue;
        private final Timers timers;
        private final Map<String, Route> handlers = new HashMap<>();
        private int concurrency = 16;
        private Duration lease = Contract.DEFAULT_LEASE;
        private Duration grace = Contract.DEFAULT_GRACE;
        private Duration timeout;
        private Backoff backoff = Backoff.DEFAULTS;
        private String label = Queue.defaultWorker();
        private ExecutorService executor;

        Builder(Queue queue, Timers timers) {
            this.queue = queue;
            this.timers = timers;
        }

        /** Sets the handler for a kind, or with {@code *} for all tasks without another handler. */
        public Builder handle(String kind, Handler handler) {
            return handle(kind, handler, null, null);
        }

        /** The same with its own timeout and retry delay. Null stands for that of the worker. */
        public Builder handle(String kind, Handler handler, Duration timeout, Backoff backoff) {
            if (!EVERY_KIND.equals(kind)) {
                Check.kind(kind);
            }
            Check.optionalMicros("timeout", timeout, TIMEOUT_US);
            Route route = new Route(Check.present("handler", handler), timeout, backoff);
            if (handlers.putIfAbsent(kind, route) != null) {
                throw Check.invalid("kind", "`" + kind + "` has a handler already");
            }
            return this;
        }

        /** How many handlers run at a time: 1 to 10,000. Default: 16. */
        public Builder concurrency(int concurrency) {
            Check.whole("concurrency", concurrency, CONCURRENCY);
            this.concurrency = concurrency;
            return this;
        }

        /** Lease: 10 ms to 24 h. It is extended while the handler runs. Default: 30 s. */
        public Builder lease(Duration lease) {
            Check.micros("lease", lease, Contract.LEASE_US);
            this.lease = lease;
            return this;
        }

        /** Time that handlers have to end after a stop or a cancellation, up to 400 days. Default: 10 s. */
        public Builder grace(Duration grace) {
            Check.micros("grace", grace, Contract.DELAY_US);
            this.grace = grace;
            return this;
        }

        /** Maximum run time, after which the attempt has failed. Default: none. */
        public Builder timeout(Duration timeout) {
            Check.micros("timeout", timeout, TIMEOUT_US);
            this.timeout = timeout;
            return this;
        }

        /** Retry delay of failed attempts. Default: {@link Backoff#DEFAULTS}. */
        public Builder backoff(Backoff backoff) {
            this.backoff = Check.present("backoff", backoff);
            return this;
        }

        /** Name of the worker, as shown to operators: at most 200 bytes. Default: host and process ID. */
        public Builder label(String label) {
            this.label = Check.label("label", label);
            return this;
        }

        /**
         * Runs the handlers. It must have a thread for each handler that runs at a time. Default: threads of the worker. The
         * worker does not shut it down.
         */
        public Builder executor(ExecutorService executor) {
            this.executor = executor;
            return this;
        }

        private Map<String, Route> routes() {
            Map<String, Route> routes = new HashMap<>();
            handlers.forEach((kind, route) -> routes.put(kind, new Route(route.handler(),
                    route.timeout() == null ? timeout : route.timeout(), route.backoff() == null ? backoff : route.backoff())));
            return routes;
        }

        /** The worker, which does nothing until it runs. Throws {@link InvalidException} if it has no handler. */
        public Worker build() {
            if (handlers.isEmpty()) {
                throw Check.invalid("handlers", "are missing");
            }
            return new Worker(this);
        }
    }

    /** Counters of this worker, readable while it runs and after. */
    public WorkerReport report() {
        return new WorkerReport(count(Counter.CLAIMED), count(Counter.DONE), count(Counter.DISCARDED), count(Counter.RETRIED),
                count(Counter.DEAD), count(Counter.RELEASED), count(Counter.CANCELLED), count(Counter.LOST),
                count(Counter.UNANSWERED));
    }

    private long count(Counter counter) {
        return counters.get(counter).sum();
    }

    /** Stops the worker: it claims no more, lets running handlers end within the grace, and returns the other tasks. */
    public synchronized void stop() {
        stopping = true;
        interruptClaim();
    }

    private void interruptClaim() {
        if (claiming != null) {
            claiming.interrupt();
        }
    }

    /** Does what an operator asks. */
    private synchronized void obey(WorkerMode mode) {
        if (mode == WorkerMode.STOP) {
            stop();
        } else if (quiet != (mode == WorkerMode.QUIET)) {
            // The interrupt ends the claim, or the pause.
            quiet = !quiet;
            interruptClaim();
        }
    }

    /** Runs in a separate thread until {@link #stop}. The result is that of {@link #run}. */
    public CompletableFuture<WorkerReport> start() {
        checkFirst();
        CompletableFuture<WorkerReport> ended = new CompletableFuture<>();
        Thread thread = new Thread(() -> {
            try {
                ended.complete(work());
            } catch (RuntimeException | Error failed) {
                ended.completeExceptionally(failed);
            }
        }, "rushgate-worker-" + queue.name());
        thread.start();
        return ended;
    }

    /**
     * Runs until {@link #stop}, or until the thread is interrupted, then shuts down in order. An outage is no failure: the
     * worker waits until it ends. Any other failure of a claim is thrown after the same shutdown.
     */
    public WorkerReport run() {
        CompletableFuture<WorkerReport> ended = start();
        boolean interrupted = false;
        while (true) {
            try {
                return ended.get();
            } catch (InterruptedException stop) {
                interrupted = true;
                stop();
            } catch (ExecutionException failed) {
                throw failed.getCause() instanceof RushgateException cause ? cause : new IllegalStateException(failed);
            } finally {
                if (interrupted && ended.isDone()) {
                    Thread.currentThread().interrupt();
                }
            }
        }
    }

    private void checkFirst() {
        if (!started.compareAndSet(false, true)) {
            throw Check.invalid("worker", "runs already, or has run");
        }
    }

    private WorkerReport work() {
        leases = new Leases(queue, lease, timers);
        timers.run(() -> fireSchedules(new Pauses()));
        Presence presence = new Presence(queue.queues(), queue.name(), label, concurrency, running::size, this::obey);
        boolean announced = timers.run(presence::announceAll);
        try {
            claimAll();
        } finally {
            finish();
            if (announced) {
                presence.leave();
            }
        }
        return report();
    }

    /** Fires the schedules of the queue, again and again. Outages show in the claims. */
    private void fireSchedules(Pauses pauses) {
        if (stopping) {
            return;
        }
        try {
            queue.queues().fireSchedules(queue.name(), this::reportUnreadable)
                    .ifPresent(wait -> timers.after(wait, () -> fireSchedules(new Pauses())));
        } catch (RushgateException failed) {
            if (!failed.isRetryable() && !stopping) {
                LOGGER.log(Level.ERROR, "cannot fire the schedules of the queue " + queue.name(), failed);
            }
            timers.after(failed.isRetryable() ? pauses.draw() : CLAIM_WAIT, () -> fireSchedules(pauses));
        }
    }

    /** Logs each revision once. */
    private void reportUnreadable(String id, long revision, RuntimeException why) {
        if (unreadable.add(id + "@" + revision)) {
            LOGGER.log(Level.ERROR, "cannot fire the schedule " + id + " of the queue " + queue.name(), why);
        }
    }

    /** Claims tasks whenever a handler may start. Only the worker interrupts this thread: to stop, pause or resume the claims. */
    private void claimAll() {
        synchronized (this) {
            claiming = Thread.currentThread();
        }
        Pauses pauses = new Pauses();
        while (!stopping) {
            try {
                awaitWork();
                claim();
                pauses = new Pauses();
            } catch (InterruptedException | WaitInterruptedException changed) {
                // The wait has set the flag again.
                Thread.interrupted();
            } catch (RushgateException failed) {
                if (!failed.isRetryable()) {
                    endClaiming();
                    throw failed;
                }
                Pauses.sleep(pauses.draw());
            }
        }
        endClaiming();
    }

    /** Waits while the worker is quiet. */
    private synchronized void awaitWork() throws InterruptedException {
        while (quiet && !stopping) {
            wait();
        }
    }

    private synchronized void endClaiming() {
        claiming = null;
        // The interrupt was meant for the claim.
        Thread.interrupted();
    }

    private void claim() throws InterruptedException {
        permits.acquire();
        int free = 1 + permits.drainPermits();
        int most = (int) Math.min(free, Contract.BATCH.max());
        int started = 0;
        try {
            Deadline quick = Deadline.in(QUICK);
            List<Task> tasks = queue.queues().claim(queue.name(), new ClaimRequest(most, lease, CLAIM_WAIT, label));
            Deadline granted = Deadline.now();
            // After a wait or a lost answer, nothing says when the lease began. A heartbeat starts it again.
            Deadline firstBeat = quick.hasPassed() ? granted : granted.plus(lease.dividedBy(3));
            counters.get(Counter.CLAIMED).add(tasks.size());
            for (Task task : tasks) {
                unsettled.up();
                if (stopping || quiet) {
                    release(new Run(task), Duration.ZERO);
                } else {
                    start(task, granted, firstBeat);
                    started++;
                }
            }
        } finally {
            permits.release(free - started);
        }
    }

    private void start(Task task, Deadline granted, Deadline firstBeat) {
        Run run = new Run(task);
        running.add(run);
        try {
            run.begin(granted, firstBeat);
        } catch (RejectedExecutionException closed) {
            run.end(Ended.ABORTED);
            run.returned();
        }
    }

    /** Early ends of a run. */
    private enum Ended {
        LOST, CANCELLED, ABORTED, TIMED_OUT
    }

    /** One run of a handler. */
    private final class Run {
        private final Task task;
        private final Job job;
        private final Route route;
        private final AtomicBoolean ended = new AtomicBoolean();
        private final FutureTask<Void> work = new FutureTask<>(this::handle, null);
        private final AtomicBoolean counted = new AtomicBoolean();
        private Leases.Lease held;
        private Future<?> limit;

        Run(Task task) {
            this.task = task;
            job = new Job(queue, task);
            String kind = task.content().kind();
            Route own = kind == null ? null : routes.get(kind);
            route = own == null ? routes.get(EVERY_KIND) : own;
        }

        void begin(Deadline granted, Deadline firstBeat) {
            held = leases.add(task.ticket(), job, granted, firstBeat, () -> end(Ended.LOST), this::cancel);
            Duration longest = longest();
            if (longest != null) {
                limit = timers.after(longest, () -> end(Ended.TIMED_OUT));
            }
            executor.execute(() -> {
                try {
                    work.run();
                } finally {
                    // An interrupt was meant for the handler.
                    Thread.interrupted();
                    returned();
                }
            });
        }

        /** Time until the timeout or the deadline. The claim number is the time of the claim. */
        private Duration longest() {
            Duration timeout = route == null ? null : route.timeout();
            if (task.deadline() == null) {
                return timeout;
            }
            Duration left = Times.since(Times.instant(task.fence()), task.deadline());
            return timeout == null ? left : Times.min(left, timeout);
        }

        private void handle() {
            Outcome outcome;
            try {
                outcome = route == null ? Outcome.retry(unknownKind()) : route.handler().handle(job);
            } catch (Exception | Error failed) {
                outcome = Outcome.retry(ErrorText.of(failed));
            }
            if (ended.compareAndSet(false, true)) {
                settle(this, outcome == null ? Outcome.done() : outcome);
            }
        }

        private String unknownKind() {
            return task.content().kind() == null ? "the worker has no handler for tasks without a kind"
                    : "the worker has no handler for the kind `" + task.content().kind() + "`";
        }

        /** The handler has the grace to end. */
        private void cancel() {
            if (job.stop(new TaskCanceledException("The task `" + task.id() + "` was canceled.", Details.NONE))) {
                work.cancel(true);
                timers.after(grace, () -> end(Ended.CANCELLED));
            }
        }

        /** Ends the run before its handler has ended. */
        void end(Ended how) {
            if (!ended.compareAndSet(false, true)) {
                return;
            }
            job.stop(reason(how));
            work.cancel(true);
            settle(this, how);
        }

        private RushgateException reason(Ended how) {
            return switch (how) {
                case LOST -> new ClaimLostException("The claim of the task `" + task.id() + "` was lost.", Details.NONE);
                case TIMED_OUT -> new HandlerTimeoutException("The handler did not end in time.", Details.NONE);
                default -> new ClosedException("The worker has stopped.", Details.NONE);
            };
        }

        boolean isCanceled() {
            return job.isStopped() && wasCanceled();
        }

        private boolean wasCanceled() {
            try {
                job.checkStopped();
                return false;
            } catch (TaskCanceledException canceled) {
                return true;
            } catch (RushgateException other) {
                return false;
            }
        }

        void returned() {
            if (counted.compareAndSet(false, true)) {
                running.remove(this);
                permits.release();
            }
        }

        /** The end is stored, or cannot be. */
        void settled(Counter counter) {
            counters.get(counter).increment();
            if (held != null) {
                leases.remove(held);
            }
            if (limit != null) {
                limit.cancel(false);
            }
            unsettled.down();
        }
    }

    private void settle(Run run, Ended how) {
        switch (how) {
            case LOST -> run.settled(Counter.LOST);
            case CANCELLED -> complete(run, null, Counter.CANCELLED);
            case ABORTED -> release(run, Duration.ZERO);
            default -> fail(run, ErrorText.of(run.reason(how)), null, false);
        }
    }

    private void settle(Run run, Outcome outcome) {
        if (run.isCanceled()) {
            // A canceled task is over, whatever its handler did.
            complete(run, null, Counter.CANCELLED);
        } else if (outcome instanceof Outcome.Done done) {
            complete(run, done.result(), Counter.DONE);
        } else if (outcome instanceof Outcome.Discarded) {
            complete(run, null, Counter.DISCARDED);
        } else if (outcome instanceof Outcome.Failed failed) {
            fail(run, failed.error(), failed.delay(), false);
        } else if (outcome instanceof Outcome.GivenUp givenUp) {
            fail(run, givenUp.error(), null, true);
        } else if (outcome instanceof Outcome.Snoozed snoozed) {
            release(run, snoozed.delay());
        }
    }

    private void complete(Run run, Content result, Counter as) {
        completions.push(new Completion(run.task.ticket(), result, as == Counter.DISCARDED), outcome ->
                run.settled(outcome == null ? Counter.UNANSWERED : outcome == Completed.STALE ? Counter.LOST : as));
    }

    private void fail(Run run, String error, Duration delay, boolean giveUp) {
        Backoff backoff = run.route == null ? Backoff.DEFAULTS : run.route.backoff();
        Duration after = giveUp ? Duration.ZERO : delay == null ? backoff.draw(run.task.attempt()) : delay;
        failures.push(new Failure(run.task.ticket(), after, ErrorText.of(error), giveUp), outcome ->
                run.settled(counterOf(outcome)));
    }

    private static Counter counterOf(Retried outcome) {
        if (outcome == null) {
            return Counter.UNANSWERED;
        }
        if (outcome instanceof Retried.Dead) {
            return Counter.DEAD;
        }
        if (outcome instanceof Retried.Cancelled) {
            return Counter.CANCELLED;
        }
        return outcome instanceof Retried.Stale ? Counter.LOST : Counter.RETRIED;
    }

    private void release(Run run, Duration delay) {
        releases.push(new Release(run.task.ticket(), delay), outcome -> run.settled(counterOf(outcome)));
    }

    private static Counter counterOf(TaskReleased outcome) {
        if (outcome == null) {
            return Counter.UNANSWERED;
        }
        return switch (outcome) {
            case WAITING -> Counter.RELEASED;
            case CANCELLED -> Counter.CANCELLED;
            default -> Counter.LOST;
        };
    }

    /** Shuts down in order. The heartbeats continue until the last end is stored. */
    private void finish() {
        stopping = true;
        if (!unsettled.awaitZero(grace)) {
            running.forEach(run -> run.end(Ended.ABORTED));
            if (!unsettled.awaitZero(FLUSH)) {
                // After its lease, a task returns to the queue in any case.
                hurry = true;
                unsettled.awaitZero(lease);
            }
        }
        leases.close();
        if (ownsExecutor) {
            executor.shutdownNow();
        }
    }
}
