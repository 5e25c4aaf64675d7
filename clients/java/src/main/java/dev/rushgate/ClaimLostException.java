package dev.rushgate;

/** The claim of a task was lost: another worker may have the task. */
public class ClaimLostException extends RushgateException {
    private static final long serialVersionUID = 1;

    /**
     * A failure with the code {@code stale}.
     *
     * @param message what failed and why
     * @param details the rest
     */
    public ClaimLostException(String message, Details details) {
        this("stale", message, details);
    }

    /**
     * A failure with another code.
     *
     * @param code stable code
     * @param message what failed and why
     * @param details the rest
     */
    public ClaimLostException(String code, String message, Details details) {
        super(code, message, details);
    }
}
