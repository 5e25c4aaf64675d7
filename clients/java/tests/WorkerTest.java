import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.rushgate.Backoff;
import dev.rushgate.Cancelled;
import dev.rushgate.ClaimLostException;
import dev.rushgate.ClaimedTask;
import dev.rushgate.Content;
import dev.rushgate.DeadLetter;
import dev.rushgate.Ended;
import dev.rushgate.HandlerTimeoutException;
import dev.rushgate.InvalidException;
import dev.rushgate.Job;
import dev.rushgate.NewTask;
import dev.rushgate.Outcome;
import dev.rushgate.Page;
import dev.rushgate.Progress;
import dev.rushgate.Queue;
import dev.rushgate.QueueLimits;
import dev.rushgate.Rushgate;
import dev.rushgate.RushgateException;
import dev.rushgate.TaskCanceledException;
import dev.rushgate.TaskInfo;
import dev.rushgate.TaskState;
import dev.rushgate.Worker;
import dev.rushgate.WorkerInfo;
import dev.rushgate.WorkerMode;
import dev.rushgate.WorkerReport;
import dev.rushgate.internal.Presence;
import java.io.InputStream;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

class WorkerTest extends Suite {
    private static final Backoff AT_ONCE = Backoff.constant(Duration.ofMillis(1));
    private Queue queue;
    private Worker worker;
    private CompletableFuture<WorkerReport> running;

    @BeforeEach
    void create() {
        Presence.each = Duration.ofMillis(50);
        queue = newQueue();
        queue.limit(QueueLimits.builder().retention(Duration.ofHours(1), 1_000).build());
    }

    @AfterEach
    void stop() {
        if (worker != null) {
            worker.stop();
        }
    }

    private Worker.Builder builder() {
        return client.worker(queue.name()).backoff(AT_ONCE);
    }

    private void start(Worker.Builder builder) {
        worker = builder.build();
        running = worker.start();
    }

    private WorkerReport stopped() throws Exception {
        worker.stop();
        return get(running);
    }

    private Ended ended(String id) {
        return queue.waitFor(id, WAIT).orElseThrow();
    }

    private static void pause() throws InterruptedException {
        new CountDownLatch(1).await();
    }

    @Test
    void tasksGoToTheHandlersOfTheirKinds() throws Exception {
        List<String> handled = Collections.synchronizedList(new ArrayList<>());
        start(builder().handle("mail:welcome", job -> {
            handled.add("welcome " + job.json());
            return Outcome.done(Content.json(job.attempt()));
        }).handle("*", job -> {
            handled.add("any " + job.kind());
            return Outcome.discard();
        }));
        queue.enqueue("a", Content.json("ann").withKind("mail:welcome"));
        queue.enqueue("b", Content.empty().withKind("other"));
        Ended.Finished first = assertInstanceOf(Ended.Finished.class, ended("a"));
        assertEquals(1L, first.task().finished().result().json());
        ended("b");
        WorkerReport report = stopped();
        assertEquals(Set.of("welcome ann", "any other"), Set.copyOf(handled));
        assertEquals(List.of(2L, 1L, 1L), List.of(report.claimed(), report.done(), report.discarded()));
    }

    @Test
    void aFailedAttemptIsRetriedWithTheTraceAsItsError() throws Exception {
        AtomicInteger attempts = new AtomicInteger();
        AtomicReference<TaskInfo> seen = new AtomicReference<>();
        start(builder().handle("*", job -> {
            if (attempts.incrementAndGet() < 3) {
                throw new IllegalStateException("broken", new IllegalArgumentException("root cause"));
            }
            seen.set(queue.task(job.id()).orElseThrow());
            return Outcome.done();
        }));
        queue.enqueue("a", Content.empty());
        ended("a");
        String error = seen.get().past().get(1).error();
        assertTrue(seen.get().error().contains("IllegalStateException: broken\n\tat WorkerTest."), seen.get().error());
        assertTrue(seen.get().error().contains("Caused by: java.lang.IllegalArgumentException: root cause"));
        assertTrue(error.startsWith("java.lang.IllegalStateException"), error);
        WorkerReport report = stopped();
        assertEquals(List.of(3L, 2L, 1L), List.of(report.claimed(), report.retried(), report.done()));
    }

