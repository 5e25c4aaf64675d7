package dev.rushgate;

/** The store is full. Nothing was written. */
public class FullException extends RushgateException {
    private static final long serialVersionUID = 1;

    /**
     * A failure with the code {@code full}.
     *
     * @param message what failed and why
     * @param details the rest
     */
    public FullException(String message, Details details) {
        this("full", message, details);
    }

    /**
     * A failure with another code.
     *
     * @param code stable code
     * @param message what failed and why
     * @param details the rest
     */
    public FullException(String code, String message, Details details) {
        super(code, message, details);
    }

    @Override
    public boolean isRetryable() {
        return true;
    }
}
