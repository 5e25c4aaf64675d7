import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.rushgate.Cancelled;
import dev.rushgate.ClaimOptions;
import dev.rushgate.ClaimedTask;
import dev.rushgate.ClosedException;
import dev.rushgate.Completed;
import dev.rushgate.Content;
import dev.rushgate.Enqueued;
import dev.rushgate.ForbiddenException;
import dev.rushgate.HeldLock;
import dev.rushgate.InvalidException;
import dev.rushgate.KeyLimits;
import dev.rushgate.Lock;
import dev.rushgate.LockOptions;
import dev.rushgate.NewSale;
import dev.rushgate.NewSchedule;
import dev.rushgate.NewTask;
import dev.rushgate.OnDuplicate;
import dev.rushgate.Outcome;
import dev.rushgate.Page;
import dev.rushgate.Progress;
import dev.rushgate.Queue;
import dev.rushgate.QueueLimits;
import dev.rushgate.Recurrence;
import dev.rushgate.Reservation;
import dev.rushgate.Retried;
import dev.rushgate.Rushgate;
import dev.rushgate.RushgateException;
import dev.rushgate.Sale;
import dev.rushgate.TaskExtended;
import dev.rushgate.TaskReleased;
import dev.rushgate.UnavailableException;
import dev.rushgate.Worker;
import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

class SafetyTest extends Suite {
    private Proxy proxy() throws IOException {
        return new Proxy(target.port());
    }

    /** A client behind a proxy, whose connections are open. */
    private Rushgate behind(Proxy proxy) {
        Rushgate proxied = target.through(proxy).timeout(Duration.ofSeconds(1)).retryFor(WAIT).connect();
        proxied.lock(Target.unique("lock")).acquire().orElseThrow().release();
        return proxied;
    }

    /** Makes calls, each in a thread of its own, all at once. */
    private static <T> List<T> together(List<Callable<T>> calls) throws Exception {
        CountDownLatch begin = new CountDownLatch(1);
        List<Background<T>> results = new ArrayList<>();
        for (Callable<T> call : calls) {
            results.add(async(() -> {
                begin.await();
                return call.call();
            }));
        }
        begin.countDown();
        return all(results);
    }

    @Test
    void callsOfManyThreadsGetTheirOwnAnswers() throws Exception {
        List<String> names = Stream.generate(() -> Target.unique("lock")).limit(200).toList();
        List<Callable<Optional<HeldLock>>> acquisitions = new ArrayList<>();
        names.forEach(name -> acquisitions.add(() -> client.lock(name).acquire()));
        acquisitions.add(() -> client.lock(names.get(0)).acquire());
        List<HeldLock> held = together(acquisitions).stream().flatMap(Optional::stream).toList();
        assertEquals(200, held.size());
        for (HeldLock lock : held) {
            assertEquals(lock.fence(), other.lock(lock.name()).state().holder().fence());
        }
        List<Callable<Boolean>> releases = new ArrayList<>();
        held.forEach(lock -> releases.add(lock::release));
        assertEquals(Set.of(true), Set.copyOf(together(releases)));

        Queue queue = newQueue();
        List<Callable<Enqueued>> enqueues = new ArrayList<>();
        for (int task = 0; task < 200; task++) {
            String id = "task:" + task;
            byte[] payload = new byte[task % 50 == 0 ? 400_000 : 1];
            enqueues.add(() -> queue.enqueue(id, Content.bytes(payload)));
        }
        Set<Long> revisions = new HashSet<>();
        for (Enqueued enqueued : together(enqueues)) {
            revisions.add(assertInstanceOf(Enqueued.Added.class, enqueued).revision());
        }
        assertEquals(200, revisions.size());
        List<Callable<Completed>> completions = new ArrayList<>();
        for (ClaimedTask task : queue.claim(ClaimOptions.DEFAULTS.n(100))) {
            boolean plain = completions.size() % 2 == 0;
            completions.add(() -> plain ? task.complete() : task.complete(Content.json(1)));
        }
        assertEquals(Collections.nCopies(100, Completed.DONE), together(completions));
        assertEquals(List.of(100L, 0L), List.of(queue.stats().ready(), queue.stats().leased()));
    }

