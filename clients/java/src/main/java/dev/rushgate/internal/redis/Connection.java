package dev.rushgate.internal.redis;

import dev.rushgate.internal.Deadline;
import dev.rushgate.internal.Timers;
import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import java.util.concurrent.locks.ReentrantLock;

/**
 * One connection that all threads of a client share. Commands are sent one after the other without waiting for replies.
 * It closes if a reply does not come in time.
 */
final class Connection implements AutoCloseable {
    private static final int BUFFER_BYTES = 64 * 1024;

    private final Dialer.Line line;
    private final Duration timeout;
    private final OutputStream out;
    private final ReentrantLock writing = new ReentrantLock();
    private final Deque<Pending> pending = new ArrayDeque<>();
    private final Future<?> watch;
    private IOException broken;

    private record Pending(CompletableFuture<Object> reply, Deadline until) {}

    Connection(Dialer.Line line, Duration timeout, Timers timers) throws IOException {
        this.line = line;
        this.timeout = timeout;
        out = new BufferedOutputStream(line.socket().getOutputStream(), BUFFER_BYTES);
        watch = timers.each(timeout.dividedBy(4), this::checkReplies);
        if (!timers.run(this::readAll)) {
            close();
            throw new IOException("the client is closed");
        }
    }

    /** Whether the connection can be used. */
    boolean isOpen() {
        synchronized (pending) {
            return broken == null;
        }
    }

    /** Sends commands as one unit, and returns the reply to the last. Throws if the connection breaks before it. */
    Object send(List<byte[]> commands) throws IOException {
        CompletableFuture<Object> reply = null;
        writing.lock();
        try {
            for (byte[] command : commands) {
                reply = expect();
                out.write(command);
            }
            // The last of the threads that wait to write flushes for all.
            if (!writing.hasQueuedThreads()) {
                out.flush();
            }
        } catch (IOException cause) {
            breakWith(cause);
            throw cause;
        } finally {
            writing.unlock();
        }
        return await(reply);
    }

    private CompletableFuture<Object> expect() throws IOException {
        CompletableFuture<Object> reply = new CompletableFuture<>();
        synchronized (pending) {
            if (broken != null) {
                throw new NotSentException(broken.getMessage(), broken);
            }
            pending.add(new Pending(reply, Deadline.in(timeout)));
        }
        return reply;
    }

    private static Object await(CompletableFuture<Object> reply) throws IOException {
        Object answer = reply.join();
        if (answer instanceof IOException cause) {
            throw new IOException(cause.getMessage(), cause);
        }
        return answer;
    }

    private void readAll() {
        try {
            Resp replies = new Resp(line.socket().getInputStream());
            while (true) {
                Object reply = replies.read();
                Pending next;
                synchronized (pending) {
                    next = pending.poll();
                }
                if (next == null) {
                    throw new IOException("the server sent a reply that nothing asked for");
                }
                next.reply().complete(reply);
            }
        } catch (IOException cause) {
            breakWith(cause);
        } catch (RuntimeException cause) {
            breakWith(new IOException("the server sent a malformed reply", cause));
        }
    }

    private void checkReplies() {
        boolean late;
        synchronized (pending) {
            late = !pending.isEmpty() && pending.peek().until().hasPassed();
        }
        if (late) {
            breakWith(new IOException("no reply within " + timeout.toMillis() + " ms"));
        }
    }

    private void breakWith(IOException cause) {
        List<Pending> unanswered;
        synchronized (pending) {
            if (broken != null) {
                return;
            }
            broken = cause;
            unanswered = List.copyOf(pending);
            pending.clear();
        }
        line.close();
        watch.cancel(false);
        unanswered.forEach(call -> call.reply().complete(cause));
    }

    @Override
    public void close() {
        breakWith(new IOException("the connection was closed"));
    }
}
