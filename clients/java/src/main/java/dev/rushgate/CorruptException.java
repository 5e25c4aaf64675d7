package dev.rushgate;

/** The store or server answered something that this package cannot read. The data stays where it is. */
public class CorruptException extends RushgateException {
    private static final long serialVersionUID = 1;

    /**
     * A failure with the code {@code corrupt}.
     *
     * @param message what failed and why
     * @param details the rest
     */
    public CorruptException(String message, Details details) {
        this("corrupt", message, details);
    }

    /**
     * A failure with another code.
     *
     * @param code stable code
     * @param message what failed and why
     * @param details the rest
     */
    public CorruptException(String code, String message, Details details) {
        super(code, message, details);
    }
}
