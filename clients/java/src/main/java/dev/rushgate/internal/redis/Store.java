package dev.rushgate.internal.redis;

import dev.rushgate.ClosedException;
import dev.rushgate.Contract;
import dev.rushgate.CorruptException;
import dev.rushgate.ForbiddenException;
import dev.rushgate.FullException;
import dev.rushgate.InvalidException;
import dev.rushgate.MisconfiguredException;
import dev.rushgate.OutcomeUnknownException;
import dev.rushgate.RushgateException;
import dev.rushgate.RushgateException.Details;
import dev.rushgate.UnavailableException;
import dev.rushgate.internal.Deadline;
import dev.rushgate.internal.Pauses;
import dev.rushgate.internal.Timers;
import dev.rushgate.internal.Times;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;

/** Calls functions of the library as one client, which has its own client ID, counter and inbox. */
final class Store implements AutoCloseable {
    /** Codes of answers that end without action: the server executed nothing. */
    private static final String OUT_OF_MEMORY = "OOM";
    /** Most names and sales that a client remembers. */
    static final int REMEMBERED_NAMES = 10_000;

    private final Router router;
    private final Timers timers;
    private final Duration timeout;
    private final Duration retryFor;
    private final byte[] client = new byte[Contract.CLIENT_BYTES];
    private final AtomicLong counter = new AtomicLong();
    private final Set<String> registered = ConcurrentHashMap.newKeySet();
    private Inbox inbox;
    private volatile boolean closed;

    Store(Router router, Timers timers, Duration timeout, Duration retryFor) {
        new SecureRandom().nextBytes(client);
        this.router = router;
        this.timers = timers;
        this.timeout = timeout;
        this.retryFor = retryFor;
    }

    /** Refuses a library of another protocol. */
    void checkProtocol() {
        long protocol = new Answer(send(List.of("FCALL", Contract.FUNCTION_PREFIX + "version", "0"), null)).number();
        if (protocol != Contract.PROTOCOL) {
            throw new MisconfiguredException("The server has protocol " + protocol + ", and this package "
                    + Contract.PROTOCOL + ".", Details.hint("Update the older one."));
        }
    }

    /** Calls a function. A call whose answer was lost is sent again with the same arguments. */
    Object call(String name, List<Group> groups, List<?> args) {
        List<Object> command = new ArrayList<>();
        command.add("FCALL");
        command.add(Contract.FUNCTION_PREFIX + name);
        List<String> keys = groups.stream()
                .flatMap(group -> (router.needsAllKeys() ? group.all() : group.first()).stream()).toList();
        command.add(Integer.toString(keys.size()));
        command.addAll(keys);
        command.addAll(args);
        return send(command, keys.get(0));
    }

    /** The same for a function that takes memory. If the server is full, {@code replay} says what happened before. */
    Object callOrReplay(String name, String replay, List<Group> groups, List<?> args) {
        try {
            return call(name, groups, args);
        } catch (FullException | OutcomeUnknownException failed) {
            if (failed.getCause() instanceof ReplyException reply && reply.code().equals(OUT_OF_MEMORY)) {
                return call(replay, groups, args);
            }
            throw failed;
        }
    }

    /** Whether a call needs all keys, which then must share a hash tag. */
    boolean needsAllKeys() {
        return router.needsAllKeys();
    }

    /** Reads a key directly. */
    Object read(String command, String key, String... args) {
        List<String> words = new ArrayList<>(List.of(command, key));
        words.addAll(List.of(args));
        return send(words, key);
    }

    /** Eight bytes that this client never used before. */
    byte[] op() {
        return ByteBuffer.allocate(Contract.OP_BYTES).putLong(counter.incrementAndGet()).array();
    }

    /** A token for an acquisition. */
    byte[] token() {
        return ByteBuffer.allocate(Contract.TOKEN_BYTES).put(client).put(op()).array();
    }

