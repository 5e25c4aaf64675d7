package dev.rushgate;

/** A handler exceeded its timeout, or the deadline of its task. */
public class HandlerTimeoutException extends RushgateException {
    private static final long serialVersionUID = 1;

    /**
     * A failure with the code {@code timeout}.
     *
     * @param message what failed and why
     * @param details the rest
     */
    public HandlerTimeoutException(String message, Details details) {
        this("timeout", message, details);
    }

    /**
     * A failure with another code.
     *
     * @param code stable code
     * @param message what failed and why
     * @param details the rest
     */
    public HandlerTimeoutException(String code, String message, Details details) {
        super(code, message, details);
    }
}
