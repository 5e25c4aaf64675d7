package dev.rushgate.internal.redis;

import dev.rushgate.Contract;
import dev.rushgate.RushgateException.Details;
import dev.rushgate.UnavailableException;
import dev.rushgate.internal.Deadline;
import dev.rushgate.internal.Pauses;
import dev.rushgate.internal.Timers;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArraySet;
import java.util.concurrent.Future;
import java.util.function.Consumer;

/** One subscription for all notifications of a client. It subscribes again after the connection broke. */
final class Inbox implements AutoCloseable {
    private static final String REVOKED = "revoked ";
    private static final byte[] PING = Resp.command(List.of("PING"));

    private final byte[] id = new byte[Contract.INBOX_BYTES];
    private final String hex;
    private final Router router;
    private final Map<String, Set<Runnable>> listeners = new ConcurrentHashMap<>();
    private final Consumer<String> unheardTasks;
    private final Future<?> pings;
    private volatile Dialer.Line line;
    private volatile boolean heard;
    private volatile boolean closed;

    /**
     * Subscribes.
     *
     * @param unheardTasks gets the queue of a wake-up for which nobody waits
     */
    Inbox(Router router, Timers timers, Duration timeout, Duration retryFor, Consumer<String> unheardTasks) {
        new SecureRandom().nextBytes(id);
        hex = HexFormat.of().formatHex(id);
        this.router = router;
        this.unheardTasks = unheardTasks;
        Resp messages = subscribeWithin(retryFor);
        timers.run(() -> follow(messages));
        pings = timers.each(timeout, this::ping);
    }

    byte[] id() {
        return id;
    }

    String hex() {
        return hex;
    }

    static String granted(byte[] token) {
        return "granted " + HexFormat.of().formatHex(token);
    }

    static String revoked(String token) {
        return REVOKED + token;
    }

    static String tasks(String queue) {
        return "tasks " + queue;
    }

    static String ended(String queue, String task) {
        return "ended " + task + " " + queue;
    }

    static String sale(String id) {
        return "sale " + id;
    }

    /** Runs {@code heard} for each notification of a topic. Returns how to stop. */
    Runnable listen(String topic, Runnable heard) {
        listeners.compute(topic, (name, known) -> {
            Set<Runnable> set = known == null ? new CopyOnWriteArraySet<>() : known;
            set.add(heard);
            return set;
        });
        return () -> listeners.computeIfPresent(topic, (name, known) -> {
            known.remove(heard);
            return known.isEmpty() ? null : known;
        });
    }

    private Resp subscribeWithin(Duration retryFor) {
        Deadline until = Deadline.in(retryFor);
        Pauses pauses = new Pauses();
        while (true) {
            try {
                return subscribe();
            } catch (IOException | ReplyException cause) {
                if (cause instanceof ReplyException refused && refused.isAboutRights()) {
                    throw Store.refusal(refused, false);
                }
                if (until.hasPassed()) {
                    throw new UnavailableException("Cannot subscribe to notifications: " + cause.getMessage() + ".",
                            Details.cause(cause));
                }
                Pauses.sleep(pauses.draw());
            }
        }
    }

    private Resp subscribe() throws IOException {
        Dialer.Line opened = router.dial();
        try {
            OutputStream out = opened.socket().getOutputStream();
            out.write(Resp.command(List.of("SUBSCRIBE", Contract.INBOX_PREFIX + hex)));
            out.flush();
            heard = true;
            line = opened;
            if (closed) {
                throw new IOException("the client is closed");
            }
            Resp messages = new Resp(opened.socket().getInputStream());
            if (messages.read() instanceof Resp.Failure failure) {
                throw new ReplyException(failure);
            }
            return messages;
        } catch (IOException | RuntimeException failed) {
            opened.close();
            throw failed;
        }
    }

    private void follow(Resp first) {
        Resp messages = first;
        Pauses pauses = new Pauses();
        while (!closed) {
            try {
                if (messages == null) {
                    messages = subscribe();
                    pauses = new Pauses();
                    ringAll();
                }
                readAll(messages);
            } catch (IOException | RuntimeException broken) {
                messages = null;
                line.close();
                if (!closed) {
                    Pauses.sleep(pauses.draw());
                }
            }
        }
    }

    private void readAll(Resp messages) throws IOException {
        while (true) {
            Object reply = messages.read();
            heard = true;
            if (reply instanceof List<?> parts && parts.size() == 3 && parts.get(2) instanceof byte[] content
                    && content.length > 0) {
                deliver(content);
            }
        }
    }

    /** A connection over which nothing came since the last ping is broken. */
    private void ping() {
        Dialer.Line open = line;
        try {
            if (!heard) {
                throw new IOException("no answer to a ping");
            }
            heard = false;
            open.socket().getOutputStream().write(PING);
            open.socket().getOutputStream().flush();
        } catch (IOException broken) {
            open.close();
        }
    }

    private void deliver(byte[] content) {
        String text = new String(content, 1, content.length - 1, StandardCharsets.UTF_8);
        // Names have no spaces.
        String[] words = text.split(" ");
        switch ((char) content[0]) {
            case Contract.NOTIFY_GRANTED -> ring(granted(tokenOf(content)));
            case Contract.NOTIFY_REVOKED -> ring(revoked(HexFormat.of().formatHex(tokenOf(content))));
            case Contract.NOTIFY_TASKS -> {
                String queue = words[words.length - 1];
                if (!ring(tasks(queue))) {
                    unheardTasks.accept(queue);
                }
            }
            case Contract.NOTIFY_FINISHED -> ring("ended " + text);
            case Contract.NOTIFY_SALE -> ring(sale(words[words.length - 1]));
            default -> { }
        }
    }

    private static byte[] tokenOf(byte[] content) {
        return Arrays.copyOfRange(content, 1, 1 + Contract.TOKEN_BYTES);
    }

    private boolean ring(String topic) {
        Set<Runnable> listening = listeners.get(topic);
        if (listening == null) {
            return false;
        }
        listening.forEach(Runnable::run);
        return true;
    }

    /** After a lost connection every waiter asks the store. A forced release shows at the next renewal. */
    private void ringAll() {
        listeners.forEach((topic, listening) -> {
            if (!topic.startsWith(REVOKED)) {
                listening.forEach(Runnable::run);
            }
        });
    }

    @Override
    public void close() {
        closed = true;
        pings.cancel(false);
        line.close();
        // Their next call says that the client is closed.
        ringAll();
    }
}
