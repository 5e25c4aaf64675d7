package dev.rushgate;

import java.time.Duration;
import java.time.Instant;
import java.util.List;

/**
 * A sale and its stock.
 *
 * @param id ID of the sale
 * @param hold hold duration
 * @param opensAt opening time, or null
 * @param closesAt closing time, or null
 * @param ledger whether a ledger records the orders
 * @param status status
 * @param generation generation
 * @param seq number of its latest event
 * @param skus stock
 * @param nextExpiry earliest deadline of a hold, or null
 * @param halted why it is halted, or null
 * @param receiptsUntil until when only receipts are honored, or null
 * @param orders how far the ledger has followed the sale, or null without a ledger
 * @param now time of the store
 */
public record SaleState(
        String id,
        Duration hold,
        Instant opensAt,
        Instant closesAt,
        boolean ledger,
        SaleStatus status,
        long generation,
        long seq,
        List<SkuState> skus,
        Instant nextExpiry,
        Halt halted,
        Instant receiptsUntil,
        Orders orders,
        Instant now) {
    /**
     * Why a sale is halted.
     *
     * @param reason reason
     * @param since since when
     */
    public record Halt(HaltReason reason, Instant since) {}

    /**
     * How far the ledger has followed a sale.
     *
     * @param through number of the latest event that was delivered to the ledger
     * @param behindSince time of the event after it, or null
     * @param failed how many entries failed
     * @param workerUntil end of the lease of the order worker, or null
     */
    public record Orders(long through, Instant behindSince, long failed, Instant workerUntil) {}

    /** The stock of one SKU. Throws {@link NotFoundException} if the sale does not have it. */
    public SkuState sku(String name) {
        return skus.stream().filter(state -> state.sku().equals(name)).findFirst().orElseThrow(() ->
                new NotFoundException("The sale `" + id + "` has no SKU `" + name + "`.", RushgateException.Details.NONE));
    }
}