    @Test
    void aRefusedCallDoesNotSpoilThoseOfOtherThreads() throws Exception {
        Queue queue = newQueue();
        List<Callable<Boolean>> enqueues = new ArrayList<>();
        for (int task = 0; task < 60; task++) {
            NewTask.Builder builder = NewTask.builder("task:" + task);
            NewTask passed = builder.deadline(Instant.ofEpochSecond(1)).build();
            NewTask fine = NewTask.of("task:" + task, Content.empty());
            boolean refused = task % 10 == 0;
            enqueues.add(() -> {
                if (refused) {
                    assertThrows(InvalidException.class, () -> queue.enqueue(passed));
                } else {
                    assertInstanceOf(Enqueued.Added.class, queue.enqueue(fine));
                }
                return true;
            });
        }
        together(enqueues);
        assertEquals(54, queue.stats().ready());
    }

    @Test
    @Tag(Target.ONCE)
    void callsOfManyThreadsShareCallsOfTheServer() throws Exception {
        Queue queue = newQueue();
        try (Redis store = target.store()) {
            long before = functionCalls(store);
            List<Callable<Boolean>> threads = Collections.nCopies(32, () -> {
                for (int task = 0; task < 100; task++) {
                    queue.enqueue(Target.unique("task"), Content.empty());
                }
                return true;
            });
            together(threads);
            long calls = functionCalls(store) - before;
            assertTrue(calls < 3_200, calls + " calls");
        }
        assertEquals(3_200, queue.stats().ready());
    }

    private static long functionCalls(Redis store) throws IOException {
        String stats = Redis.text(store.command("INFO", "commandstats"));
        return stats.lines().filter(line -> line.startsWith("cmdstat_fcall:"))
                .mapToLong(line -> Long.parseLong(line.replaceAll(".*:calls=(\\d+),.*", "$1"))).sum();
    }

    /** Makes a call whose first answer is lost. */
    private <T> T losing(Proxy proxy, String function, String path, Supplier<T> call) {
        CountDownLatch lost = proxy.lose(target.verb(function, path));
        T answer = call.get();
        assertEquals(0, lost.getCount(), "the first answer was lost");
        return answer;
    }

    @Test
    @Tag(Target.PROXY)
    void aLostAnswerAboutATaskChangesNothingTwice() throws Exception {
        try (Proxy proxy = proxy(); Rushgate proxied = behind(proxy)) {
            Queue queue = proxied.queue(Target.unique("queue"));
            NewTask replacing = NewTask.builder("a").onDuplicate(OnDuplicate.REPLACE).build();
            assertInstanceOf(Enqueued.Added.class,
                    losing(proxy, "queue_enqueue", "/batch", () -> queue.enqueue(replacing)));
            assertEquals(1, queue.stats().ready());
            queue.enqueue("b", Content.empty());
            ClaimedTask task = losing(proxy, "queue_claim", "/claim", () -> queue.claim(WAIT)).orElseThrow();
            assertEquals(List.of("a", 1), List.of(task.id(), task.task().attempt()));
            assertInstanceOf(Retried.Scheduled.class,
                    losing(proxy, "queue_retry", "/retry", () -> task.retry("again", Duration.ofHours(1))));
            ClaimedTask next = queue.claim(WAIT).orElseThrow();
            assertEquals(TaskExtended.EXTENDED, losing(proxy, "queue_extend", "/extend", () -> next.extend()));
            assertEquals(TaskReleased.WAITING, losing(proxy, "queue_release", "/release", () -> next.release()));
            ClaimedTask last = queue.claim(WAIT).orElseThrow();
            assertEquals(1, last.task().attempt());
            assertEquals(Completed.DONE, losing(proxy, "queue_finish", "/complete", () -> last.complete(Content.json(1))));
            assertEquals(List.of(0L, 0L, 1L),
                    List.of(queue.stats().ready(), queue.stats().leased(), queue.stats().scheduled()));
        }
    }

    @Test
    @Tag(Target.PROXY)
    void aLostAnswerAboutALockIsRepeatedWithTheSameToken() throws Exception {
        try (Proxy proxy = proxy(); Rushgate proxied = behind(proxy)) {
            String name = Target.unique("lock");
            HeldLock held = losing(proxy, "lock_acquire", "/acquire", () -> proxied.lock(name).acquire().orElseThrow());
            assertEquals(held.fence(), other.lock(name).state().holder().fence());
            losing(proxy, "lock_extend", "/extend", () -> {
                held.extend();
                return held;
            });
            assertTrue(losing(proxy, "lock_release", "/release", held::release), "one of the latest releases");
            assertTrue(other.lock(name).acquire().isPresent());
        }
    }

