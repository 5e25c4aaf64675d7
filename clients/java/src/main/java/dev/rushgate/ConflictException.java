package dev.rushgate;

/** The state does not allow the call. */
public class ConflictException extends RushgateException {
    private static final long serialVersionUID = 1;

    /**
     * A failure with the code {@code conflict}.
     *
     * @param message what failed and why
     * @param details the rest
     */
    public ConflictException(String message, Details details) {
        this("conflict", message, details);
    }

    /**
     * A failure with another code.
     *
     * @param code stable code
     * @param message what failed and why
     * @param details the rest
     */
    public ConflictException(String code, String message, Details details) {
        super(code, message, details);
    }
}
