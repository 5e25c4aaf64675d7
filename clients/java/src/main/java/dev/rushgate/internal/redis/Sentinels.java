package dev.rushgate.internal.redis;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.List;

/** Asks sentinels for the primary of a service. */
final class Sentinels implements SharedConnection.Resolver {
    private static final String PRIMARY = "master";

    private final RedisUrl url;
    private final Dialer dialer;

    Sentinels(RedisUrl url, Dialer dialer) {
        this.url = url;
        this.dialer = dialer;
    }

    /** The first primary that a sentinel names and that says it is one. */
    @Override
    public RedisUrl.Node resolve() throws IOException {
        IOException last = new IOException("no sentinel answers");
        for (RedisUrl.Node sentinel : url.nodes()) {
            try {
                RedisUrl.Node primary = primaryOf(sentinel);
                checkRole(primary);
                return primary;
            } catch (IOException cause) {
                last = cause;
            } catch (ReplyException refused) {
                if (refused.isAboutRights()) {
                    throw refused;
                }
                last = new IOException(refused.getMessage(), refused);
            }
        }
        throw last;
    }

    private RedisUrl.Node primaryOf(RedisUrl.Node sentinel) throws IOException {
        Dialer.Line line = dialer.dial(sentinel);
        try {
            List<String> question = List.of("SENTINEL", "GET-MASTER-ADDR-BY-NAME", url.service());
            if (dialer.ask(line.socket(), List.of(question)) instanceof List<?> address && address.size() == 2) {
                return new RedisUrl.Node(text(address.get(0)), Integer.parseInt(text(address.get(1))));
            }
            throw new IOException("the sentinel does not know the service " + url.service());
        } finally {
            line.close();
        }
    }

    /** A sentinel may name a primary that was just replaced. */
    private void checkRole(RedisUrl.Node node) throws IOException {
        Dialer.Line line = dialer.connect(node);
        try {
            Object role = dialer.ask(line.socket(), List.of(List.of("ROLE")));
            if (!(role instanceof List<?> parts) || parts.isEmpty() || !text(parts.get(0)).equals(PRIMARY)) {
                throw new IOException("the server that the sentinel named is not the primary");
            }
        } finally {
            line.close();
        }
    }

    private static String text(Object reply) {
        return new String((byte[]) reply, StandardCharsets.UTF_8);
    }
}
