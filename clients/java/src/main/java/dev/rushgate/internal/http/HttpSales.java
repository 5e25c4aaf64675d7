package dev.rushgate.internal.http;

import dev.rushgate.Created;
import dev.rushgate.Decision;
import dev.rushgate.HaltReason;
import dev.rushgate.Hold;
import dev.rushgate.HoldState;
import dev.rushgate.NewSale;
import dev.rushgate.Reservation;
import dev.rushgate.Reserved;
import dev.rushgate.Restored;
import dev.rushgate.SaleState;
import dev.rushgate.SaleStatus;
import dev.rushgate.SkuState;
import dev.rushgate.Unit;
import dev.rushgate.internal.Transport.Sales;
import dev.rushgate.internal.http.HttpLink.Call;
import dev.rushgate.internal.http.HttpLink.Reply;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;

/** Sales by the HTTP API. */
final class HttpSales implements Sales {
    private static final int RESTORED = 201;
    private static final int PENDING = 202;

    private final HttpLink link;

    HttpSales(HttpLink link) {
        this.link = link;
    }

    @Override
    public Created create(NewSale sale) {
        List<Map<String, Object>> skus = sale.skus().stream()
                .map(sku -> Wire.fields("sku", sku.sku(), "units", sku.units(), "per_buyer", sku.perBuyer())).toList();
        Map<String, Object> body = Wire.fields("id", sale.id(), "skus", skus, "hold_ms", sale.hold(), "opens_at_us",
                sale.opensAt(), "closes_at_us", sale.closesAt(), "ledger", sale.ledger());
        try {
            link.send(Call.of(Operation.CREATE).with(body).keyed(UUID.randomUUID().toString()));
            return Created.CREATED;
        } catch (Problem problem) {
            if (problem.code().equals("exists")) {
                return Created.EXISTS;
            }
            throw HttpLink.failure(problem);
        }
    }

    @Override
    public SaleStatus open(String id) {
        return status(Operation.OPEN, id);
    }

    @Override
    public SaleStatus end(String id) {
        return status(Operation.END, id);
    }

    private SaleStatus status(Operation operation, String id) {
        Wire view = Wire.of(link.ask(Call.of(operation, id).with(Map.of())).body());
        return view.constant(SaleStatus.class, "status");
    }

    @Override
    public SaleState show(String id) {
        Wire view = Wire.of(link.ask(Call.of(Operation.SALE, id)).body());
        Wire halted = view.optionalObject("halted");
        Wire orders = view.optionalObject("orders");
        return new SaleState(view.text("id"), view.millis("hold_ms"), view.optionalInstant("opens_at_us"),
                view.optionalInstant("closes_at_us"), view.is("ledger"), view.constant(SaleStatus.class, "status"),
                view.number("generation"), view.number("seq"), view.list("skus", HttpSales::stock),
                view.optionalInstant("next_expiry_us"),
                halted == null ? null
                        : new SaleState.Halt(halted.constant(HaltReason.class, "reason"), halted.instant("since_us")),
                view.optionalInstant("receipts_until_us"),
                orders == null ? null : new SaleState.Orders(orders.number("through"),
                        orders.optionalInstant("behind_since_us"), orders.number("failed"),
                        orders.optionalInstant("worker_until_us")),
                view.instant("now_us"));
    }

    private static SkuState stock(Wire view) {
        return new SkuState(view.text("sku"), view.number("total"), view.number("free"), view.number("held"),
                view.number("confirmed"), view.number("withdrawn"), view.small("per_buyer"));
    }

    private static Hold hold(Wire view) {
        List<Unit> units = view.list("units", unit -> new Unit(unit.text("sku"), unit.number("unit")));
        return new Hold(view.text("id"), view.text("buyer"), units, view.constant(HoldState.class, "state"),
                view.instant("deadline_us"), view.number("seq"), view.number("generation"), view.text("receipt"));
    }

