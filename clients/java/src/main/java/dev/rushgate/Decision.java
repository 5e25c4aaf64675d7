package dev.rushgate;

/** Outcome of a confirmation or a cancellation. */
public sealed interface Decision {
    /**
     * Decided as asked, by this or an earlier call.
     *
     * @param hold the reservation
     */
    record Done(Hold hold) implements Decision {}

    /**
     * Decided as asked. The ledger has not committed it yet.
     *
     * @param hold the reservation
     */
    record Pending(Hold hold) implements Decision {}

    /**
     * Decided otherwise before: refund a payment.
     *
     * @param state state of the reservation
     */
    record Refused(HoldState state) implements Decision {}

    /** There is no such reservation. */
    record Unknown() implements Decision {}

    /** The sale is halted: retry later. */
    record Halted() implements Decision {}
}