    @Test
    @Tag(Target.PROXY)
    void aLostAnswerAboutASaleReservesOnce() throws Exception {
        try (Proxy proxy = proxy(); Rushgate proxied = behind(proxy)) {
            Sale sale = proxied.sale(Target.unique("sale"));
            proxied.createSale(NewSale.builder(sale.id()).sku("phone", 5).build());
            sale.open();
            String reservation = losing(proxy, "sale_reserve", "/reservations",
                    () -> sale.reserve(Reservation.of("ann", "k", "phone", 1))).reservation().orElseThrow().id();
            assertEquals(1, sale.state().sku("phone").held());
            losing(proxy, "sale_confirm", "/confirm", () -> sale.confirm(reservation));
            assertEquals(4, sale.state().sku("phone").free());
        }
    }

    @Test
    @Tag(Target.PROXY)
    void aFailedExtensionIsRepeatedBeforeTheLeaseEnds() throws Exception {
        try (Proxy proxy = proxy();
                Rushgate proxied = target.through(proxy).timeout(Duration.ofSeconds(1)).retryFor(Duration.ofSeconds(1)).connect()) {
            String name = Target.unique("lock");
            HeldLock held = proxied.lock(name, LockOptions.DEFAULTS).acquire().orElseThrow();
            Supplier<Instant> leaseUntil = () -> other.lock(name).state().holder().leaseUntil();
            Instant before = leaseUntil.get();
            proxy.pause();
            // Without an answer, the lease is certain for 4 s. A third of 30 s would be after that.
            assertThrows(UnavailableException.class, () -> held.extend(Duration.ofSeconds(4)));
            proxy.resume();
            until(() -> !held.isHeld() || leaseUntil.get().isAfter(before));
            assertTrue(held.release());
        }
    }

    @Test
    @Tag(Target.PROXY)
    void aConnectionThatStallsIsReplaced() throws Exception {
        try (Proxy proxy = proxy(); Rushgate proxied = behind(proxy)) {
            Queue queue = proxied.queue(Target.unique("queue"));
            CountDownLatch stalled = proxy.stall(target.verb("queue_enqueue", "/batch"));
            assertInstanceOf(Enqueued.Added.class, queue.enqueue("a", Content.empty()));
            assertEquals(0, stalled.getCount());
            assertEquals(1, queue.stats().ready());
        }
    }

    @Test
    @Tag(Target.PROXY)
    void aWorkerOutlivesLostConnections() throws Exception {
        try (Proxy proxy = proxy(); Rushgate proxied = behind(proxy)) {
            Queue queue = newQueue();
            int tasks = 200;
            CountDownLatch left = new CountDownLatch(tasks);
            Worker worker = proxied.worker(queue.name()).concurrency(4).handle("*", job -> {
                left.countDown();
                return Outcome.done();
            }).build();
            var running = worker.start();
            for (int number = 0; number < tasks; number++) {
                queue.enqueue("task:" + number, Content.empty());
                if (number % 50 == 25) {
                    proxy.cutAll();
                }
            }
            assertTrue(left.await(WAIT.toSeconds() * 2, TimeUnit.SECONDS), left.getCount() + " tasks are left");
            worker.stop();
            get(running);
            assertEquals(0, queue.stats().dead());
        }
    }

    @Test
    @Tag(Target.PROXY)
    void aHeldLockAndAWaiterOutliveAShortOutage() throws Exception {
        try (Proxy proxy = proxy(); Rushgate proxied = behind(proxy)) {
            Lock lock = proxied.lock(Target.unique("lock"), LockOptions.DEFAULTS.lease(Duration.ofSeconds(3)));
            Lock direct = other.lock(lock.name());
            HeldLock held = lock.acquire().orElseThrow();
            CountDownLatch lost = new CountDownLatch(1);
            held.onLost(lost::countDown);
            Background<Optional<HeldLock>> waiter = async(() -> lock.acquire(WAIT));
            until(() -> direct.state().waiters().size() == 1);
            Instant before = direct.state().holder().leaseUntil();
            proxy.pause();
            until(() -> proxy.refused() > 0);
            proxy.resume();
            until(() -> direct.state().holder().leaseUntil().isAfter(before));
            until(() -> direct.state().waiters().size() == 1);
            assertEquals(List.of(1L, true), List.of(lost.getCount(), held.isHeld()));
            assertTrue(held.release());
            assertTrue(get(waiter).orElseThrow().fence() > held.fence());
        }
    }

