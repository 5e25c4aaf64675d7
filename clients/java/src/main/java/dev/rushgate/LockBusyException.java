package dev.rushgate;

/** Another client holds the lock, and the wait has timed out. */
public class LockBusyException extends RushgateException {
    private static final long serialVersionUID = 1;

    /**
     * A failure with the code {@code lock_busy}.
     *
     * @param message what failed and why
     * @param details the rest
     */
    public LockBusyException(String message, Details details) {
        this("lock_busy", message, details);
    }

    /**
     * A failure with another code.
     *
     * @param code stable code
     * @param message what failed and why
     * @param details the rest
     */
    public LockBusyException(String code, String message, Details details) {
        super(code, message, details);
    }

    @Override
    public boolean isRetryable() {
        return true;
    }
}
