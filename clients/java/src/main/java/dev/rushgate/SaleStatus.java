package dev.rushgate;

/** Status of a sale. */
public enum SaleStatus {
    /** Not opened yet. */
    CREATED,
    /** Opened. */
    OPEN,
    /** Ended permanently. */
    ENDED
}
