package dev.rushgate;

/** The named sale, SKU, task or schedule does not exist. */
public class NotFoundException extends RushgateException {
    private static final long serialVersionUID = 1;

    /**
     * A failure with the code {@code not_found}.
     *
     * @param message what failed and why
     * @param details the rest
     */
    public NotFoundException(String message, Details details) {
        this("not_found", message, details);
    }

    /**
     * A failure with another code.
     *
     * @param code stable code
     * @param message what failed and why
     * @param details the rest
     */
    public NotFoundException(String code, String message, Details details) {
        super(code, message, details);
    }
}
