package dev.rushgate;

import java.time.Instant;
import java.util.Optional;

/** Outcome of a reservation. */
public sealed interface Reserved {
    /** The reservation, if the buyer has one now. */
    default Optional<Hold> reservation() {
        if (this instanceof New reserved) {
            return Optional.of(reserved.hold());
        }
        return this instanceof Replayed replayed ? Optional.of(replayed.hold()) : Optional.empty();
    }

    /**
     * The units are on hold.
     *
     * @param hold the reservation
     */
    record New(Hold hold) implements Reserved {}

    /**
     * The units were reserved before under this key.
     *
     * @param hold the reservation
     */
    record Replayed(Hold hold) implements Reserved {}

    /** The key was used with another cart. */
    record KeyReused() implements Reserved {}

    /**
     * Too few units are left, and no holds can return any.
     *
     * @param sku SKU
     * @param free units that are free
     */
    record SoldOut(String sku, long free) implements Reserved {}

    /**
     * All remaining units are on hold: retry later.
     *
     * @param sku SKU
     * @param free units that are free
     * @param nextExpiry earliest deadline of a hold, or null
     */
    record AllHeld(String sku, long free, Instant nextExpiry) implements Reserved {}

    /**
     * The purchase limit is exceeded.
     *
     * @param sku SKU
     * @param limit purchase limit
     * @param has units that the buyer has
     */
    record LimitReached(String sku, long limit, long has) implements Reserved {}

    /**
     * The sale is not open yet.
     *
     * @param opensAt opening time, or null
     */
    record NotOpen(Instant opensAt) implements Reserved {}

    /** The sale has ended. */
    record Ended() implements Reserved {}

    /**
     * The sale is halted, or honors only receipts: retry later.
     *
     * @param retryAt when to retry, or null
     */
    record Halted(Instant retryAt) implements Reserved {}
}
