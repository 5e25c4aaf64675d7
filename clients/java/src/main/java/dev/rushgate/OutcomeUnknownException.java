package dev.rushgate;

/** No answer arrived: the call may have taken effect. */
public class OutcomeUnknownException extends UnavailableException {
    private static final long serialVersionUID = 1;

    /**
     * A failure with the code {@code outcome_unknown}.
     *
     * @param message what failed and why
     * @param details the rest
     */
    public OutcomeUnknownException(String message, Details details) {
        this("outcome_unknown", message, details);
    }

    /**
     * A failure with another code.
     *
     * @param code stable code
     * @param message what failed and why
     * @param details the rest
     */
    public OutcomeUnknownException(String code, String message, Details details) {
        super(code, message, details);
    }
}
