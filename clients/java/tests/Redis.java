import static java.nio.charset.StandardCharsets.UTF_8;

import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.net.Socket;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Plain commands to the store of a target, over a connection that has nothing in common with the package. */
final class Redis implements AutoCloseable {
    private static final Pattern ADDRESS = Pattern.compile("//(?:[^@/]*@)?([^:/,]+):(\\d+)(?:[^/]*/([^/]+))?");

    private final boolean tls;
    private Socket socket;
    private InputStream in;

    private Redis(String host, int port, boolean tls) throws IOException {
        this.tls = tls;
        connect(host, port);
    }

    /** A connection to the server that a URL names: a server, the primary behind a sentinel, or any node of a Cluster. */
    static Redis connect(String url) throws IOException {
        Matcher address = ADDRESS.matcher(url);
        if (!address.find()) {
            throw new IllegalArgumentException(url);
        }
        Redis named = new Redis(address.group(1), Integer.parseInt(address.group(2)), url.startsWith("rediss"));
        if (!url.contains("+sentinel")) {
            return named;
        }
        try (named) {
            List<?> primary = (List<?>) named.command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", address.group(3));
            return new Redis(text(primary.get(0)), Integer.parseInt(text(primary.get(1))), named.tls);
        }
    }

    private void connect(String host, int port) throws IOException {
        Socket plain = new Socket(host, port);
        plain.setTcpNoDelay(true);
        socket = tls ? Target.authority().getSocketFactory().createSocket(plain, host, port, true) : plain;
        in = new BufferedInputStream(socket.getInputStream());
    }

    /** The reply: a {@code Long}, the bytes of a string, a list, or null. Follows a Cluster to the node of a key. */
    Object command(Object... words) throws IOException {
        ByteArrayOutputStream command = new ByteArrayOutputStream();
        command.write(("*" + words.length + "\r\n").getBytes(UTF_8));
        for (Object word : words) {
            byte[] bytes = word instanceof byte[] raw ? raw : word.toString().getBytes(UTF_8);
            command.write(("$" + bytes.length + "\r\n").getBytes(UTF_8));
            command.write(bytes);
            command.write(new byte[] {'\r', '\n'});
        }
        socket.getOutputStream().write(command.toByteArray());
        try {
            return read();
        } catch (Refusal refusal) {
            if (!refusal.getMessage().startsWith("MOVED ")) {
                throw refusal;
            }
            String[] owner = refusal.getMessage().split(" ")[2].split(":");
            socket.close();
            connect(owner[0], Integer.parseInt(owner[1]));
            return command(words);
        }
    }

    /** An error that the server answered. */
    static final class Refusal extends IOException {
        private static final long serialVersionUID = 1;

        Refusal(String text) {
            super(text);
        }
    }

    private Object read() throws IOException {
        String line = line();
        switch (line.charAt(0)) {
            case '-' -> throw new Refusal(line.substring(1));
            case '+' -> {
                return line.substring(1).getBytes(UTF_8);
            }
            case ':' -> {
                return Long.valueOf(line.substring(1));
            }
            default -> { }
        }
        int length = Integer.parseInt(line.substring(1));
        if (length < 0) {
            return null;
        }
        if (line.charAt(0) == '$') {
            byte[] bytes = in.readNBytes(length);
            line();
            return bytes;
        }
        List<Object> entries = new ArrayList<>();
        for (int entry = 0; entry < length; entry++) {
            entries.add(read());
        }
        return entries;
    }

    private String line() throws IOException {
        ByteArrayOutputStream line = new ByteArrayOutputStream();
        for (int next = in.read(); next != '\r'; next = in.read()) {
            if (next < 0) {
                throw new EOFException();
            }
            line.write(next);
        }
        in.read();
        return line.toString(UTF_8);
    }

    /** The text of a reply. Empty for null. */
    static String text(Object reply) {
        return reply == null ? "" : reply instanceof byte[] bytes ? new String(bytes, UTF_8) : reply.toString();
    }

    /** How many processes wait for a task of a queue. */
    long listeners(String queue) throws IOException {
        return (Long) command("ZCARD", "rg:{q:" + queue + "}:listeners");
    }

    @Override
    public void close() throws IOException {
        socket.close();
    }
}
