package dev.rushgate;

/** The lock was lost: its lease expired, or an operator force-released it. Another client may hold it. */
public class LockLostException extends RushgateException {
    private static final long serialVersionUID = 1;

    /**
     * A failure with the code {@code not_held}.
     *
     * @param message what failed and why
     * @param details the rest
     */
    public LockLostException(String message, Details details) {
        this("not_held", message, details);
    }

    /**
     * A failure with another code.
     *
     * @param code stable code
     * @param message what failed and why
     * @param details the rest
     */
    public LockLostException(String code, String message, Details details) {
        super(code, message, details);
    }
}
