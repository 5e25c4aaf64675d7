import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.rushgate.HeldLock;
import dev.rushgate.Lock;
import dev.rushgate.LockBusyException;
import dev.rushgate.LockLostException;
import dev.rushgate.LockOptions;
import dev.rushgate.Rushgate;
import dev.rushgate.WaitInterruptedException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class LocksTest extends Suite {
    private static final Duration SHORT = Duration.ofMillis(400);
    private final String name = Target.unique("lock");

    @Test
    void aHeldLockExcludesOtherClientsAndThreadsUntilItIsReleased() {
        HeldLock held = client.lock(name).acquire().orElseThrow();
        assertTrue(held.isHeld());
        assertTrue(other.lock(name).acquire().isEmpty());
        assertTrue(client.lock(name).acquire().isEmpty());
        assertTrue(held.release());
        assertTrue(held.release(), "the same answer");
        assertFalse(held.isHeld());
        try (HeldLock next = other.lock(name).acquire().orElseThrow()) {
            assertTrue(next.fence() > held.fence());
        }
    }

    @Test
    void aWaiterIsWokenByTheRelease() throws Exception {
        Duration shortest = WAIT;
        // On a busy machine, one of several rounds shows it.
        for (int round = 0; round < 3 && shortest.compareTo(Duration.ofMillis(900)) > 0; round++) {
            HeldLock held = client.lock(name).acquire().orElseThrow();
            Background<Optional<HeldLock>> waiter = async(() -> other.lock(name).acquire(WAIT));
            until(() -> client.lock(name).state().waiters().size() == 1);
            until(waiter::isAsleep);
            long began = System.nanoTime();
            held.release();
            HeldLock next = get(waiter).orElseThrow();
            shortest = Duration.ofNanos(System.nanoTime() - began);
            assertTrue(next.release());
        }
        assertTrue(shortest.toMillis() < 900, "before the waiter would have asked again: " + shortest);
    }

    @Test
    void waitersGetTheLockInTheOrderOfTheirArrival() throws Exception {
        HeldLock held = client.lock(name).acquire().orElseThrow();
        List<Integer> order = Collections.synchronizedList(new ArrayList<>());
        List<CompletableFuture<Boolean>> waiters = new ArrayList<>();
        for (int number = 0; number < 5; number++) {
            int waiter = number;
            Rushgate waiting = number % 2 == 0 ? client : other;
            waiters.add(async(() -> {
                try (HeldLock mine = waiting.lock(name).acquire(WAIT).orElseThrow()) {
                    return order.add(waiter);
                }
            }));
            until(() -> client.lock(name).state().waiters().size() == waiter + 1);
        }
        held.release();
        all(waiters);
        assertEquals(List.of(0, 1, 2, 3, 4), order);
    }

    @Test
    void anEndedWaitLeavesTheWaitQueue() {
        try (HeldLock held = client.lock(name).acquire().orElseThrow()) {
            assertTrue(other.lock(name).acquire(Duration.ofMillis(200)).isEmpty());
            assertTrue(client.lock(name).state().waiters().isEmpty());
        }
    }

    @Test
    void anInterruptedWaiterLeavesTheWaitQueue() throws Exception {
        HeldLock held = client.lock(name).acquire().orElseThrow();
        Background<Boolean> waiter = async(() -> {
            assertThrows(WaitInterruptedException.class, () -> other.lock(name).acquire(WAIT));
            return Thread.interrupted();
        });
        until(() -> client.lock(name).state().waiters().size() == 1);
        waiter.interrupt();
        assertTrue(get(waiter), "the flag is set again");
        until(() -> client.lock(name).state().waiters().isEmpty());
        held.release();
        assertTrue(client.lock(name).acquire(WAIT).isPresent());
    }

    @Test
    void aHeldLockIsRenewedForAsLongAsItIsHeld() throws Exception {
        Duration lease = Duration.ofSeconds(2);
        HeldLock held = client.lock(name, LockOptions.DEFAULTS.lease(lease)).acquire().orElseThrow();
        Instant first = client.lock(name).state().holder().leaseUntil();
        until(() -> client.lock(name).state().holder().leaseUntil().isAfter(first.plus(lease)));
        assertTrue(other.lock(name).acquire().isEmpty());
        assertTrue(held.isHeld());
        assertTrue(held.release());
    }

    @Test
    void theLostSignalComesBeforeAnotherClientGetsTheLock() throws Exception {
        HeldLock held = client.lock(name, LockOptions.DEFAULTS.lease(SHORT).withoutRenewal()).acquire().orElseThrow();
        CountDownLatch lost = new CountDownLatch(1);
        held.onLost(lost::countDown);
        HeldLock next = other.lock(name).acquire(WAIT).orElseThrow();
        assertFalse(held.isHeld());
        assertTrue(lost.await(1, TimeUnit.SECONDS));
        assertFalse(held.release());
        assertThrows(LockLostException.class, held::extend);
        CountDownLatch late = new CountDownLatch(1);
        held.onLost(late::countDown);
        assertTrue(late.await(1, TimeUnit.SECONDS), "at once if the lock was lost already");
        assertTrue(next.release());
    }

    @Test
    void aForcedReleaseSignalsTheLoss() throws Exception {
        HeldLock held = client.lock(name, LockOptions.DEFAULTS.lease(Duration.ofSeconds(target.isHttp() ? 1 : 60)).label("report"))
                .acquire().orElseThrow();
        CountDownLatch lost = new CountDownLatch(1);
        held.onLost(lost::countDown);
        assertEquals("report", other.lock(name).forceRelease().orElseThrow().label());
        assertTrue(lost.await(10, TimeUnit.SECONDS));
        assertFalse(held.release());
    }

    @Test
    void anExtensionSetsTheLeaseOfRenewals() throws Exception {
        HeldLock held = client.lock(name, LockOptions.DEFAULTS.lease(Duration.ofMinutes(1))).acquire().orElseThrow();
        held.extend(Duration.ofSeconds(2));
        Instant first = client.lock(name).state().holder().leaseUntil();
        until(() -> client.lock(name).state().holder().leaseUntil().isAfter(first.plusSeconds(1)));
        assertTrue(held.leaseLeft().compareTo(Duration.ofSeconds(2)) < 0);
        assertTrue(held.release());
    }

    @Test
    void aLockIsLostAtTheEndOfAShorterLease() throws Exception {
        HeldLock held = client.lock(name, LockOptions.DEFAULTS.withoutRenewal()).acquire().orElseThrow();
        CountDownLatch lost = new CountDownLatch(1);
        held.onLost(lost::countDown);
        held.extend(SHORT);
        HeldLock next = other.lock(name).acquire(WAIT).orElseThrow();
        assertFalse(held.isHeld());
        assertTrue(lost.await(1, TimeUnit.SECONDS));
        assertThrows(LockLostException.class, held::extend);
        assertTrue(next.release());
    }

    @Test
    void aCallIsNotInterrupted() {
        HeldLock held = client.lock(name).acquire().orElseThrow();
        Thread.currentThread().interrupt();
        held.extend();
        assertTrue(held.release());
        assertTrue(Thread.interrupted(), "the flag is set again");
        assertTrue(other.lock(name).acquire().isPresent());
    }

    @Test
    void extendStartsTheLeaseAgain() {
        LockOptions options = LockOptions.DEFAULTS.lease(Duration.ofSeconds(20)).withoutRenewal();
        HeldLock held = client.lock(name, options).acquire().orElseThrow();
        held.extend(Duration.ofMinutes(1));
        assertTrue(held.leaseLeft().compareTo(Duration.ofSeconds(50)) > 0);
        assertTrue(held.release());
    }

    @Test
    void stateShowsHolderAndWaiters() throws Exception {
        HeldLock held = client.lock(name, LockOptions.DEFAULTS.label("nightly report")).acquire().orElseThrow();
        Background<Optional<HeldLock>> waiter = async(() -> other.lock(name).acquire(WAIT));
        until(() -> client.lock(name).state().waiters().size() == 1);
        var state = client.lock(name).state();
        assertEquals(name, state.name());
        assertEquals(held.fence(), state.holder().fence());
        assertEquals("nightly report", state.holder().label());
        assertEquals(1, state.waiters().get(0).position());
        held.release();
        get(waiter).orElseThrow().release();
        until(() -> client.lock(name).state().holder() == null);
    }

    @Test
    void runReleasesTheLockOnEveryPath() throws Exception {
        Lock lock = client.lock(name);
        assertEquals("done", lock.run(WAIT, held -> {
            assertThrows(LockBusyException.class, () -> other.lock(name).run(Duration.ZERO, inner -> 1));
            return "done";
        }));
        assertThrows(IllegalStateException.class, () -> lock.run(WAIT, held -> {
            throw new IllegalStateException("of the work");
        }));
        assertTrue(other.lock(name).acquire().isPresent());
    }

    @Test
    void runReportsALostLock() {
        LockOptions brief = LockOptions.DEFAULTS.lease(SHORT).withoutRenewal();
        assertThrows(LockLostException.class, () -> client.lock(name, brief).run(WAIT, held ->
                other.lock(name).acquire(WAIT).orElseThrow().release()));
    }

    @Test
    void threadsAndProcessesLoseNoIncrement() throws Exception {
        Path counter = Files.createTempFile("rushgate", "counter");
        Files.writeString(counter, "0");
        int times = 20;
        List<CompletableFuture<Integer>> counting = new ArrayList<>();
        for (int process = 0; process < 2; process++) {
            counting.add(async(() -> Child.start(Child.class, target.url(), "count", name, times, counter).waitFor()));
        }
        for (int thread = 0; thread < 4; thread++) {
            counting.add(async(() -> count(client, name, times, counter)));
        }
        for (CompletableFuture<Integer> one : counting) {
            assertEquals(0, one.get(60, TimeUnit.SECONDS));
        }
        assertEquals(Integer.toString(6 * times), Files.readString(counter));
        Files.delete(counter);
    }

    static int count(Rushgate one, String name, int times, Path counter) throws Exception {
        for (int time = 0; time < times; time++) {
            one.lock(name).run(Duration.ofSeconds(60), held -> {
                int number = Integer.parseInt(Files.readString(counter));
                return Files.writeString(counter, Integer.toString(number + 1));
            });
        }
        return 0;
    }

    @Test
    void namesAreOneInAllNormalizationForms() {
        HeldLock held = client.lock(name + "-Zoe\u0308-\u1100\u1161").acquire().orElseThrow();
        assertTrue(client.lock(name + "-Zo\u00eb-\uac00").acquire().isEmpty());
        assertTrue(held.release());
    }

    @Test
    void aClosedClientEndsItsWaits() throws Exception {
        HeldLock held = client.lock(name).acquire().orElseThrow();
        Background<Optional<HeldLock>> waiter = async(() -> other.lock(name).acquire(WAIT));
        until(() -> client.lock(name).state().waiters().size() == 1);
        other.close();
        ExecutionException failed = assertThrows(ExecutionException.class, () -> get(waiter));
        assertInstanceOf(dev.rushgate.ClosedException.class, failed.getCause());
        held.release();
    }
}
