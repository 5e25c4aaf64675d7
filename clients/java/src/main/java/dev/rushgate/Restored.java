package dev.rushgate;

import java.time.Instant;

/** Outcome of restoring a reservation from its receipt. */
public sealed interface Restored {
    /**
     * The reservation is restored.
     *
     * @param hold the reservation
     */
    record New(Hold hold) implements Restored {}

    /**
     * The reservation was not lost.
     *
     * @param hold the reservation
     */
    record Known(Hold hold) implements Restored {}

    /** The hold would have expired. */
    record Expired() implements Restored {}

    /** The receipt is not valid for this sale. */
    record NotHonored() implements Restored {}

    /**
     * Too few units are free.
     *
     * @param sku SKU
     * @param free units that are free
     */
    record NoneLeft(String sku, long free) implements Restored {}

    /**
     * The purchase limit is exceeded.
     *
     * @param sku SKU
     * @param limit purchase limit
     * @param has units that the buyer has
     */
    record LimitReached(String sku, long limit, long has) implements Restored {}

    /**
     * The sale is halted: retry later.
     *
     * @param retryAt when to retry, or null
     */
    record Halted(Instant retryAt) implements Restored {}
}
