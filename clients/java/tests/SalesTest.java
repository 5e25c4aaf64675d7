import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.rushgate.Created;
import dev.rushgate.Decision;
import dev.rushgate.Hold;
import dev.rushgate.HoldState;
import dev.rushgate.InvalidException;
import dev.rushgate.Line;
import dev.rushgate.NewSale;
import dev.rushgate.NotFoundException;
import dev.rushgate.Reservation;
import dev.rushgate.Reserved;
import dev.rushgate.Restored;
import dev.rushgate.Rushgate;
import dev.rushgate.Sale;
import dev.rushgate.SaleState;
import dev.rushgate.SaleStatus;
import dev.rushgate.SkuState;
import dev.rushgate.Unit;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

class SalesTest extends Suite {
    private final String id = Target.unique("sale");

    private Sale opened(NewSale.Builder sale) {
        assertEquals(Created.CREATED, client.createSale(sale.build()));
        Sale created = client.sale(id);
        assertEquals(SaleStatus.OPEN, created.open());
        return created;
    }

    private Sale opened(int units) {
        return opened(NewSale.builder(id).sku("phone", units));
    }

    private static Reservation one(String buyer) {
        return Reservation.of(buyer, "click", "phone", 1);
    }

    private static Hold hold(Reserved reserved) {
        return assertInstanceOf(Reserved.New.class, reserved).hold();
    }

    private static void assertConfirmed(Decision decision) {
        assertEquals(HoldState.CONFIRMED, assertInstanceOf(Decision.Done.class, decision).hold().state());
    }

    @Test
    void moreBuyersThanUnitsBuyExactlyAllUnits() throws Exception {
        int units = 20;
        opened(units);
        List<CompletableFuture<List<Unit>>> purchases = new ArrayList<>();
        AtomicInteger refused = new AtomicInteger();
        for (int thread = 0; thread < 8; thread++) {
            Rushgate buying = thread % 2 == 0 ? client : other;
            int number = thread;
            purchases.add(async(() -> buyAll(buying.sale(id), "buyer-" + number, refused)));
        }
        List<Unit> sold = all(purchases).stream().flatMap(List::stream).toList();
        assertEquals(units, sold.size());
        assertEquals(units, new HashSet<>(sold).size(), "each unit once");
        assertEquals(8 * 10 - units, refused.get());
        SkuState state = client.sale(id).state().sku("phone");
        assertEquals(List.of((long) units, 0L, 0L, (long) units),
                List.of(state.total(), state.free(), state.held(), state.confirmed()));
    }

    private static List<Unit> buyAll(Sale sale, String name, AtomicInteger refused) {
        List<Unit> units = new ArrayList<>();
        for (int buyer = 0; buyer < 10; buyer++) {
            Reserved reserved = sale.reserve(one(name + "-" + buyer));
            if (reserved.reservation().isEmpty()) {
                refused.incrementAndGet();
                continue;
            }
            Hold hold = reserved.reservation().get();
            assertConfirmed(sale.confirm(hold.id(), WAIT));
            units.addAll(hold.units());
        }
        return units;
    }

    @Test
    void theSameKeyIsAReplay() {
        Sale sale = opened(5);
        Hold hold = hold(sale.reserve(one("ann")));
        Reserved.Replayed again = assertInstanceOf(Reserved.Replayed.class, other.sale(id).reserve(one("ann")));
        assertEquals(hold.id(), again.hold().id());
        assertEquals(hold.units(), again.hold().units());
        assertInstanceOf(Reserved.KeyReused.class, sale.reserve(Reservation.of("ann", "click", "phone", 2)));
        assertEquals(hold.id(), sale.reservation(hold.id()).orElseThrow().id());
        assertTrue(sale.reservation("0".repeat(32)).isEmpty());
    }

    @Test
    void refusalsSayWhy() {
        Sale sale = opened(1);
        assertThrows(NotFoundException.class, () -> sale.reserve(Reservation.of("bob", "click", "tablet", 1)));
        Hold hold = hold(sale.reserve(one("ann")));
        Reserved.LimitReached limit =
                assertInstanceOf(Reserved.LimitReached.class, sale.reserve(Reservation.of("ann", "again", "phone", 1)));
        assertEquals(List.of("phone", 1L, 1L), List.of(limit.sku(), limit.limit(), limit.has()));
        Reserved.AllHeld held = assertInstanceOf(Reserved.AllHeld.class, sale.reserve(one("bob")));
        assertEquals(hold.deadline(), held.nextExpiry());
        assertConfirmed(sale.confirm(hold.id(), WAIT));
        assertEquals(new Reserved.SoldOut("phone", 0), sale.reserve(one("bob")));
        assertEquals(SaleStatus.ENDED, sale.end());
        assertInstanceOf(Reserved.Ended.class, sale.reserve(one("cy")));
    }

    @Test
    void aSaleOpensAtItsTime() {
        Instant opening = Instant.ofEpochSecond(Instant.now().getEpochSecond() + 3_600);
        Sale sale = opened(NewSale.builder(id).sku("phone", 1).opensAt(opening));
        assertEquals(new Reserved.NotOpen(opening), sale.reserve(one("ann")));
        assertEquals(opening, sale.state().opensAt());
    }