    @Test
    @Tag(Target.PROXY)
    void aLockIsLostInALongOutage() throws Exception {
        try (Proxy proxy = proxy(); Rushgate proxied = behind(proxy)) {
            String name = Target.unique("lock");
            HeldLock held = proxied.lock(name, LockOptions.DEFAULTS.lease(Duration.ofSeconds(1))).acquire().orElseThrow();
            CountDownLatch lost = new CountDownLatch(1);
            held.onLost(lost::countDown);
            proxy.pause();
            HeldLock next = other.lock(name).acquire(WAIT).orElseThrow();
            assertFalse(held.isHeld());
            assertTrue(lost.await(WAIT.toSeconds(), TimeUnit.SECONDS));
            proxy.resume();
            assertFalse(held.release());
            assertTrue(next.release());
        }
    }

    @Test
    @Tag(Target.PROXY)
    void aWaiterIsWokenAfterItsSubscriptionWasLost() throws Exception {
        try (Proxy proxy = proxy(); Rushgate proxied = behind(proxy)) {
            Queue queue = newQueue();
            Background<Optional<ClaimedTask>> claiming = async(() -> proxied.queue(queue.name()).claim(WAIT));
            until(claiming::isAsleep);
            proxy.cutAll();
            queue.enqueue("a", Content.empty());
            assertEquals("a", get(claiming).orElseThrow().id());
        }
    }

    @Test
    @Tag(Target.FUNCTIONS)
    void aServerThatKillsConnectionsLosesNothing() throws Exception {
        Queue queue = newQueue();
        AtomicBoolean over = new AtomicBoolean();
        AtomicLong killed = new AtomicLong();
        Background<Long> killing = async(() -> {
            try (Redis store = target.store()) {
                // In a Cluster, this leads to the node of the queue.
                store.listeners(queue.name());
                while (!over.get()) {
                    for (String type : List.of("normal", "pubsub")) {
                        killed.addAndGet((Long) store.command("CLIENT", "KILL", "TYPE", type, "SKIPME", "yes"));
                    }
                    // Long enough for a connection and a call, with TLS and on a busy machine too.
                    TimeUnit.MILLISECONDS.sleep(50);
                }
            }
            return killed.get();
        });
        try {
            // Fifty tasks may be done before the first connection is killed.
            for (int number = 0; number < 50 || killed.get() < 5 && !killing.isDone(); number++) {
                assertInstanceOf(Enqueued.Added.class, queue.enqueue("task:" + number, Content.empty()));
                ClaimedTask task = queue.claim(WAIT).orElseThrow();
                assertEquals(List.of("task:" + number, 1), List.of(task.id(), task.task().attempt()));
                assertEquals(Completed.DONE, task.complete());
            }
        } finally {
            over.set(true);
        }
        assertTrue(get(killing) >= 5);
    }

    @Test
    void anUnreachableStoreIsAFailureInTime() throws Exception {
        int port;
        try (ServerSocket closed = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
            port = closed.getLocalPort();
        }
        String url = target.url().replaceAll("127\\.0\\.0\\.1:\\d+", "127.0.0.1:" + port);
        long began = System.nanoTime();
        UnavailableException failed = assertThrows(UnavailableException.class, () -> {
            try (Rushgate doomed = Target.builder(url).retryFor(Duration.ofMillis(300)).connect()) {
                doomed.queue("mail").stats();
            }
        });
        assertTrue(failed.isRetryable());
        assertEquals("unavailable", failed.code(), "nothing was sent");
        assertTrue(System.nanoTime() - began < TimeUnit.SECONDS.toNanos(10));
    }

