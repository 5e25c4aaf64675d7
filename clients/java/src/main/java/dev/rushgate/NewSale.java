package dev.rushgate;

import dev.rushgate.internal.Check;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;

/**
 * A sale to create. Immutable; {@link #builder} makes one.
 *
 * @param id ID of the sale
 * @param skus stock, 1 to 1,000 SKUs
 * @param hold hold duration, 10 ms to 30 days
 * @param opensAt opening time, or null
 * @param closesAt closing time, or null
 * @param ledger whether a ledger records the orders; null for false over Redis, and for whether the server has one over HTTP
 */
public record NewSale(
        String id,
        List<Sku> skus,
        Duration hold,
        Instant opensAt,
        Instant closesAt,
        Boolean ledger) {
    /**
     * A SKU of a sale to create.
     *
     * @param sku name of the SKU
     * @param units number of units, 1 to 10,000,000
     * @param perBuyer purchase limit, 1 to 10,000
     */
    public record Sku(String sku, int units, int perBuyer) {
        /** Checks the limits. */
        public Sku {
            sku = Check.name("sku", sku);
            Check.whole("units", units, Contract.UNITS);
            Check.whole("perBuyer", perBuyer, Contract.PER_BUYER);
        }
    }

    /** Checks the limits. */
    public NewSale {
        id = Check.name("id", id);
        skus = Check.list("skus", skus, Contract.SKUS);
        if (new HashSet<>(skus.stream().map(Sku::sku).toList()).size() < skus.size()) {
            throw Check.invalid("skus", "has a SKU twice");
        }
        Check.micros("hold", hold, Contract.HOLD_US);
        Check.optionalMoment("opensAt", opensAt);
        Check.optionalMoment("closesAt", closesAt);
    }

    /** A builder for a sale with an ID. */
    public static Builder builder(String id) {
        return new Builder(id);
    }

    /** Builds a sale. */
    public static final class Builder {
        private final String id;
        private final List<Sku> skus = new ArrayList<>();
        private Duration hold = Contract.DEFAULT_HOLD;
        private Instant opensAt;
        private Instant closesAt;
        private Boolean ledger;

        private Builder(String id) {
            this.id = id;
        }

        /** Adds a SKU, of which a buyer may have one unit. */
        public Builder sku(String sku, int units) {
            return sku(sku, units, Contract.DEFAULT_PER_BUYER);
        }

        /** Adds a SKU: 1 to 10,000,000 units, and a purchase limit of 1 to 10,000. */
        public Builder sku(String sku, int units, int perBuyer) {
            skus.add(new Sku(sku, units, perBuyer));
            return this;
        }

        /** How long a reservation holds its units: 10 ms to 30 days. Default: 5 min. */
        public Builder hold(Duration hold) {
            this.hold = hold;
            return this;
        }

        /** Opening time. Default: when the sale is opened. */
        public Builder opensAt(Instant opensAt) {
            this.opensAt = opensAt;
            return this;
        }

        /** Closing time. Default: none. */
        public Builder closesAt(Instant closesAt) {
            this.closesAt = closesAt;
            return this;
        }

        /** Whether a ledger records the orders. Default: false over Redis, and whether the server has one over HTTP. */
        public Builder ledger(boolean ledger) {
            this.ledger = ledger;
            return this;
        }

        /** The sale. Throws {@link InvalidException} if a setting is out of range. */
        public NewSale build() {
            return new NewSale(id, skus, hold, opensAt, closesAt, ledger);
        }
    }
}