    /** The replay cache of this client. */
    Group answers(String queue) {
        return Group.answers(queue, HexFormat.of().formatHex(client));
    }

    /** Adds a name to a directory, in most cases once per client. */
    void register(String directory, String name) {
        String entry = directory + " " + name;
        if (!registered.contains(entry)) {
            send(List.of("ZADD", directory, "0", name), directory);
            if (registered.size() >= REMEMBERED_NAMES) {
                registered.clear();
            }
            registered.add(entry);
        }
    }

    /** The subscription of the client, which is opened once. */
    synchronized Inbox inbox() {
        if (closed) {
            throw closedException();
        }
        if (inbox == null) {
            inbox = new Inbox(router, timers, timeout, retryFor, this::decline);
        }
        return inbox;
    }

    /** Another process gets a wake-up that no thread of this one wants. */
    private void decline(String queue) {
        timers.run(() -> {
            try {
                call("queue_ring", List.of(Group.queue(queue)), List.of());
            } catch (RushgateException lost) {
                // Waiters also ask after a time.
            }
        });
    }

    /** Sends a command until it is answered, for as long as the retry budget lasts. */
    private Object send(List<?> command, String key) {
        Deadline until = Deadline.in(retryFor);
        Pauses pauses = new Pauses();
        boolean mayHaveHappened = false;
        while (true) {
            if (closed) {
                throw closedException();
            }
            Exception failed;
            try {
                Object reply = router.send(command, key);
                if (!isStatus(reply, Contract.AGAIN_STATUS)) {
                    return reply;
                }
                continue;
            } catch (ReplyException refused) {
                if (!Contract.PASSING_ERRORS.contains(refused.code())) {
                    throw refusal(refused, mayHaveHappened);
                }
                failed = refused;
            } catch (IOException lost) {
                mayHaveHappened |= !(lost instanceof NotSentException);
                failed = lost;
            }
            if (until.hasPassed()) {
                throw gaveUp(failed, mayHaveHappened);
            }
            Pauses.sleep(pauses.draw());
        }
    }

    /** Whether a reply is this status. */
    static boolean isStatus(Object reply, String status) {
        return reply instanceof Resp.Status answered && answered.text().equals(status);
    }

    /** A duration as an argument. */
    static String us(Duration duration) {
        return Long.toString(Times.micros(duration));
    }

    private static UnavailableException gaveUp(Exception cause, boolean mayHaveHappened) {
        String message = "The store did not answer: " + cause.getMessage() + ".";
        return mayHaveHappened ? new OutcomeUnknownException(message, Details.cause(cause))
                : new UnavailableException(message, Details.cause(cause));
    }

    /** The error for a refusal. */
    static RushgateException refusal(ReplyException cause, boolean mayHaveHappened) {
        String text = cause.getMessage();
        if (text.contains("Function not found")) {
            return new MisconfiguredException("The function library of the server is missing, or older than this package.",
                    new Details(null, "Run `rushgate functions install --store URL`.", null, cause));
        }
        if (cause.isAboutRights()) {
            return new ForbiddenException("The server refused the user: " + text + ".", Details.cause(cause));
        }
        return switch (cause.code()) {
            case "INVALID", "DEADLINE" ->
                new InvalidException("The server refused an argument: " + text + ".", Details.cause(cause));
            case OUT_OF_MEMORY -> mayHaveHappened
                    ? new OutcomeUnknownException("The memory of the server is full.", Details.cause(cause))
                    : new FullException("The memory of the server is full.",
                            new Details(null, "Free memory, or raise `maxmemory`.", null, cause));
            default -> new CorruptException("The server refused the call: " + text + ".", Details.cause(cause));
        };
    }

    private static ClosedException closedException() {
        return new ClosedException("The client is closed.", Details.NONE);
    }

    @Override
    public void close() {
        closed = true;
        router.close();
        synchronized (this) {
            if (inbox != null) {
                inbox.close();
            }
        }
    }
}
