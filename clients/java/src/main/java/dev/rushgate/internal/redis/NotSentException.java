package dev.rushgate.internal.redis;

import java.io.IOException;

/** A command was not sent, so that nothing can have happened. */
final class NotSentException extends IOException {
    private static final long serialVersionUID = 1;

    NotSentException(String message, Throwable cause) {
        super(message, cause);
    }
}