    @Test
    void aTaskThatKeepsFailingIsADeadLetterWithItsContent() throws Exception {
        start(builder().handle("*", job -> Outcome.done(Content.json(job.json()))));
        Content undecodable = Content.of("{no json".getBytes(), "application/json").withKind("k");
        queue.enqueue(NewTask.builder("a").content(undecodable).maxAttempts(3).build());
        Ended.Dead dead = assertInstanceOf(Ended.Dead.class, ended("a"));
        assertEquals(3, dead.attempts());
        assertTrue(dead.error().contains("CorruptException"), dead.error());
        DeadLetter letter = queue.dead(Page.first(1)).get(0);
        assertEquals(undecodable, letter.content(), "nothing is lost");
        WorkerReport report = stopped();
        assertEquals(List.of(2L, 1L), List.of(report.retried(), report.dead()));
    }

    @Test
    void handlersDecideAboutTheirTasks() throws Exception {
        AtomicInteger snoozed = new AtomicInteger();
        start(builder().handle("give-up", job -> Outcome.giveUp("never"))
                .handle("snooze", job -> snoozed.incrementAndGet() == 1 ? Outcome.snooze(Duration.ofMillis(1))
                        : Outcome.done(Content.json(job.attempt())))
                .handle("later", job -> Outcome.retry("not yet", Duration.ofHours(1))));
        queue.enqueue("a", Content.empty().withKind("give-up"));
        queue.enqueue("b", Content.empty().withKind("snooze"));
        queue.enqueue("c", Content.empty().withKind("later"));
        queue.enqueue(NewTask.builder("d").kind("none").maxAttempts(1).build());
        assertEquals("never", assertInstanceOf(Ended.Dead.class, ended("a")).error());
        Ended.Finished second = assertInstanceOf(Ended.Finished.class, ended("b"));
        assertEquals(1L, second.task().finished().result().json(), "the attempt did not count");
        assertTrue(assertInstanceOf(Ended.Dead.class, ended("d")).error().contains("no handler for the kind `none`"));
        until(() -> queue.task("c").orElseThrow().state() == TaskState.SCHEDULED);
        assertEquals("not yet", queue.task("c").orElseThrow().error());
        stopped();
    }

    @Test
    void aTimeoutFailsTheAttemptAndInterruptsTheHandler() throws Exception {
        CompletableFuture<RushgateException> reason = new CompletableFuture<>();
        start(builder().handle("*", job -> {
            try {
                pause();
            } catch (InterruptedException stop) {
                reason.complete(assertThrows(RushgateException.class, job::checkStopped));
            }
            return Outcome.done();
        }, Duration.ofMillis(100), null));
        queue.enqueue(NewTask.builder("a").maxAttempts(1).build());
        assertTrue(assertInstanceOf(Ended.Dead.class, ended("a")).error().contains("did not end in time"));
        assertInstanceOf(HandlerTimeoutException.class, get(reason));
        assertEquals(1, stopped().dead());
    }

    @Test
    void aDeadlineStopsTheHandler() throws Exception {
        start(builder().handle("*", job -> {
            pause();
            return Outcome.done();
        }));
        queue.enqueue(NewTask.builder("a").deadlineAfter(Duration.ofMillis(300)).build());
        assertInstanceOf(Ended.Dead.class, ended("a"));
        stopped();
    }

    @Test
    void aCanceledTaskIsOver() throws Exception {
        CountDownLatch began = new CountDownLatch(1);
        CompletableFuture<RushgateException> reason = new CompletableFuture<>();
        start(builder().lease(Duration.ofSeconds(2)).handle("*", job -> {
            began.countDown();
            try {
                pause();
            } catch (InterruptedException stop) {
                reason.complete(assertThrows(RushgateException.class, job::checkStopped));
            }
            throw new IllegalStateException("ignored");
        }));
        queue.enqueue("a", Content.empty());
        assertTrue(began.await(WAIT.toSeconds(), TimeUnit.SECONDS));
        assertEquals(Cancelled.MARKED, queue.cancel("a"));
        assertInstanceOf(TaskCanceledException.class, get(reason));
        until(() -> queue.stats().leased() == 0);
        assertEquals(0, queue.stats().dead());
        assertEquals(1, stopped().cancelled());
    }

