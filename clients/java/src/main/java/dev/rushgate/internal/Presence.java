package dev.rushgate.internal;

import dev.rushgate.ClosedException;
import dev.rushgate.Contract;
import dev.rushgate.Rushgate;
import dev.rushgate.RushgateException;
import dev.rushgate.WorkerMode;
import dev.rushgate.internal.Transport.Announcement;
import dev.rushgate.internal.Transport.Queues;
import java.lang.System.Logger.Level;
import java.security.SecureRandom;
import java.time.Duration;
import java.util.HexFormat;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import java.util.function.IntSupplier;

/**
 * Announces a worker to its queue, and passes on what an operator asks of it.
 *
 * <p>A failure never stops the worker. An outage shows in its claims. A refusal, such as that of a library without the function,
 * is logged once.
 */
public final class Presence {
    /** Time between announcements. Tests set a shorter one. */
    public static volatile Duration each = Contract.DEFAULT_ANNOUNCE;

    private static final System.Logger LOGGER = System.getLogger("dev.rushgate");
    /** How long a worker is listed after its latest announcement. */
    private static final Duration LISTED = Duration.ofSeconds(30);
    /** Time limit for saying that the worker has ended. */
    private static final Duration LEAVE = Duration.ofSeconds(1);
    private static final int ID_BYTES = 8;

    private final Queues queues;
    private final String queue;
    private final String name;
    private final int concurrency;
    private final IntSupplier running;
    private final Consumer<WorkerMode> obey;
    private final String id;
    private final Bell bell = new Bell();
    private final CompletableFuture<Void> left = new CompletableFuture<>();
    private volatile boolean over;
    private boolean refused;

    /** A worker that is not announced yet. */
    public Presence(Queues queues, String queue, String name, int concurrency, IntSupplier running, Consumer<WorkerMode> obey) {
        this.queues = queues;
        this.queue = queue;
        this.name = name;
        this.concurrency = concurrency;
        this.running = running;
        this.obey = obey;
        byte[] random = new byte[ID_BYTES];
        new SecureRandom().nextBytes(random);
        id = HexFormat.of().formatHex(random);
    }

    /** Announces the worker until it leaves, and then says that it has ended. Uses one thread. */
    public void announceAll() {
        try {
            while (!over) {
                announce();
                bell.await(each);
            }
            queues.endWorker(queue, id);
        } catch (RushgateException failed) {
            // The client is closed, or the record expires.
        } finally {
            left.complete(null);
        }
    }

    private void announce() {
        try {
            obey.accept(queues.announce(queue, new Announcement(id, name, "rushgate-java " + Rushgate.VERSION, concurrency,
                    running.getAsInt(), LISTED)));
        } catch (ClosedException closed) {
            throw closed;
        } catch (RushgateException failed) {
            if (!failed.isRetryable() && !refused) {
                refused = true;
                LOGGER.log(Level.WARNING, "cannot announce the worker to the queue " + queue, failed);
            }
        }
    }

    /** Says that the worker has ended. If that fails, it is listed a while longer. */
    public void leave() {
        over = true;
        bell.ring();
        try {
            left.get(LEAVE.toMillis(), TimeUnit.MILLISECONDS);
        } catch (InterruptedException stopped) {
            Thread.currentThread().interrupt();
        } catch (ExecutionException | TimeoutException late) {
            // Its record expires.
        }
    }
}
