package dev.rushgate;

/** An argument is out of range, malformed, or excluded by another one. Nothing was changed. */
public class InvalidException extends RushgateException {
    private static final long serialVersionUID = 1;

    /**
     * A failure with the code {@code invalid}.
     *
     * @param message what failed and why
     * @param details the rest
     */
    public InvalidException(String message, Details details) {
        this("invalid", message, details);
    }

    /**
     * A failure with another code.
     *
     * @param code stable code
     * @param message what failed and why
     * @param details the rest
     */
    public InvalidException(String code, String message, Details details) {
        super(code, message, details);
    }
}