    @Test
    @Tag(Target.PROXY)
    void aLostClaimStopsItsHandler() throws Exception {
        try (Proxy proxy = new Proxy(target.port()); Rushgate proxied = target.through(proxy).connect()) {
            CountDownLatch began = new CountDownLatch(1);
            CompletableFuture<RushgateException> reason = new CompletableFuture<>();
            start(proxied.worker(queue.name()).lease(Duration.ofMillis(600)).handle("*", job -> {
                began.countDown();
                try {
                    pause();
                } catch (InterruptedException stop) {
                    reason.complete(assertThrows(RushgateException.class, job::checkStopped));
                }
                return Outcome.done();
            }));
            queue.enqueue("a", Content.empty());
            assertTrue(began.await(WAIT.toSeconds(), TimeUnit.SECONDS));
            proxy.pause();
            assertInstanceOf(ClaimLostException.class, get(reason));
            ClaimedTask next = queue.claim(WAIT).orElseThrow();
            assertEquals(2, next.task().attempt());
            next.complete();
            proxy.resume();
            assertEquals(1, stopped().lost());
        }
    }

    @Test
    void asManyHandlersRunAsTheConcurrencyAllows() throws Exception {
        int concurrency = 3;
        CountDownLatch all = new CountDownLatch(concurrency);
        CountDownLatch end = new CountDownLatch(1);
        AtomicInteger running = new AtomicInteger();
        AtomicInteger most = new AtomicInteger();
        start(builder().concurrency(concurrency).handle("*", job -> {
            most.accumulateAndGet(running.incrementAndGet(), Math::max);
            all.countDown();
            end.await();
            running.decrementAndGet();
            return Outcome.done();
        }));
        List<NewTask> tasks = new ArrayList<>();
        for (int number = 0; number < 3 * concurrency; number++) {
            tasks.add(NewTask.of("task:" + number, Content.empty()));
        }
        queue.enqueueAll(tasks);
        assertTrue(all.await(WAIT.toSeconds(), TimeUnit.SECONDS));
        assertEquals(List.of(3L, 6L), List.of(queue.stats().leased(), queue.stats().ready()));
        end.countDown();
        until(() -> worker.report().done() == tasks.size());
        assertEquals(concurrency, most.get());
        stopped();
    }

    @Test
    void heartbeatsKeepTheClaimAndSendProgress() throws Exception {
        CountDownLatch end = new CountDownLatch(1);
        Duration lease = Duration.ofSeconds(2);
        start(builder().lease(lease).handle("*", job -> {
            job.progress(new Progress(50, "halfway"));
            end.await();
            return Outcome.done();
        }));
        queue.enqueue("a", Content.empty());
        until(() -> queue.task("a").orElseThrow().progress() != null);
        assertEquals(new Progress(50, "halfway"), queue.task("a").orElseThrow().progress());
        Instant first = queue.task("a").orElseThrow().leaseUntil();
        until(() -> queue.task("a").orElseThrow().leaseUntil().isAfter(first.plus(lease)));
        end.countDown();
        ended("a");
        WorkerReport report = stopped();
        assertEquals(List.of(1L, 1L, 0L), List.of(report.claimed(), report.done(), report.lost()));
    }

    @Test
    void aStopLetsRunningHandlersEnd() throws Exception {
        CountDownLatch began = new CountDownLatch(1);
        CountDownLatch end = new CountDownLatch(1);
        start(builder().concurrency(1).handle("*", job -> {
            began.countDown();
            end.await();
            return Outcome.done();
        }));
        queue.enqueue("a", Content.empty());
        assertTrue(began.await(WAIT.toSeconds(), TimeUnit.SECONDS));
        queue.enqueue("b", Content.empty());
        worker.stop();
        end.countDown();
        WorkerReport report = get(running);
        assertEquals(List.of(1L, 1L), List.of(report.claimed(), report.done()));
        assertEquals(1, queue.stats().ready(), "the other task was not touched");
    }

    @Test
    void aHandlerThatOutlastsTheGraceIsReleasedWithoutAnAttempt() throws Exception {
        CountDownLatch began = new CountDownLatch(1);
        start(builder().grace(Duration.ofMillis(100)).handle("*", job -> {
            began.countDown();
            pause();
            return Outcome.done();
        }));
        queue.enqueue("a", Content.empty());
        assertTrue(began.await(WAIT.toSeconds(), TimeUnit.SECONDS));
        assertEquals(1, stopped().released());
        assertEquals(1, queue.claim(WAIT).orElseThrow().task().attempt());
    }

