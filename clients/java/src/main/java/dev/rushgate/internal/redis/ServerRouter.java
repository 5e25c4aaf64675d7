package dev.rushgate.internal.redis;

import dev.rushgate.internal.Timers;
import java.io.IOException;
import java.util.List;
import java.util.Set;

/** One server: that of the URL, or the primary that sentinels name. */
final class ServerRouter implements Router {
    /** Codes of a server that is not, or no longer, the primary that takes writes. */
    private static final Set<String> ELSEWHERE = Set.of("READONLY", "MASTERDOWN", "LOADING");

    private final SharedConnection.Resolver resolver;
    private final Dialer dialer;
    private final SharedConnection shared;

    ServerRouter(SharedConnection.Resolver resolver, Dialer dialer, Timers timers) {
        this.resolver = resolver;
        this.dialer = dialer;
        shared = new SharedConnection(resolver, dialer, timers);
    }

    @Override
    public Object send(List<?> command, String key) throws IOException {
        Connection open = shared.open();
        Object reply = open.send(List.of(Resp.command(command)));
        if (reply instanceof Resp.Failure failure) {
            if (ELSEWHERE.contains(failure.code())) {
                open.close();
            }
            throw new ReplyException(failure);
        }
        return reply;
    }

    @Override
    public Dialer.Line dial() throws IOException {
        return dialer.connect(resolver.resolve());
    }

    @Override
    public boolean needsAllKeys() {
        return false;
    }

    @Override
    public void close() {
        shared.close();
    }
}
