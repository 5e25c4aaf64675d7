import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.rushgate.ClaimOptions;
import dev.rushgate.ClaimedTask;
import dev.rushgate.Completed;
import dev.rushgate.Content;
import dev.rushgate.Decision;
import dev.rushgate.HeldLock;
import dev.rushgate.Hold;
import dev.rushgate.HoldState;
import dev.rushgate.KeyLimits;
import dev.rushgate.LockOptions;
import dev.rushgate.NewSale;
import dev.rushgate.NewSchedule;
import dev.rushgate.NewTask;
import dev.rushgate.Page;
import dev.rushgate.Progress;
import dev.rushgate.Queue;
import dev.rushgate.QueueLimits;
import dev.rushgate.Recurrence;
import dev.rushgate.Reservation;
import dev.rushgate.Reserved;
import dev.rushgate.Restored;
import dev.rushgate.Rushgate;
import dev.rushgate.Sale;
import dev.rushgate.Scheduled;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.function.Function;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** One store over Redis and over HTTP. */
@Timeout(60)
class SharedTest {
    /** The transports that lead to one store. */
    static final List<String> BOTH = List.of("redis", "http_redis");

    private Rushgate direct;
    private Rushgate server;

    @BeforeEach
    void connect() {
        List<Target> both = Target.all().stream().filter(target -> BOTH.contains(target.name())).toList();
        direct = both.get(0).connect();
        server = both.get(1).connect();
    }

    @AfterEach
    void close() {
        direct.close();
        server.close();
    }

    /** Compares what both sides read, without the times that pass between two questions. */
    private static <S> void assertSame(S ours, S theirs, Function<S, Object> read) {
        assertEquals(timeless(read.apply(ours)), timeless(read.apply(theirs)));
    }

    private static String timeless(Object value) {
        return value.toString().replaceAll("\\b(left|leaseLeft|dueFor|lag)=PT[0-9.HMS]+|\\bnow=[^,\\]]+", "$1");
    }

    @Test
    void bothSidesSeeTheSameTasksSchedulesStatsAndReasons() {
        String name = Target.unique("queue");
        Queue ours = direct.queue(name);
        Queue theirs = server.queue(name);
        ours.limit(QueueLimits.builder().retention(Duration.ofHours(1), 10).perKey(new KeyLimits(null, null, true)).build());
        ours.enqueueAll(List.of(
                NewTask.builder("a").content(Content.json(1)).kind("k").key("x").deadlineAfter(Duration.ofHours(1)).build(),
                NewTask.builder("b").key("x").build(), NewTask.builder("c").delay(Duration.ofHours(1)).build(),
                NewTask.builder("d").after(List.of("a")).build(), NewTask.of("e", Content.text("text"))));
        ClaimedTask claimed = theirs.claim(Duration.ZERO).orElseThrow();
        claimed.extend(Duration.ofMinutes(1), new Progress(1, "n"));
        List.of("a", "b", "c", "d", "e", "none").forEach(id -> {
            assertSame(ours, theirs, queue -> queue.task(id));
            assertSame(ours, theirs, queue -> queue.why(id));
        });
        NewSchedule nightly = NewSchedule.of(Recurrence.cron("0 3 * * *").in("Europe/Berlin"), Content.json(1));
        assertInstanceOf(Scheduled.Added.class, theirs.saveSchedule("s", nightly));
        assertInstanceOf(Scheduled.Unchanged.class, ours.saveSchedule("s", nightly));
        assertSame(ours, theirs, queue -> queue.schedules(Page.first(10)));
        ClaimedTask mine = ours.claim(ClaimOptions.DEFAULTS.worker("w")).get(0);
        assertEquals("e", mine.id());
        mine.giveUp("broken");
        assertEquals(Completed.DONE, claimed.complete(Content.json("sent")));
        List.of("a", "b", "d", "e").forEach(id -> {
            assertSame(ours, theirs, queue -> queue.task(id));
            assertSame(ours, theirs, queue -> queue.why(id));
        });
        assertSame(ours, theirs, queue -> queue.dead(Page.first(10)));
        assertSame(ours, theirs, queue -> queue.waited("d", Page.first(10)));
        assertSame(ours, theirs, Queue::stats);
    }

    @Test
    void aLockIsOneLockOverRedisAndHttp() throws Exception {
        String name = Target.unique("lock");
        HeldLock held = direct.lock(name, LockOptions.DEFAULTS.label("ours")).acquire().orElseThrow();
        Background<Optional<HeldLock>> next = Suite.async(() -> server.lock(name).acquire(Target.WAIT));
        Suite.until(() -> direct.lock(name).state().waiters().size() == 1);
        assertSame(direct, server, client -> client.lock(name).state());
        held.release();
        HeldLock got = Suite.get(next).orElseThrow();
        assertTrue(got.fence() > held.fence());
        assertTrue(got.release());
    }

    @Test
    void aSaleIsOneSaleOverRedisAndHttp() {
        String id = Target.unique("sale");
        direct.createSale(NewSale.builder(id).sku("phone", 5).build());
        Sale ours = direct.sale(id);
        Sale theirs = server.sale(id);
        theirs.open();
        Hold ann = ours.reserve(Reservation.of("ann", "click", "phone", 1)).reservation().orElseThrow();
        Reserved again = theirs.reserve(Reservation.of("ann", "click", "phone", 1));
        assertEquals(ann, assertInstanceOf(Reserved.Replayed.class, again).hold());
        Hold bob = theirs.reserve(Reservation.of("bob", "click", "phone", 1)).reservation().orElseThrow();
        assertEquals(bob, assertInstanceOf(Restored.Known.class, ours.restore(bob.receipt())).hold());
        assertEquals(ann, assertInstanceOf(Restored.Known.class, theirs.restore(ann.receipt())).hold());
        assertSame(ours, theirs, Sale::state);
    }

    @Test
    void aLedgerMakesADecisionFinal() throws Exception {
        String id = Target.unique("sale");
        server.createSale(NewSale.builder(id).sku("phone", 1).ledger(true).build());
        server.sale(id).open();
        Sale sale = direct.sale(id);
        Hold hold = sale.reserve(Reservation.of("ann", "click", "phone", 1)).reservation().orElseThrow();
        Decision.Done done = assertInstanceOf(Decision.Done.class, sale.confirm(hold.id(), Target.WAIT));
        assertEquals(HoldState.CONFIRMED, done.hold().state());
        assertTrue(sale.state().ledger());
        Suite.until(() -> sale.state().orders().through() > 0);
        assertEquals(HoldState.CONFIRMED, server.sale(id).reservation(hold.id()).orElseThrow().state());
    }
}
