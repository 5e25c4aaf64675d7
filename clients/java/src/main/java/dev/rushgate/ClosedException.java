package dev.rushgate;

/** The client is closed. */
public class ClosedException extends RushgateException {
    private static final long serialVersionUID = 1;

    /**
     * A failure with the code {@code closed}.
     *
     * @param message what failed and why
     * @param details the rest
     */
    public ClosedException(String message, Details details) {
        this("closed", message, details);
    }

    /**
     * A failure with another code.
     *
     * @param code stable code
     * @param message what failed and why
     * @param details the rest
     */
    public ClosedException(String code, String message, Details details) {
        super(code, message, details);
    }
}
