package dev.rushgate.internal.redis;

import dev.rushgate.Contract;
import dev.rushgate.CorruptException;
import dev.rushgate.Created;
import dev.rushgate.Decision;
import dev.rushgate.HaltReason;
import dev.rushgate.Hold;
import dev.rushgate.HoldState;
import dev.rushgate.Line;
import dev.rushgate.NewSale;
import dev.rushgate.NotFoundException;
import dev.rushgate.Reservation;
import dev.rushgate.Reserved;
import dev.rushgate.Restored;
import dev.rushgate.RushgateException.Details;
import dev.rushgate.SaleState;
import dev.rushgate.SaleStatus;
import dev.rushgate.SkuState;
import dev.rushgate.Unit;
import dev.rushgate.internal.Bell;
import dev.rushgate.internal.Deadline;
import dev.rushgate.internal.Json;
import dev.rushgate.internal.Times;
import dev.rushgate.internal.Transport.Sales;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;

/** Sales by the function library. */
final class RedisSales implements Sales {
    private final Store store;
    private final Map<String, Spec> specs = new ConcurrentHashMap<>();

    RedisSales(Store store) {
        this.store = store;
    }

    /** The specification of a sale, which never changes. */
    private record Spec(byte[] secret, boolean ledger, List<String> skus, Duration hold, Instant opensAt, Instant closesAt) {
        static Spec read(byte[] stored) {
            try {
                return parse(stored);
            } catch (ClassCastException | NullPointerException | IllegalArgumentException unknown) {
                throw Answer.strange();
            }
        }

        private static Spec parse(byte[] stored) {
            Map<?, ?> json = (Map<?, ?>) Json.read(new String(stored, StandardCharsets.UTF_8));
            List<String> skus = ((List<?>) json.get("skus")).stream().map(sku -> (String) ((List<?>) sku).get(0)).toList();
            return new Spec(HexFormat.of().parseHex((String) json.get("secret")), (Boolean) json.get("ledger"), skus,
                    Times.ofMicros((Long) json.get("hold_us")), moment(json.get("opens_us")), moment(json.get("closes_us")));
        }

        private static Instant moment(Object micros) {
            return micros == null ? null : Times.instant(((Number) micros).longValue());
        }

        /** The SKU with a number. */
        String sku(long number) {
            if (number < 0 || number >= skus.size()) {
                throw Answer.strange();
            }
            return skus.get((int) number);
        }
    }

    /** A reply, and the specification for which it was given. */
    private record SaleReply(Object reply, Spec spec) {
        Answer answer() {
            return new Answer(reply);
        }
    }

    @Override
    public Created create(NewSale sale) {
        store.register(Contract.SALE_DIRECTORY, sale.id());
        byte[] secret = new byte[Contract.SECRET_BYTES];
        new SecureRandom().nextBytes(secret);
        boolean ledger = Boolean.TRUE.equals(sale.ledger());
        List<Object> args = new ArrayList<>(List.of(specification(sale, secret, ledger), secret, Store.us(sale.hold()),
                moment(sale.opensAt()), moment(sale.closesAt()), ledger ? "1" : "0"));
        for (NewSale.Sku sku : sale.skus()) {
            args.addAll(List.of(Integer.toString(sku.units()), Integer.toString(sku.perBuyer())));
        }
        List<Group> groups = List.of(Group.home(sale.id()), Group.sale(sale.id()));
        return Answer.number(store.call("sale_create", groups, args)) == 1 ? Created.CREATED : Created.EXISTS;
    }

    /** The fields are in alphabetical order, as every writer has them. */
    private static String specification(NewSale sale, byte[] secret, boolean ledger) {
        Map<String, Object> json = new LinkedHashMap<>();
        json.put("closes_us", sale.closesAt() == null ? null : Times.micros(sale.closesAt()));
        json.put("hold_us", Times.micros(sale.hold()));
        json.put("ledger", ledger);
        json.put("opens_us", sale.opensAt() == null ? null : Times.micros(sale.opensAt()));
        json.put("secret", HexFormat.of().formatHex(secret));
        json.put("skus", sale.skus().stream().map(sku -> List.of(sku.sku(), sku.units(), sku.perBuyer())).toList());
        return Json.write(json);
    }

