package dev.rushgate.internal.redis;

import java.util.Set;

/** An error of the server, which executed nothing. */
final class ReplyException extends RuntimeException {
    private static final long serialVersionUID = 1;
    private static final Set<String> RIGHTS = Set.of("NOAUTH", "NOPERM", "WRONGPASS");

    private final transient Resp.Failure failure;

    ReplyException(Resp.Failure failure) {
        super(failure.text());
        this.failure = failure;
    }

    String code() {
        return failure.code();
    }

    /** Whether the server refused the user. Another server of the same store will refuse it too. */
    boolean isAboutRights() {
        return RIGHTS.contains(code());
    }
}
