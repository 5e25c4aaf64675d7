package dev.rushgate;

import dev.rushgate.internal.Check;
import java.util.HashSet;
import java.util.List;

/**
 * What to reserve.
 *
 * @param buyer buyer
 * @param key idempotency key of this attempt to buy: 1 to 128 visible ASCII characters without braces
 * @param lines 1 to 32 lines, each SKU once; the buyer gets all of them or none
 * @param sameNumber whether every line must get the same unit number
 * @param pass admission token of the waiting room over HTTP, or null
 */
public record Reservation(
        String buyer,
        String key,
        List<Line> lines,
        boolean sameNumber,
        String pass) {
    /** Checks the limits. */
    public Reservation {
        buyer = Check.name("buyer", buyer);
        key = Check.idempotencyKey(key);
        lines = Check.list("lines", lines, Contract.LINES);
        if (new HashSet<>(lines.stream().map(Line::sku).toList()).size() < lines.size()) {
            throw Check.invalid("lines", "has a SKU twice");
        }
        if (sameNumber && lines.stream().anyMatch(line -> line.quantity() != 1)) {
            throw Check.invalid("sameNumber", "requires a quantity of 1 in every line");
        }
    }

    /** One SKU for a buyer. Reuse the idempotency key to retry this attempt to buy. */
    public static Reservation of(String buyer, String key, String sku, int quantity) {
        return of(buyer, key, List.of(new Line(sku, quantity)));
    }

    /** A cart for a buyer. */
    public static Reservation of(String buyer, String key, List<Line> lines) {
        return new Reservation(buyer, key, lines, false, null);
    }

    /** The same cart with the same unit number in every line. */
    public Reservation withSameNumber() {
        return new Reservation(buyer, key, lines, true, pass);
    }

    /** The same cart with an admission token. */
    public Reservation withPass(String pass) {
        return new Reservation(buyer, key, lines, sameNumber, pass);
    }
}