    private static String moment(Instant instant) {
        return instant == null ? "" : Long.toString(Times.micros(instant));
    }

    @Override
    public SaleStatus open(String id) {
        return status(call(id, "open", spec -> List.of()).reply());
    }

    @Override
    public SaleStatus end(String id) {
        return status(call(id, "end", spec -> List.of()).reply());
    }

    private static SaleStatus status(Object reply) {
        return Answer.constant(SaleStatus.class, Contract.SALE_STATUS, Answer.number(reply));
    }

    @Override
    public SaleState show(String id) {
        SaleReply reply = call(id, "show", spec -> List.of(Integer.toString(spec.skus().size())));
        Answer answer = reply.answer();
        Spec spec = reply.spec();
        SaleStatus status = Answer.constant(SaleStatus.class, Contract.SALE_STATUS, answer.number());
        long generation = answer.number();
        long seq = answer.number();
        Instant nextExpiry = Times.optionalInstant(answer.optional());
        Instant now = Times.instant(answer.number());
        List<SkuState> skus = spec.skus().stream().map(sku -> stock(sku, answer.bytes())).toList();
        Instant haltedSince = Times.optionalInstant(answer.optional());
        HaltReason reason = Answer.constant(HaltReason.class, Contract.HALT_REASON, answer.number());
        Instant receiptsUntil = Times.optionalInstant(answer.optional());
        SaleState.Orders orders = new SaleState.Orders(answer.number(), Times.optionalInstant(answer.optional()),
                answer.number(), Times.optionalInstant(answer.optional()));
        return new SaleState(id, spec.hold(), spec.opensAt(), spec.closesAt(), spec.ledger(), status, generation, seq, skus,
                nextExpiry, haltedSince == null ? null : new SaleState.Halt(reason, haltedSince), receiptsUntil,
                spec.ledger() ? orders : null, now);
    }

    private static SkuState stock(String sku, byte[] bytes) {
        Packed.Fields stock = new Packed(bytes).fields(Contract.SKU_LAYOUT);
        long free = stock.number("total") + stock.number("returned") - stock.number("next") - stock.number("ahead");
        return new SkuState(sku, stock.number("total"), free, stock.number("held"), stock.number("confirmed"),
                stock.number("withdrawn"), stock.small("per_buyer"));
    }

    @Override
    public Reserved reserve(String id, Reservation reservation) {
        SaleReply reply = call(id, "reserve_by_key", spec -> {
            List<Object> args = new ArrayList<>(List.of(reservation.key(), reservation.buyer(),
                    reservation.sameNumber() ? "1" : "0"));
            for (Line line : reservation.lines()) {
                args.addAll(List.of(Integer.toString(spec.skus().indexOf(line.sku())), Integer.toString(line.quantity())));
            }
            return args;
        });
        Answer answer = reply.answer();
        Spec spec = reply.spec();
        return switch (answer.word(Contract.RESERVED)) {
            case "reserved" -> new Reserved.New(reservedHold(id, spec, answer));
            case "replayed" -> new Reserved.Replayed(reservedHold(id, spec, answer));
            case "key_reused" -> new Reserved.KeyReused();
            case "sold_out" -> new Reserved.SoldOut(spec.sku(answer.number()), answer.number());
            case "all_held" -> new Reserved.AllHeld(spec.sku(answer.number()), answer.number(),
                    Times.optionalInstant(answer.optional()));
            case "limit_reached" -> new Reserved.LimitReached(spec.sku(answer.number()), answer.number(), answer.number());
            case "not_open" -> new Reserved.NotOpen(spec.opensAt());
            case "ended" -> new Reserved.Ended();
            case "halted" -> new Reserved.Halted(Times.optionalInstant(answer.number()));
            default -> throw new NotFoundException("The sale `" + id + "` has no SKU `"
                    + reservation.lines().get(answer.smallNumber()).sku() + "`.", Details.NONE);
        };
    }

