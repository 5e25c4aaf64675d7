package dev.rushgate;

/** The token, the password or the rights do not allow the call. */
public class ForbiddenException extends RushgateException {
    private static final long serialVersionUID = 1;

    /**
     * A failure with the code {@code forbidden}.
     *
     * @param message what failed and why
     * @param details the rest
     */
    public ForbiddenException(String message, Details details) {
        this("forbidden", message, details);
    }

    /**
     * A failure with another code.
     *
     * @param code stable code
     * @param message what failed and why
     * @param details the rest
     */
    public ForbiddenException(String code, String message, Details details) {
        super(code, message, details);
    }
}
