package dev.rushgate;

/** State of a reservation. */
public enum HoldState {
    /** On hold until its deadline. */
    HELD,
    /** Confirmed, and not yet in the ledger. */
    CONFIRMING,
    /** Canceled, and not yet in the ledger. */
    CANCELLING,
    /** Expired, and not yet in the ledger. */
    EXPIRING,
    /** Sold. */
    CONFIRMED,
    /** Canceled. */
    CANCELLED,
    /** Expired. */
    EXPIRED,
    /** Refused by the ledger. */
    REJECTED;

    /** Whether the state does not change any more. */
    public boolean isFinal() {
        return this == CONFIRMED || this == CANCELLED || this == EXPIRED || this == REJECTED;
    }
}