    private static Hold reservedHold(String id, Spec spec, Answer answer) {
        byte[] packed = answer.bytes();
        return withReceipt(id, spec, hold(spec, HexFormat.of().formatHex(answer.bytes()), packed));
    }

    private static Hold withReceipt(String sale, Spec spec, Hold hold) {
        return new Hold(hold.id(), hold.buyer(), hold.units(), hold.state(), hold.deadline(), hold.seq(), hold.generation(),
                Receipts.write(sale, spec.secret(), hold));
    }

    private static Hold hold(Spec spec, String reservation, byte[] bytes) {
        Packed packed = new Packed(bytes);
        Packed.Fields fields = packed.fields(Contract.HOLD_LAYOUT);
        String buyer = packed.text(Contract.BUYER_LENGTH_BYTES);
        packed.take(fields.small("lines_length"));
        List<Unit> units = new ArrayList<>();
        while (!packed.isEmpty()) {
            Packed.Fields range = packed.fields(Contract.UNITS_LAYOUT);
            for (long unit = range.number("first"); unit <= range.number("last"); unit++) {
                units.add(new Unit(spec.sku(range.number("sku")), unit));
            }
        }
        HoldState state = Answer.constant(HoldState.class, Contract.HOLD_STATE, fields.number("state"));
        return new Hold(reservation, buyer, units, state, Times.instant(fields.number("deadline")), fields.number("event"),
                fields.number("generation"), null);
    }

    @Override
    public Decision confirm(String id, String reservation) {
        return decide(id, "confirm", reservation);
    }

    @Override
    public Decision cancel(String id, String reservation) {
        return decide(id, "cancel_hold", reservation);
    }

    private Decision decide(String id, String verb, String reservation) {
        SaleReply reply = call(id, verb, spec -> List.of(HexFormat.of().parseHex(reservation)));
        Answer answer = reply.answer().list();
        String outcome = answer.word(Contract.DECIDED);
        return switch (outcome) {
            case "unknown" -> new Decision.Unknown();
            case "halted" -> new Decision.Halted();
            case "done" -> new Decision.Done(hold(reply.spec(), reservation, answer.bytes()));
            case "pending" -> new Decision.Pending(hold(reply.spec(), reservation, answer.bytes()));
            default -> new Decision.Refused(hold(reply.spec(), reservation, answer.bytes()).state());
        };
    }

    @Override
    public Optional<Hold> reservation(String id, String reservation) {
        SaleReply reply = call(id, "reservation", spec -> List.of(HexFormat.of().parseHex(reservation)));
        Answer answer = reply.answer();
        return answer.isEmpty() ? Optional.empty() : Optional.of(hold(reply.spec(), reservation, answer.bytes()));
    }

    @Override
    public Optional<Hold> waitFinal(String id, String reservation, Duration wait) {
        Inbox inbox = store.inbox();
        Bell bell = new Bell();
        Runnable ignore = inbox.listen(Inbox.sale(id), bell::ring);
        Deadline until = Deadline.in(wait);
        try {
            while (true) {
                SaleState sale = show(id);
                Optional<Hold> hold = reservation(id, reservation);
                if (hold.isEmpty() || hold.get().state().isFinal() || until.hasPassed()) {
                    return hold;
                }
                Duration change = hold.get().state() == HoldState.HELD
                        ? Duration.between(sale.now(), hold.get().deadline()) : Contract.SALE_SLEEP;
                if (change.isNegative() || change.isZero()) {
                    call(id, "expire", spec -> List.of(Long.toString(Contract.EXPIRE.max())));
                    continue;
                }
                Object reply = call(id, "listen", spec -> List.of(inbox.hex(), Long.toString(sale.seq()))).reply();
                if (Answer.number(reply) == 1) {
                    bell.await(Times.min(until.left(), Contract.SALE_SLEEP, change));
                }
            }
        } finally {
            ignore.run();
        }
    }

