package dev.rushgate;

/** A client asked to cancel the task that a handler runs. */
public class TaskCanceledException extends RushgateException {
    private static final long serialVersionUID = 1;

    /**
     * A failure with the code {@code cancelled}.
     *
     * @param message what failed and why
     * @param details the rest
     */
    public TaskCanceledException(String message, Details details) {
        this("cancelled", message, details);
    }

    /**
     * A failure with another code.
     *
     * @param code stable code
     * @param message what failed and why
     * @param details the rest
     */
    public TaskCanceledException(String code, String message, Details details) {
        super(code, message, details);
    }
}
