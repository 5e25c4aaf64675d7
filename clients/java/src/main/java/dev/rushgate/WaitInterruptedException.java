package dev.rushgate;

/** The thread was interrupted while it waited. Its interrupt flag is set again. */
public class WaitInterruptedException extends RushgateException {
    private static final long serialVersionUID = 1;

    /**
     * A failure with the code {@code interrupted}.
     *
     * @param message what failed and why
     * @param details the rest
     */
    public WaitInterruptedException(String message, Details details) {
        this("interrupted", message, details);
    }

    /**
     * A failure with another code.
     *
     * @param code stable code
     * @param message what failed and why
     * @param details the rest
     */
    public WaitInterruptedException(String code, String message, Details details) {
        super(code, message, details);
    }
}
