package dev.rushgate;

import dev.rushgate.internal.Check;

/**
 * A line of a cart.
 *
 * @param sku SKU
 * @param quantity quantity, 1 to 1,000
 */
public record Line(String sku, int quantity) {
    /** Checks the limits. */
    public Line {
        sku = Check.name("sku", sku);
        Check.whole("quantity", quantity, Contract.QUANTITY);
    }
}