    @Test
    void aWorkerThatWaitsForTasksStopsAtOnce() throws Exception {
        start(builder().handle("*", job -> Outcome.done()));
        queue.enqueue("a", Content.empty());
        ended("a");
        long began = System.nanoTime();
        assertEquals(1, stopped().done());
        assertTrue(System.nanoTime() - began < TimeUnit.SECONDS.toNanos(5));
    }

    @Test
    void runEndsWhenItsThreadIsInterrupted() throws Exception {
        worker = builder().handle("*", job -> Outcome.done()).build();
        Background<Boolean> ran = async(() -> {
            assertEquals(1, worker.run().done());
            return Thread.interrupted();
        });
        queue.enqueue("a", Content.empty());
        ended("a");
        ran.interrupt();
        assertTrue(get(ran), "the flag is set again");
        assertThrows(InvalidException.class, worker::run, "a worker runs once");
    }

    @Test
    void aHandlerGetsTheResultsOfDependencies() throws Exception {
        start(builder().handle("*", job -> Outcome.done(Content.json(job.results().size()))));
        List<NewTask> tasks = new ArrayList<>();
        List<String> parts = new ArrayList<>();
        for (int part = 0; part < 120; part++) {
            parts.add("part:" + part);
            tasks.add(NewTask.of("part:" + part, Content.empty()));
        }
        tasks.add(NewTask.builder("sum").after(parts).build());
        queue.enqueueAll(tasks);
        Ended.Finished sum = assertInstanceOf(Ended.Finished.class, ended("sum"));
        assertEquals(120L, sum.task().finished().result().json());
        stopped();
    }

    @Test
    void twoWorkersRunEachTaskOnce() throws Exception {
        Set<String> handled = ConcurrentHashMap.newKeySet();
        AtomicInteger runs = new AtomicInteger();
        int tasks = 300;
        CountDownLatch left = new CountDownLatch(tasks);
        ExecutorService executor = Executors.newFixedThreadPool(8);
        start(builder().concurrency(8).executor(executor).handle("*", job -> run(job, handled, runs, left)));
        Worker second = other.worker(queue.name()).concurrency(4).handle("*", job -> run(job, handled, runs, left)).build();
        CompletableFuture<WorkerReport> secondRunning = second.start();
        for (int part = 0; part < tasks / 100; part++) {
            List<NewTask> batch = new ArrayList<>();
            for (int number = 0; number < 100; number++) {
                batch.add(NewTask.of("task:" + part + ":" + number, Content.json(number)));
            }
            queue.enqueueAll(batch);
        }
        assertTrue(left.await(WAIT.toSeconds(), TimeUnit.SECONDS));
        second.stop();
        WorkerReport report = stopped();
        assertEquals(tasks, report.done() + get(secondRunning).done());
        assertEquals(List.of(tasks, tasks), List.of(handled.size(), runs.get()));
        executor.shutdown();
    }

    private static Outcome run(Job job, Set<String> handled, AtomicInteger runs, CountDownLatch left) {
        handled.add(job.id());
        runs.incrementAndGet();
        left.countDown();
        return Outcome.done();
    }

    @Test
    void settingsOutOfRangeAreRefused() {
        assertThrows(InvalidException.class, () -> builder().build());
        assertThrows(InvalidException.class, () -> builder().concurrency(0));
        assertThrows(InvalidException.class, () -> builder().handle("two words", job -> Outcome.done()));
        assertThrows(InvalidException.class, () -> builder().handle("a", job -> null).handle("a", job -> null));
        assertThrows(InvalidException.class, () -> new Backoff(Duration.ofSeconds(1), 0.5, Duration.ofSeconds(1), true));
        assertThrows(InvalidException.class, () -> Outcome.done(Content.bytes(new byte[65_537])));
    }

    /** The worker of the queue, once it has announced itself {@code n} times more. */
    private WorkerInfo announced(int n) throws Exception {
        AtomicReference<WorkerInfo> seen = new AtomicReference<>();
        for (int time = 0; time <= n; time++) {
            until(() -> {
                List<WorkerInfo> workers = queue.workers(Page.first(10));
                WorkerInfo before = seen.get();
                if (workers.isEmpty() || before != null && !workers.get(0).seen().isAfter(before.seen())) {
                    return false;
                }
                seen.set(workers.get(0));
                return true;
            });
        }
        return seen.get();
    }

