package dev.rushgate;

/** The store or server did not answer in time. Nothing was changed, unless the outcome is unknown. */
public class UnavailableException extends RushgateException {
    private static final long serialVersionUID = 1;

    /**
     * A failure with the code {@code unavailable}.
     *
     * @param message what failed and why
     * @param details the rest
     */
    public UnavailableException(String message, Details details) {
        this("unavailable", message, details);
    }

    /**
     * A failure with another code.
     *
     * @param code stable code
     * @param message what failed and why
     * @param details the rest
     */
    public UnavailableException(String code, String message, Details details) {
        super(code, message, details);
    }

    @Override
    public boolean isRetryable() {
        return true;
    }
}
