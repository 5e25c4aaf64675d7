package dev.rushgate.internal.redis;

import dev.rushgate.internal.Timers;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** A Cluster: the node of a key follows from its hash slot. */
final class ClusterRouter implements Router {
    private static final int SLOTS = 16_384;
    private static final int REDIRECTS = 5;

    private final RedisUrl url;
    private final Dialer dialer;
    private final Timers timers;
    private final Map<RedisUrl.Node, SharedConnection> connections = new ConcurrentHashMap<>();
    private volatile RedisUrl.Node[] owners;

    ClusterRouter(RedisUrl url, Dialer dialer, Timers timers) {
        this.url = url;
        this.dialer = dialer;
        this.timers = timers;
    }

    @Override
    public Object send(List<?> command, String key) throws IOException {
        byte[] encoded = Resp.command(command);
        RedisUrl.Node node = key == null ? anyNode() : ownerOf(slot(key));
        boolean asking = false;
        for (int redirect = 0; ; redirect++) {
            Object reply = sendTo(node, encoded, asking);
            if (!(reply instanceof Resp.Failure failure)) {
                return reply;
            }
            boolean moved = failure.code().equals("MOVED");
            asking = failure.code().equals("ASK");
            if (moved || failure.code().equals("CLUSTERDOWN")) {
                forgetOwners();
            }
            if (!(moved || asking) || redirect == REDIRECTS) {
                throw new ReplyException(failure);
            }
            node = target(failure, node);
        }
    }

    private Object sendTo(RedisUrl.Node node, byte[] command, boolean asking) throws IOException {
        try {
            Connection connection = open(node);
            return connection.send(asking ? List.of(Resp.command(List.of("ASKING")), command) : List.of(command));
        } catch (IOException cause) {
            // The node may have failed, and another one may have its slots.
            forgetOwners();
            throw cause;
        }
    }

    /** The node that a redirection names: {@code MOVED slot host:port}. An empty host is that of the answering node. */
    private static RedisUrl.Node target(Resp.Failure failure, RedisUrl.Node from) throws IOException {
        String[] words = failure.text().split(" ");
        int colon = words.length < 3 ? -1 : words[2].lastIndexOf(':');
        if (colon < 0) {
            throw new IOException("the node sent a malformed redirection");
        }
        String host = words[2].substring(0, colon);
        return new RedisUrl.Node(host.isEmpty() ? from.host() : host, Integer.parseInt(words[2].substring(colon + 1)));
    }

    private Connection open(RedisUrl.Node node) throws IOException {
        return connections.computeIfAbsent(node, to -> new SharedConnection(() -> to, dialer, timers)).open();
    }

    private void forgetOwners() {
        owners = null;
    }

    private RedisUrl.Node ownerOf(int slot) throws NotSentException {
        RedisUrl.Node[] known = owners;
        if (known == null) {
            known = readOwners();
            owners = known;
        }
        if (known[slot] == null) {
            forgetOwners();
            throw new NotSentException("no node has the slot " + slot, null);
        }
        return known[slot];
    }

    private RedisUrl.Node anyNode() throws IOException {
        return ownerOf(0);
    }

    /** Asks the nodes, those that are known first, for the owners of all slots. */
    private RedisUrl.Node[] readOwners() throws NotSentException {
        Set<RedisUrl.Node> nodes = new LinkedHashSet<>(connections.keySet());
        nodes.addAll(url.nodes());
        Exception last = null;
        for (RedisUrl.Node node : nodes) {
            try {
                Object reply = open(node).send(List.of(Resp.command(List.of("CLUSTER", "SLOTS"))));
                if (reply instanceof List<?> ranges) {
                    return owners(ranges, node);
                }
                throw new IOException(String.valueOf(reply));
            } catch (IOException cause) {
                last = cause;
            } catch (ReplyException refused) {
                if (refused.isAboutRights()) {
                    throw refused;
                }
                last = refused;
            }
        }
        throw new NotSentException("no node answers", last);
    }

    private static RedisUrl.Node[] owners(List<?> ranges, RedisUrl.Node from) {
        RedisUrl.Node[] owners = new RedisUrl.Node[SLOTS];
        for (Object entry : ranges) {
            List<?> range = (List<?>) entry;
            List<?> address = (List<?>) range.get(2);
            byte[] host = (byte[]) address.get(0);
            String name = host == null || host.length == 0 ? from.host() : new String(host, StandardCharsets.UTF_8);
            RedisUrl.Node owner = new RedisUrl.Node(name, ((Long) address.get(1)).intValue());
            int last = ((Long) range.get(1)).intValue();
            for (int slot = ((Long) range.get(0)).intValue(); slot <= last; slot++) {
                owners[slot] = owner;
            }
        }
        return owners;
    }

    /** The hash slot of a key: CRC-16/XMODEM of its hash tag. */
    static int slot(String key) {
        int open = key.indexOf('{');
        int close = open < 0 ? -1 : key.indexOf('}', open + 1);
        String tag = close > open + 1 ? key.substring(open + 1, close) : key;
        int crc = 0;
        for (byte next : tag.getBytes(StandardCharsets.UTF_8)) {
            crc ^= (next & 0xff) << 8;
            for (int bit = 0; bit < 8; bit++) {
                crc = (crc & 0x8000) == 0 ? crc << 1 : (crc << 1) ^ 0x1021;
            }
        }
        return (crc & 0xffff) % SLOTS;
    }

    /** Messages reach every node, so that any node will do. */
    @Override
    public Dialer.Line dial() throws IOException {
        List<RedisUrl.Node> nodes = new ArrayList<>(url.nodes());
        nodes.add(0, anyNode());
        IOException last = null;
        for (RedisUrl.Node node : nodes) {
            try {
                return dialer.connect(node);
            } catch (IOException cause) {
                last = cause;
                forgetOwners();
            }
        }
        throw last;
    }

    @Override
    public boolean needsAllKeys() {
        return true;
    }

    @Override
    public void close() {
        connections.values().forEach(SharedConnection::close);
    }
}