    @Override
    public Reserved reserve(String id, Reservation reservation) {
        List<Map<String, Object>> lines = reservation.lines().stream()
                .map(line -> Wire.fields("sku", line.sku(), "quantity", line.quantity())).toList();
        Map<String, Object> body = Wire.fields("buyer", reservation.buyer(), "lines", lines, "same_number",
                reservation.sameNumber(), "pass", reservation.pass());
        try {
            Reply reply = link.send(Call.of(Operation.RESERVE, id).with(body).keyed(reservation.key()));
            Hold hold = hold(Wire.of(reply.body()));
            return reply.replayed() ? new Reserved.Replayed(hold) : new Reserved.New(hold);
        } catch (Problem problem) {
            Wire view = new Wire(problem.body());
            return switch (problem.code()) {
                case "idempotency_key_reused" -> new Reserved.KeyReused();
                case "sold_out" -> new Reserved.SoldOut(view.text("sku"), view.number("free"));
                case "all_held" -> new Reserved.AllHeld(view.text("sku"), view.number("free"),
                        view.optionalInstant("next_expiry_us"));
                case "limit_reached" ->
                    new Reserved.LimitReached(view.text("sku"), view.number("limit"), view.number("has"));
                case "sale_not_open" -> new Reserved.NotOpen(view.optionalInstant("opens_at_us"));
                case "sale_ended" -> new Reserved.Ended();
                case "sale_halted" -> new Reserved.Halted(view.optionalInstant("retry_at_us"));
                default -> throw HttpLink.failure(problem);
            };
        }
    }

    @Override
    public Decision confirm(String id, String reservation) {
        return decide(Operation.CONFIRM, id, reservation);
    }

    @Override
    public Decision cancel(String id, String reservation) {
        return decide(Operation.CANCEL_HOLD, id, reservation);
    }

    private Decision decide(Operation operation, String id, String reservation) {
        try {
            Reply reply = link.send(Call.of(operation, id, reservation).with(Map.of()));
            Hold hold = hold(Wire.of(reply.body()));
            return reply.status() == PENDING ? new Decision.Pending(hold) : new Decision.Done(hold);
        } catch (Problem problem) {
            return switch (problem.code()) {
                case "not_found" -> new Decision.Unknown();
                case "decided" -> new Decision.Refused(new Wire(problem.body()).constant(HoldState.class, "state"));
                case "sale_halted" -> new Decision.Halted();
                default -> throw HttpLink.failure(problem);
            };
        }
    }

    @Override
    public Optional<Hold> reservation(String id, String reservation) {
        return look(id, reservation, Duration.ZERO);
    }

    @Override
    public Optional<Hold> waitFinal(String id, String reservation, Duration wait) {
        return Waiting.repeat(wait, part -> look(id, reservation, part),
                hold -> hold.isEmpty() || hold.get().state().isFinal());
    }

    private Optional<Hold> look(String id, String reservation, Duration wait) {
        try {
            Call call = Call.of(Operation.RESERVATION, id, reservation).waiting(wait);
            return Optional.of(hold(Wire.of(link.send(call).body())));
        } catch (Problem problem) {
            if (problem.code().equals("not_found")) {
                return Optional.empty();
            }
            throw HttpLink.failure(problem);
        }
    }

    @Override
    public Restored restore(String id, String receipt) {
        try {
            Reply reply = link.send(Call.of(Operation.RESTORE, id).with(Map.of("receipt", receipt)));
            Hold hold = hold(Wire.of(reply.body()));
            return reply.status() == RESTORED ? new Restored.New(hold) : new Restored.Known(hold);
        } catch (Problem problem) {
            Wire view = new Wire(problem.body());
            return switch (problem.code()) {
                case "sold_out" -> new Restored.NoneLeft(view.text("sku"), view.number("free"));
                case "limit_reached" ->
                    new Restored.LimitReached(view.text("sku"), view.number("limit"), view.number("has"));
                case "hold_expired" -> new Restored.Expired();
                case "receipt_refused" -> new Restored.NotHonored();
                case "sale_halted" -> new Restored.Halted(view.optionalInstant("retry_at_us"));
                default -> throw HttpLink.failure(problem);
            };
        }
    }
}
