package dev.rushgate.internal.redis;

import dev.rushgate.internal.Deadline;
import dev.rushgate.internal.Timers;
import java.io.IOException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;

/** The connection to one server, which is opened again after it broke. */
final class SharedConnection {
    private final Resolver resolver;
    private final Dialer dialer;
    private final Timers timers;
    private final ReentrantLock opening = new ReentrantLock();
    private volatile Connection connection;

    /** Finds the server. */
    interface Resolver {
        RedisUrl.Node resolve() throws IOException;
    }

    SharedConnection(Resolver resolver, Dialer dialer, Timers timers) {
        this.resolver = resolver;
        this.dialer = dialer;
        this.timers = timers;
    }

    /** The open connection. Throws {@link NotSentException} if there is none in time. */
    Connection open() throws NotSentException {
        Connection open = connection;
        if (open != null && open.isOpen()) {
            return open;
        }
        lockInTime();
        try {
            if (connection == null || !connection.isOpen()) {
                connection = new Connection(dialer.connect(resolver.resolve()), dialer.timeout(), timers);
            }
            return connection;
        } catch (IOException cause) {
            throw new NotSentException(cause.getMessage(), cause);
        } finally {
            opening.unlock();
        }
    }

    /** Many threads may wait for one connection. None of them waits longer than for its own. */
    private void lockInTime() throws NotSentException {
        Deadline until = Deadline.in(dialer.timeout());
        boolean interrupted = false;
        boolean locked = false;
        do {
            try {
                locked = opening.tryLock(until.left().toNanos(), TimeUnit.NANOSECONDS);
            } catch (InterruptedException again) {
                interrupted = true;
            }
        } while (!locked && !until.hasPassed());
        if (interrupted) {
            Thread.currentThread().interrupt();
        }
        if (!locked) {
            throw new NotSentException("cannot connect in time", null);
        }
    }

    void close() {
        Connection open = connection;
        if (open != null) {
            open.close();
        }
    }
}
