package dev.rushgate.internal.redis;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;
import javax.net.ssl.SSLSocket;

/** Opens connections: TCP, TLS with a check of the host's name, user and password, database. */
final class Dialer {
    private final RedisUrl url;
    private final SSLContext ssl;
    private final Duration timeout;

    Dialer(RedisUrl url, SSLContext ssl, Duration timeout) {
        this.url = url;
        this.ssl = ssl;
        this.timeout = timeout;
    }

    Duration timeout() {
        return timeout;
    }

    /** An open socket. Closing {@code raw} unblocks every read and write at once. */
    record Line(Socket raw, Socket socket) {
        void close() {
            try {
                raw.close();
            } catch (IOException alreadyClosed) {
                // Nothing is left to do.
            }
        }
    }

    /** Connects to a node, and introduces the client. */
    Line connect(RedisUrl.Node node) throws IOException {
        Line line = dial(node);
        try {
            introduce(line.socket());
            return line;
        } catch (IOException | RuntimeException failed) {
            line.close();
            throw failed;
        }
    }

    /** Connects to another kind of node, such as a sentinel. */
    Line dial(RedisUrl.Node node) throws IOException {
        Socket raw = new Socket();
        try {
            raw.connect(new InetSocketAddress(node.host(), node.port()), (int) timeout.toMillis());
            raw.setTcpNoDelay(true);
            raw.setKeepAlive(true);
            return new Line(raw, url.tls() ? secured(raw, node) : raw);
        } catch (IOException | RuntimeException failed) {
            raw.close();
            throw failed;
        }
    }

    private Socket secured(Socket raw, RedisUrl.Node node) throws IOException {
        raw.setSoTimeout((int) timeout.toMillis());
        SSLSocket socket = (SSLSocket) ssl.getSocketFactory().createSocket(raw, node.host(), node.port(), true);
        SSLParameters parameters = socket.getSSLParameters();
        parameters.setEndpointIdentificationAlgorithm("HTTPS");
        socket.setSSLParameters(parameters);
        socket.startHandshake();
        raw.setSoTimeout(0);
        return socket;
    }

    private void introduce(Socket socket) throws IOException {
        List<List<String>> commands = new ArrayList<>();
        if (url.password() != null) {
            commands.add(url.user() == null ? List.of("AUTH", url.password()) : List.of("AUTH", url.user(), url.password()));
        }
        if (url.database() != 0) {
            commands.add(List.of("SELECT", Integer.toString(url.database())));
        }
        if (!commands.isEmpty()) {
            ask(socket, commands);
        }
    }

    /** Sends commands over a fresh socket, and returns the last reply. */
    Object ask(Socket socket, List<List<String>> commands) throws IOException {
        socket.setSoTimeout((int) timeout.toMillis());
        for (List<String> command : commands) {
            socket.getOutputStream().write(Resp.command(command));
        }
        socket.getOutputStream().flush();
        Resp replies = new Resp(socket.getInputStream());
        Object reply = null;
        for (int answered = 0; answered < commands.size(); answered++) {
            reply = replies.read();
            if (reply instanceof Resp.Failure failure) {
                throw new ReplyException(failure);
            }
        }
        socket.setSoTimeout(0);
        return reply;
    }
}
