package dev.rushgate;

import java.time.Duration;

/** Base of every failure of this package. */
public class RushgateException extends RuntimeException {
    private static final long serialVersionUID = 1;

    private final String code;
    private final Details details;

    /**
     * What an exception has besides its message. Any part may be null.
     *
     * @param field argument or setting that the failure is about
     * @param hint what to do
     * @param retryAfter delay after which a retry of the same call may succeed
     * @param cause failure that caused this one
     */
    public record Details(String field, String hint, Duration retryAfter, Throwable cause) {
        /** No details. */
        public static final Details NONE = new Details(null, null, null, null);

        /**
         * Details with a hint.
         *
         * @param hint what to do
         * @return the details
         */
        public static Details hint(String hint) {
            return new Details(null, hint, null, null);
        }

        /**
         * Details with a cause.
         *
         * @param cause failure that caused this one
         * @return the details
         */
        public static Details cause(Throwable cause) {
            return new Details(null, null, null, cause);
        }
    }

    /**
     * A failure.
     *
     * @param code stable code: that of the HTTP API where it has one
     * @param message what failed and why
     * @param details the rest
     */
    public RushgateException(String code, String message, Details details) {
        super(details.hint() == null ? message : message + " " + details.hint(), details.cause());
        this.code = code;
        this.details = details;
    }

    /**
     * Stable code: that of the HTTP API where it has one, such as {@code invalid}.
     *
     * @return the code
     */
    public String code() {
        return code;
    }

    /**
     * Argument or setting that the failure is about.
     *
     * @return its name, or null
     */
    public String field() {
        return details.field();
    }

    /**
     * What to do.
     *
     * @return the hint, or null
     */
    public String hint() {
        return details.hint();
    }

    /**
     * Delay after which a retry of the same call may succeed.
     *
     * @return the delay, or null if it is not known
     */
    public Duration retryAfter() {
        return details.retryAfter();
    }

    /**
     * Whether a retry of the same call may succeed.
     *
     * @return true if it may
     */
    public boolean isRetryable() {
        return false;
    }
}