    @Test
    @Tag(Target.PROXY)
    void aServerThatDoesNotAnswerIsAFailureInTime() throws Exception {
        try (ServerSocket silent = new ServerSocket(0, 50, InetAddress.getLoopbackAddress())) {
            String url = target.url().replaceAll("127\\.0\\.0\\.1:\\d+", "127.0.0.1:" + silent.getLocalPort());
            long began = System.nanoTime();
            assertThrows(UnavailableException.class, () -> {
                Rushgate.Builder builder = Target.builder(url).timeout(Duration.ofMillis(300)).retryFor(Duration.ofMillis(300));
                try (Rushgate doomed = builder.connect()) {
                    doomed.queue("mail").stats();
                }
            });
            assertTrue(System.nanoTime() - began < TimeUnit.SECONDS.toNanos(10));
        }
    }

    @Test
    @Tag(Target.SERVER)
    void aWrongTokenIsForbidden() {
        try (Rushgate stranger = Rushgate.builder(target.url()).token("rg_wrong").connect()) {
            assertThrows(ForbiddenException.class, () -> stranger.queue("mail").stats());
        }
    }

    @Test
    @Tag(Target.FUNCTIONS)
    void aWrongPasswordIsForbidden() {
        // The password of a sentinel URL is that of its primary.
        String url = target.url().replace("://", "://nobody:wrong@");
        assertThrows(ForbiddenException.class, () -> Target.builder(url).connect());
    }

    @Test
    void twoClientsNeverShareTheirIdentity() {
        // Clients with the same identity would get the answers to each other's calls.
        String name = Target.unique("queue");
        for (Class<?> outcome : List.of(Enqueued.Added.class, Enqueued.Kept.class)) {
            try (Rushgate one = target.connect()) {
                assertInstanceOf(outcome, one.queue(name).enqueue("a", Content.empty()));
            }
        }
    }

    @Test
    void aClosedClientSaysSo() {
        Rushgate closed = target.connect();
        closed.close();
        assertThrows(ClosedException.class, () -> closed.queue("mail").stats());
        assertThrows(ClosedException.class, () -> closed.lock("nightly").acquire());
    }

    @Test
    void threadsShareAClient() throws Exception {
        Queue queue = newQueue();
        List<CompletableFuture<Integer>> threads = new ArrayList<>();
        for (int thread = 0; thread < 8; thread++) {
            String name = "t" + thread;
            threads.add(async(() -> {
                int completed = 0;
                for (int number = 0; number < 25; number++) {
                    assertInstanceOf(Enqueued.Added.class, queue.enqueue(name + ":" + number, Content.json(name)));
                    ClaimedTask task = queue.claim(WAIT).orElseThrow();
                    assertTrue(task.id().startsWith((String) task.content().json()), "the content of this task");
                    assertEquals(Completed.DONE, task.complete());
                    completed++;
                }
                return completed;
            }));
        }
        assertEquals(200, all(threads).stream().mapToInt(Integer::intValue).sum());
        assertEquals(List.of(0L, 0L), List.of(queue.stats().ready(), queue.stats().leased()));
    }

    @Test
    @Tag(Target.PROXY)
    void badInputIsRefusedAndNotSent() throws Exception {
        // A long timeout, so that no ping counts as a request.
        try (Proxy proxy = proxy(); Rushgate proxied = target.through(proxy).timeout(Duration.ofSeconds(60)).connect()) {
            Queue queue = proxied.queue(Target.unique("queue"));
            queue.enqueue("a", Content.empty());
            ClaimedTask task = queue.claim(WAIT).orElseThrow();
            long before = proxy.requested();
            badCalls(proxied, queue, task).forEach((field, call) -> {
                InvalidException refused = assertThrows(InvalidException.class, call, field);
                assertEquals(field.split(" ")[0], refused.field());
                assertEquals("invalid", refused.code());
            });
            assertEquals(before, proxy.requested(), "nothing was sent");
            assertEquals(Completed.DONE, task.complete());
        }
    }

