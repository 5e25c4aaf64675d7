package dev.rushgate;

/** The store is not set up for this package: the function library is missing, or has another protocol. */
public class MisconfiguredException extends RushgateException {
    private static final long serialVersionUID = 1;

    /**
     * A failure with the code {@code misconfigured}.
     *
     * @param message what failed and why
     * @param details the rest
     */
    public MisconfiguredException(String message, Details details) {
        this("misconfigured", message, details);
    }

    /**
     * A failure with another code.
     *
     * @param code stable code
     * @param message what failed and why
     * @param details the rest
     */
    public MisconfiguredException(String code, String message, Details details) {
        super(code, message, details);
    }
}
