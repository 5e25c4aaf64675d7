package dev.rushgate;

/** Reason for which a sale is halted. */
public enum HaltReason {
    /** The store has lost writes. */
    LOST_WRITES,
    /** An operator halted it. */
    OPERATOR,
    /** It is being rebuilt. */
    REBUILDING
}
