package dev.rushgate.internal.redis;

import java.io.IOException;
import java.util.List;

/** Finds the node for a call. */
interface Router extends AutoCloseable {
    /**
     * Sends a command to the node of a key, or to any node for null, and returns its reply. Throws {@link IOException} if
     * no reply came, and {@link ReplyException} if the server refused the command.
     */
    Object send(List<?> command, String key) throws IOException;

    /** A separate connection, for a subscription. */
    Dialer.Line dial() throws IOException;

    /** Whether a call needs all keys of each group. */
    boolean needsAllKeys();

    @Override
    void close();
}