    @Override
    public Restored restore(String id, String text) {
        Optional<Receipts.Receipt> read = Receipts.read(id, spec(id).secret(), text);
        if (read.isEmpty()) {
            return new Restored.NotHonored();
        }
        Receipts.Receipt receipt = read.get();
        SaleReply reply = call(id, "restore", spec -> List.of(HexFormat.of().parseHex(receipt.reservation()), receipt.buyer(),
                Long.toString(receipt.generation()), Long.toString(receipt.deadlineUs()),
                isSameNumber(receipt.units()) ? "1" : "0", packUnits(spec, receipt.units())));
        Answer answer = reply.answer();
        Spec spec = reply.spec();
        return switch (answer.word(Contract.RESTORED)) {
            case "restored" -> new Restored.New(withReceipt(id, spec, hold(spec, receipt.reservation(), answer.bytes())));
            case "known" -> new Restored.Known(withReceipt(id, spec, hold(spec, receipt.reservation(), answer.bytes())));
            case "none_left" -> new Restored.NoneLeft(spec.sku(answer.number()), answer.number());
            case "limit_reached" -> new Restored.LimitReached(spec.sku(answer.number()), answer.number(), answer.number());
            case "halted" -> new Restored.Halted(Times.optionalInstant(answer.number()));
            default -> new Restored.Expired();
        };
    }

    /** Whether other units must have one number in every line, as these have. */
    private static boolean isSameNumber(List<Unit> units) {
        boolean oneEach = new HashSet<>(units.stream().map(Unit::sku).toList()).size() == units.size();
        return units.size() > 1 && oneEach && units.stream().map(Unit::unit).distinct().count() == 1;
    }

    /** Packed ranges of consecutive units, line by line. */
    private static byte[] packUnits(Spec spec, List<Unit> units) {
        ByteArrayOutputStream packed = new ByteArrayOutputStream();
        for (int first = 0, next; first < units.size(); first = next) {
            Unit begin = units.get(first);
            next = first + 1;
            while (next < units.size() && units.get(next).sku().equals(begin.sku())
                    && units.get(next).unit() == begin.unit() + next - first) {
                next++;
            }
            packed.writeBytes(Packed.pack(Contract.UNITS_LAYOUT, spec.skus().indexOf(begin.sku()), begin.unit(),
                    units.get(next - 1).unit()));
        }
        return packed.toByteArray();
    }

    /** Calls a function of a sale, with its secret in front. A sale that was created again has another specification. */
    private SaleReply call(String id, String verb, Function<Spec, List<?>> args) {
        Spec spec = spec(id);
        while (true) {
            List<Object> all = new ArrayList<>(List.of(spec.secret()));
            all.addAll(args.apply(spec));
            Object reply = store.call("sale_" + verb, List.of(Group.sale(id)), all);
            if (!Store.isStatus(reply, Contract.MISSING_STATUS)) {
                return new SaleReply(reply, spec);
            }
            specs.remove(id);
            Spec current = spec(id);
            if (Arrays.equals(current.secret(), spec.secret())) {
                throw new CorruptException("The keys of the sale `" + id + "` are missing.",
                        Details.hint("Rebuild the sale from its ledger, or restore a backup."));
            }
            spec = current;
        }
    }

    private Spec spec(String id) {
        Spec known = specs.get(id);
        if (known != null) {
            return known;
        }
        if (!(store.read("GET", Group.home(id).first().get(0)) instanceof byte[] stored)) {
            throw new NotFoundException("There is no sale `" + id + "`.",
                    Details.hint("Run `rushgate sale ls` to list the sales."));
        }
        Spec spec = Spec.read(stored);
        if (specs.size() >= Store.REMEMBERED_NAMES) {
            specs.clear();
        }
        specs.put(id, spec);
        return spec;
    }
}