    @Test
    void aDecisionIsFinal() {
        Sale sale = opened(2);
        String first = hold(sale.reserve(one("ann"))).id();
        assertConfirmed(sale.confirm(first, WAIT));
        assertConfirmed(sale.confirm(first, WAIT));
        assertEquals(new Decision.Refused(HoldState.CONFIRMED), sale.cancel(first, WAIT));
        String second = hold(sale.reserve(one("bob"))).id();
        assertEquals(HoldState.CANCELLED,
                assertInstanceOf(Decision.Done.class, sale.cancel(second, WAIT)).hold().state());
        assertEquals(new Decision.Refused(HoldState.CANCELLED), sale.confirm(second, WAIT));
        assertInstanceOf(Decision.Unknown.class, sale.confirm("0".repeat(32)));
        assertEquals(1, sale.state().sku("phone").free());
    }

    @Test
    void aHoldExpires() {
        Sale sale = opened(NewSale.builder(id).sku("phone", 1).hold(Duration.ofMillis(300)));
        String reservation = hold(sale.reserve(one("ann"))).id();
        assertEquals(HoldState.EXPIRED, sale.waitFinal(reservation, WAIT).orElseThrow().state());
        assertInstanceOf(Decision.Refused.class, sale.confirm(reservation));
        assertTrue(sale.waitFinal("0".repeat(32), WAIT).isEmpty());
    }

    @Test
    void aWaitEndsWithTheDecisionOfAnotherClient() throws Exception {
        Sale sale = opened(1);
        String reservation = hold(sale.reserve(one("ann"))).id();
        CompletableFuture<Hold> waiting = async(() -> other.sale(id).waitFinal(reservation, WAIT).orElseThrow());
        sale.confirm(reservation);
        assertEquals(HoldState.CONFIRMED, get(waiting).state());
        String open = sale.waitFinal(reservation, Duration.ZERO).orElseThrow().id();
        assertEquals(reservation, open);
    }

    @Test
    void aReceiptProvesAReservation() {
        Sale sale = opened(3);
        Hold hold = hold(sale.reserve(one("ann")));
        assertEquals(hold.id(), assertInstanceOf(Restored.Known.class, sale.restore(hold.receipt())).hold().id());
        String forged = hold.receipt().substring(0, hold.receipt().length() - 2) + "AA";
        assertInstanceOf(Restored.NotHonored.class, sale.restore(forged));
        assertInstanceOf(Restored.NotHonored.class, sale.restore("no receipt"));
    }

    @Test
    @Tag(Target.FUNCTIONS)
    void aLostReservationIsRestoredFromItsReceipt() throws Exception {
        Sale sale = opened(NewSale.builder(id).sku("phone", 3).sku("case", 3));
        Hold hold = hold(sale.reserve(Reservation.of("ann", "click", List.of(new Line("phone", 1), new Line("case", 1)))));
        sale.cancel(hold.id());
        try (Redis store = target.store()) {
            // As in a server that lost its latest writes.
            assertEquals(1L, store.command("HDEL", "rg:{s:" + id + "}:holds", HexFormat.of().parseHex(hold.id())));
        }
        Hold restored = assertInstanceOf(Restored.New.class, sale.restore(hold.receipt())).hold();
        assertEquals(List.of(hold.id(), "ann", 2), List.of(restored.id(), restored.buyer(), restored.units().size()));
    }

    @Test
    void aCartIsReservedCompletelyOrNotAtAll() {
        Sale sale = opened(NewSale.builder(id).sku("phone", 10, 3).sku("case", 1, 3));
        List<Line> cart = List.of(new Line("phone", 2), new Line("case", 1));
        Hold hold = hold(sale.reserve(Reservation.of("ann", "click", cart)));
        assertEquals(List.of("phone", "phone", "case"), hold.units().stream().map(Unit::sku).toList());
        assertInstanceOf(Reserved.AllHeld.class, sale.reserve(Reservation.of("bob", "click", cart)));
        assertEquals(8, sale.state().sku("phone").free());
    }

    @Test
    void everyLineCanGetTheSameNumber() {
        Sale sale = opened(NewSale.builder(id).sku("left", 5).sku("right", 5));
        List<Line> pair = List.of(new Line("left", 1), new Line("right", 1));
        Hold hold = hold(sale.reserve(Reservation.of("ann", "click", pair).withSameNumber()));
        assertEquals(hold.units().get(0).unit(), hold.units().get(1).unit());
        assertThrows(InvalidException.class,
                () -> Reservation.of("ann", "click", List.of(new Line("left", 2))).withSameNumber());
    }

    @Test
    void aSaleIsCreatedOnce() {
        NewSale.Builder sale = NewSale.builder(id).sku("phone", 3, 2).hold(Duration.ofMinutes(1));
        opened(sale);
        assertEquals(Created.EXISTS, other.createSale(NewSale.builder(id).sku("phone", 4).build()));
        SaleState state = other.sale(id).state();
        assertEquals(Duration.ofMinutes(1), state.hold());
        assertEquals(List.of(3L, 2L), List.of(state.sku("phone").total(), (long) state.sku("phone").perBuyer()));
        assertThrows(NotFoundException.class, () -> client.sale(Target.unique("none")).state());
    }
}
