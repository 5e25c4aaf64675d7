package dev.rushgate.internal.redis;

import dev.rushgate.InvalidException;
import dev.rushgate.RushgateException.Details;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Where a Redis URL leads to. User, password and service may be null. */
record RedisUrl(Kind kind, boolean tls, String user, String password, List<Node> nodes, String service, int database) {
    private static final Pattern URL =
            Pattern.compile("(rediss?)(?:\\+(sentinel|cluster))?://(?:([^@/]*)@)?([^/?#]+)(?:/([^?#]*))?");
    private static final Pattern NODE = Pattern.compile("(?:\\[([^\\]]+)\\]|([^:\\[\\]]+))(?::(\\d{1,5}))?");
    private static final String HINT =
            "Use redis://HOST, redis+sentinel://HOST/SERVICE or redis+cluster://HOST, or rediss for TLS.";

    private static final int MAX_PORT = 65_535;

    enum Kind {
        SERVER(6379), SENTINEL(26379), CLUSTER(6379);

        private final int port;

        Kind(int port) {
            this.port = port;
        }
    }

    /** Host and port. */
    record Node(String host, int port) {}

    static RedisUrl parse(String url) {
        Matcher parts = URL.matcher(url);
        if (!parts.matches()) {
            throw invalid("is malformed");
        }
        Kind kind = parts.group(2) == null ? Kind.SERVER : Kind.valueOf(parts.group(2).toUpperCase(java.util.Locale.ROOT));
        List<String> path = Arrays.stream((parts.group(5) == null ? "" : parts.group(5)).split("/"))
                .filter(segment -> !segment.isEmpty()).toList();
        String service = null;
        if (kind == Kind.SENTINEL) {
            if (path.isEmpty()) {
                throw invalid("names no service");
            }
            service = path.get(0);
            path = path.subList(1, path.size());
        }
        List<Node> nodes = Arrays.stream(parts.group(4).split(",", -1)).map(node -> node(node, kind.port)).toList();
        if (kind == Kind.SERVER && nodes.size() > 1) {
            throw invalid("has more than one host");
        }
        if (kind == Kind.CLUSTER && !path.isEmpty()) {
            throw invalid("has a database, which a Cluster does not have");
        }
        String[] account = parts.group(3) == null ? new String[] {null, null} : account(parts.group(3));
        return new RedisUrl(kind, parts.group(1).equals("rediss"), account[0], account[1], nodes, service, database(path));
    }

    private static String[] account(String text) {
        int colon = text.indexOf(':');
        if (colon < 0) {
            throw invalid("has a user without a password");
        }
        String user = text.substring(0, colon);
        return new String[] {user.isEmpty() ? null : decoded(user), decoded(text.substring(colon + 1))};
    }

    private static String decoded(String text) {
        try {
            return URLDecoder.decode(text.replace("+", "%2B"), StandardCharsets.UTF_8);
        } catch (IllegalArgumentException malformed) {
            throw invalid("has a malformed user or password");
        }
    }

    private static Node node(String text, int port) {
        Matcher parts = NODE.matcher(text);
        if (!parts.matches()) {
            throw invalid("has a malformed host");
        }
        String host = parts.group(1) == null ? parts.group(2) : parts.group(1);
        int number = parts.group(3) == null ? port : Integer.parseInt(parts.group(3));
        if (number < 1 || number > MAX_PORT) {
            throw invalid("has a port that does not exist");
        }
        return new Node(host, number);
    }

    private static int database(List<String> path) {
        if (path.isEmpty()) {
            return 0;
        }
        if (path.size() > 1 || !path.get(0).matches("\\d{1,5}")) {
            throw invalid("has a malformed database");
        }
        return Integer.parseInt(path.get(0));
    }

    private static InvalidException invalid(String why) {
        return new InvalidException("The URL " + why + ".", new Details("url", HINT, null, null));
    }

    @Override
    public String toString() {
        return kind + " " + nodes;
    }
}
