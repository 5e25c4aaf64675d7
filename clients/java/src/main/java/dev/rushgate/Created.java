package dev.rushgate;

/** Outcome of creating a sale. */
public enum Created {
    /** The sale is created. */
    CREATED,
    /** Another sale has the ID. */
    EXISTS
}
