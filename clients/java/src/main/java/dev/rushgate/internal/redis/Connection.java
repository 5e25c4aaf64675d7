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
 * A thread that waits alone reads its own reply, because a reply from another thread comes later. If several threads wait, or
 * none, a thread of the pool reads: it delivers the replies, or notices the end of the connection. The connection closes if a
 * reply does not come in time.
 */
final class Connection implements AutoCloseable {
    private static final int BUFFER_BYTES = 64 * 1024;
    /** After this many replies in a row that left nobody waiting, the thread of the pool leaves reading to the callers. */
    static final int ALONE = 8;

    private final Dialer.Line line;
    private final Duration timeout;
    private final Timers timers;
    private final OutputStream out;
    private final Resp replies;
    private final ReentrantLock writing = new ReentrantLock();
    private final Deque<Pending> pending = new ArrayDeque<>();
    private final Future<?> watch;
    /** Whether a thread reads. Guarded by {@link #pending}, like {@link #broken}. */
    private boolean isRead;
    private IOException broken;

    private record Pending(CompletableFuture<Object> reply, Deadline until) {}

    Connection(Dialer.Line line, Duration timeout, Timers timers) throws IOException {
        this.line = line;
        this.timeout = timeout;
        this.timers = timers;
        out = new BufferedOutputStream(line.socket().getOutputStream(), BUFFER_BYTES);
        replies = new Resp(line.socket().getInputStream());
        watch = timers.each(timeout.dividedBy(4), this::check);
        if (watch.isDone()) {
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
        Pending last = null;
        writing.lock();
        try {
            for (byte[] command : commands) {
                last = expect();
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
        return await(last);
    }

    private Pending expect() throws IOException {
        Pending call = new Pending(new CompletableFuture<>(), Deadline.in(timeout));
        synchronized (pending) {
            if (broken != null) {
                throw new NotSentException(broken.getMessage(), broken);
            }
            pending.add(call);
        }
        return call;
    }

    private Object await(Pending call) throws IOException {
        if (mayRead(call)) {
            readUntil(call);
        }
        Object answer = call.reply().join();
        if (answer instanceof IOException cause) {
            throw new IOException(cause.getMessage(), cause);
        }
        return answer;
    }

    /** Whether this thread reads its reply. Otherwise another thread does. */
    private boolean mayRead(Pending call) {
        // An interrupt of a virtual thread that reads would close the socket. In Java 17, only its group tells such a thread.
        boolean isVirtual = Thread.currentThread().getThreadGroup().getName().equals("VirtualThreads");
        synchronized (pending) {
            if (isRead || pending.isEmpty()) {
                return false;
            }
            isRead = true;
            if (!isVirtual && pending.size() == 1 && pending.peek() == call) {
                return true;
            }
        }
        readInPool();
        return false;
    }

    /** Reads until the reply of a call. Without a call, until one thread waits at a time. */
    private void readUntil(Pending call) {
        int alone = 0;
        boolean done = false;
        boolean othersWait = false;
        try {
            while (!done) {
                Object reply = replies.read();
                Pending next;
                synchronized (pending) {
                    next = pending.poll();
                    othersWait = !pending.isEmpty();
                    alone = othersWait ? 0 : alone + 1;
                    done = call == null ? alone == ALONE : next == call;
                    isRead = !done || othersWait;
                }
                if (next == null) {
                    throw new IOException("the server sent a reply that nothing asked for");
                }
                next.reply().complete(reply);
            }
            if (othersWait) {
                readInPool();
            }
        } catch (IOException cause) {
            breakWith(cause);
        } catch (RuntimeException cause) {
            breakWith(new IOException("the server sent a malformed reply", cause));
        }
    }

    private void readInPool() {
        if (!timers.run(() -> readUntil(null))) {
            close();
        }
    }

    /** Closes the connection if a reply is late. If nobody reads, a thread of the pool does. */
    private void check() {
        boolean late;
        boolean idle;
        synchronized (pending) {
            late = !pending.isEmpty() && pending.peek().until().hasPassed();
            idle = !isRead;
            isRead = true;
        }
        if (late) {
            breakWith(new IOException("no reply within " + timeout.toMillis() + " ms"));
        } else if (idle) {
            readInPool();
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