    private static Map<String, Executable> badCalls(Rushgate proxied, Queue queue, ClaimedTask task) {
        Map<String, Executable> calls = new LinkedHashMap<>();
        List<String> names = List.of("", "a b", "{a}", "..", "x".repeat(201), "a\u200bb", "a\u0000", "\ud800");
        for (String name : names) {
            calls.put("lock " + names.indexOf(name), () -> proxied.lock(name));
            calls.put("queue " + names.indexOf(name), () -> proxied.queue(name));
            calls.put("sale " + names.indexOf(name), () -> proxied.sale(name));
            calls.put("id " + names.indexOf(name), () -> queue.enqueue(name, Content.empty()));
        }
        calls.put("lock null", () -> proxied.lock(null));
        calls.put("work null", () -> proxied.lock("a").run(Duration.ZERO, null));
        calls.put("task null", () -> queue.enqueue(null));
        calls.put("tasks null", () -> queue.enqueueAll(Collections.singletonList(null)));
        calls.put("options null", () -> queue.claim((ClaimOptions) null));
        calls.put("page null", () -> queue.dead(null));
        calls.put("after null", () -> queue.dead(new Page(null, 1)));
        calls.put("result null", () -> task.complete(null));
        calls.put("payload null", () -> Content.bytes(null));
        calls.put("kind null", () -> proxied.worker("a").handle(null, job -> null));
        calls.put("handler null", () -> proxied.worker("a").handle("*", null));
        calls.put("lease", () -> LockOptions.DEFAULTS.lease(Duration.ofMillis(9)));
        calls.put("label", () -> LockOptions.DEFAULTS.label("x".repeat(201)));
        calls.put("wait", () -> proxied.lock("a").acquire(Duration.ofDays(2)));
        calls.put("wait negative", () -> proxied.lock("a").acquire(Duration.ofMillis(-1)));
        calls.put("priority", () -> NewTask.builder("a").priority(10).build());
        calls.put("maxAttempts", () -> NewTask.builder("a").maxAttempts(0).build());
        calls.put("delay", () -> NewTask.builder("a").delay(Duration.ofDays(401)).build());
        calls.put("delay both", () -> NewTask.builder("a").delay(Duration.ZERO).due(Instant.now()).build());
        calls.put("due", () -> NewTask.builder("a").due(Instant.ofEpochSecond(-1)).build());
        calls.put("maxWait", () -> NewTask.builder("a").onDuplicate(OnDuplicate.DEBOUNCE).build());
        calls.put("uniqueFor", () -> NewTask.builder("a").uniqueFor(Duration.ZERO).build());
        calls.put("after", () -> NewTask.builder("a").after(List.of("b")).partOf("c").build());
        calls.put("tasks", () -> queue.enqueueAll(List.of()));
        calls.put("n", () -> queue.claim(ClaimOptions.DEFAULTS.n(1_001)));
        calls.put("result", () -> task.complete(Content.bytes(new byte[65_537])));
        calls.put("delay retry", () -> task.retry("x", Duration.ofDays(401)));
        calls.put("error", () -> task.retry(null, Duration.ZERO));
        calls.put("percent", () -> task.extend(Duration.ofSeconds(1), new Progress(101, "")));
        calls.put("limit", () -> queue.dead(Page.first(0)));
        calls.put("ids", () -> queue.deleteDead(List.of()));
        calls.put("concurrency", () -> QueueLimits.builder().concurrency(0).build());
        calls.put("concurrency per key", () -> new KeyLimits(2, null, true));
        calls.put("cron", () -> new Recurrence(null, null, null, dev.rushgate.Missed.ONCE));
        calls.put("id schedule", () -> queue.saveSchedule("x".repeat(171),
                NewSchedule.of(Recurrence.every(Duration.ofMinutes(1)), Content.empty())));
        calls.put("units", () -> NewSale.builder("a").sku("phone", 0));
        calls.put("skus", () -> NewSale.builder("a").build());
        calls.put("key", () -> Reservation.of("ann", "é", "phone", 1));
        calls.put("quantity", () -> Reservation.of("ann", "k", "phone", 1_001));
        calls.put("lines", () -> Reservation.of("ann", "k", List.of()));
        calls.put("reservation", () -> proxied.sale("a").confirm("xyz"));
        calls.put("url", () -> Rushgate.connect("redis://"));
        calls.put("token", () -> Rushgate.builder("redis://127.0.0.1").token("t").connect());
        return calls;
    }

    @Test
    void whatTheServerRefusesIsATypedFailure() {
        Queue queue = newQueue();
        RushgateException refused = assertThrows(InvalidException.class, () -> queue.enqueue(
                NewTask.builder("a").delay(Duration.ofHours(2)).deadlineAfter(Duration.ofHours(1)).build()));
        assertFalse(refused.isRetryable());
        assertEquals(Cancelled.NOT_FOUND, queue.cancel("a"));
    }
}
