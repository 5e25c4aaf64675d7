import static java.nio.charset.StandardCharsets.ISO_8859_1;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;

/** Stands before a server. It counts the bytes of requests, replaces their words, loses answers, and cuts connections. */
final class Proxy implements AutoCloseable {
    private final ServerSocket server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
    private final int target;
    private final Set<Socket> open = ConcurrentHashMap.newKeySet();
    private final AtomicLong requested = new AtomicLong();
    private final AtomicLong refused = new AtomicLong();
    private final AtomicReference<Fault> next = new AtomicReference<>();
    private volatile Runnable onLoss = () -> { };
    private final Map<String, String> words = new ConcurrentHashMap<>();
    private final AtomicLong replaced = new AtomicLong();
    private volatile boolean refusing;

    /** The answer to the first request with the text is lost, with its connection or with all that follows on it. */
    private record Fault(String text, boolean stalls, CountDownLatch lost) {}

    Proxy(int target) throws IOException {
        this.target = target;
        start(this::accept);
    }

    int port() {
        return server.getLocalPort();
    }

    /** Bytes that clients have sent. */
    long requested() {
        return requested.get();
    }

    /** Connections that were refused during a pause. */
    long refused() {
        return refused.get();
    }

    /** Loses the answer to the next request that contains the text, and cuts its connection. */
    CountDownLatch lose(String text) {
        return set(new Fault(text, false, new CountDownLatch(1)));
    }

    /** Loses that answer, and all that follow on the connection, which stays open. */
    CountDownLatch stall(String text) {
        return set(new Fault(text, true, new CountDownLatch(1)));
    }

    /** Replaces a word of requests by one of the same length. */
    void replace(String word, String by) {
        words.put(word, by);
    }

    /** Requests in which words were replaced. */
    long replaced() {
        return replaced.get();
    }

    /** Does this before the connection of a lost answer is cut. */
    void onLoss(Runnable action) {
        onLoss = action;
    }

    private CountDownLatch set(Fault fault) {
        next.set(fault);
        return fault.lost();
    }

    /** Cuts all connections, and refuses new ones until {@link #resume}. */
    void pause() {
        refusing = true;
        cutAll();
    }

    void resume() {
        refusing = false;
    }

    /** Cuts all connections. */
    void cutAll() {
        open.forEach(Proxy::closeQuietly);
    }

    private static void start(Runnable work) {
        Thread thread = new Thread(work);
        thread.setDaemon(true);
        thread.start();
    }

    private void accept() {
        while (!server.isClosed()) {
            try {
                Socket client = server.accept();
                if (refusing) {
                    closeQuietly(client);
                    refused.incrementAndGet();
                    continue;
                }
                Socket upstream = new Socket(InetAddress.getLoopbackAddress(), target);
                client.setTcpNoDelay(true);
                upstream.setTcpNoDelay(true);
                open.add(client);
                open.add(upstream);
                AtomicReference<Fault> fault = new AtomicReference<>();
                start(() -> copyRequests(client, upstream, fault));
                start(() -> copyAnswers(upstream, client, fault));
            } catch (IOException closed) {
                // The loop ends if the proxy is closed.
            }
        }
    }

    private void copyRequests(Socket client, Socket upstream, AtomicReference<Fault> fault) {
        copy(client, upstream, (bytes, length) -> {
            requested.addAndGet(length);
            replaceWords(bytes, length);
            Fault set = next.get();
            if (set != null && new String(bytes, 0, length, ISO_8859_1).contains(set.text()) && next.compareAndSet(set, null)) {
                fault.set(set);
            }
            return true;
        });
    }

    private void replaceWords(byte[] bytes, int length) {
        String request = new String(bytes, 0, length, ISO_8859_1);
        String passed = request;
        for (Map.Entry<String, String> word : words.entrySet()) {
            passed = passed.replace(word.getKey(), word.getValue());
        }
        if (!passed.equals(request)) {
            replaced.incrementAndGet();
            System.arraycopy(passed.getBytes(ISO_8859_1), 0, bytes, 0, length);
        }
    }

    private void copyAnswers(Socket upstream, Socket client, AtomicReference<Fault> fault) {
        copy(upstream, client, (bytes, length) -> {
            Fault met = fault.get();
            if (met == null) {
                return true;
            }
            onLoss.run();
            if (!met.stalls()) {
                closeQuietly(client);
                closeQuietly(upstream);
            }
            met.lost().countDown();
            return false;
        });
    }

    /** Whether bytes may pass. */
    private interface Gate {
        boolean passes(byte[] bytes, int length);
    }

    private void copy(Socket from, Socket to, Gate gate) {
        byte[] buffer = new byte[64 * 1024];
        try (from; to) {
            InputStream in = from.getInputStream();
            OutputStream out = to.getOutputStream();
            for (int read = in.read(buffer); read >= 0; read = in.read(buffer)) {
                if (gate.passes(buffer, read)) {
                    out.write(buffer, 0, read);
                }
            }
        } catch (IOException broken) {
            // The other side notices.
        } finally {
            open.remove(from);
            open.remove(to);
        }
    }

    private static void closeQuietly(Socket socket) {
        try {
            socket.close();
        } catch (IOException alreadyClosed) {
            // Nothing is left to do.
        }
    }

    @Override
    public void close() throws IOException {
        server.close();
        cutAll();
    }
}