    @Test
    void anOperatorSeesQuietsAndStopsAWorker() throws Exception {
        start(builder().label("shop").concurrency(3).handle("*", job -> Outcome.done(Content.json(1))));
        WorkerInfo seen = announced(0);
        assertEquals(List.of("shop", 3, 0, WorkerMode.WORK, "rushgate-java " + Rushgate.VERSION),
                List.of(seen.name(), seen.concurrency(), seen.running(), seen.mode(), seen.version()));
        assertTrue(seen.id().matches("[0-9a-f]{16}"), seen.id());
        Duration lease = Duration.between(seen.seen(), seen.leaseUntil());
        assertTrue(lease.minusSeconds(30).abs().compareTo(Duration.ofSeconds(1)) < 0, lease.toString());
        assertTrue(queue.setWorker(seen.id(), WorkerMode.QUIET));
        // After two more announcements, the worker has the answer of the first.
        announced(3);
        queue.enqueue("a", Content.empty());
        assertEquals(WorkerMode.QUIET, announced(3).mode());
        assertEquals(TaskState.READY, queue.task("a").orElseThrow().state());
        assertTrue(queue.setWorker(seen.id(), WorkerMode.WORK));
        ended("a");
        assertTrue(queue.setWorker(seen.id(), WorkerMode.STOP));
        assertEquals(1, get(running).done());
        assertEquals(List.of(), queue.workers(Page.first(10)));
        assertFalse(queue.setWorker(seen.id(), WorkerMode.WORK));
        assertThrows(InvalidException.class, () -> queue.setWorker(seen.id(), null));
    }

    @Test
    void aBusyWorkerIsQuietedWhileItsTasksContinue() throws Exception {
        CountDownLatch end = new CountDownLatch(1);
        start(builder().concurrency(1).handle("*", job -> {
            end.await();
            return Outcome.done();
        }));
        queue.enqueue("a", Content.empty());
        until(() -> announced(1).running() == 1);
        queue.setWorker(announced(0).id(), WorkerMode.QUIET);
        announced(3);
        end.countDown();
        ended("a");
        queue.enqueue("b", Content.empty());
        assertEquals(WorkerMode.QUIET, announced(3).mode());
        assertEquals(List.of(1L, 1L), List.of(worker.report().claimed(), stopped().done()));
    }

    @Test
    @Tag(Target.PLAIN_PROXY)
    void aServerWithoutAnnouncementsStopsNoWorkerAndIsLoggedOnce() throws Exception {
        try (Proxy proxy = new Proxy(target.port()); Rushgate through = target.through(proxy).connect()) {
            // As an older server answers: it has no such function, and no such route.
            proxy.replace("queue_announce", "queue_unknownn");
            proxy.replace("/workers/", "/unknown/");
            worker = through.worker(queue.name()).handle("*", job -> {
                until(() -> proxy.replaced() >= 3);
                return Outcome.done();
            }).build();
            List<String> logged = logged(queue.name(), () -> {
                running = worker.start();
                queue.enqueue("a", Content.empty());
                ended("a");
                return stopped();
            });
            assertEquals(1, get(running).done());
            assertEquals(List.of("cannot announce the worker to the queue " + queue.name()), logged);
        }
    }

    @Test
    @Tag(Target.ONCE)
    void theVersionIsThatOfThePackage() throws Exception {
        Properties properties = new Properties();
        try (InputStream in = Rushgate.class.getResourceAsStream("/META-INF/maven/dev.rushgate/rushgate/pom.properties")) {
            properties.load(in);
        }
        assertEquals(properties.getProperty("version"), Rushgate.VERSION);
    }

    @Test
    void aClosedClientEndsTheWorker() throws Exception {
        Worker doomed = other.worker(queue.name()).handle("*", job -> Outcome.done()).build();
        CompletableFuture<WorkerReport> ends = doomed.start();
        queue.enqueue("a", Content.empty());
        ended("a");
        other.close();
        assertInstanceOf(RushgateException.class, assertThrows(ExecutionException.class, () -> get(ends)).getCause());
    }
}
