package dev.rushgate.internal;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;

/** Daemon threads of a client: one that keeps time, and as many as there is work. */
public final class Timers implements AutoCloseable {
    private final ScheduledExecutorService clock;
    private final ExecutorService pool;

    /** Starts no thread before there is work. */
    public Timers() {
        ScheduledThreadPoolExecutor executor = new ScheduledThreadPoolExecutor(1, daemons("rushgate-clock"));
        executor.setRemoveOnCancelPolicy(true);
        clock = executor;
        pool = Executors.newCachedThreadPool(daemons("rushgate"));
    }

    /** Makes daemon threads with a name and a number. */
    public static ThreadFactory daemons(String name) {
        AtomicInteger number = new AtomicInteger();
        return work -> {
            Thread thread = new Thread(work, name + "-" + number.incrementAndGet());
            thread.setDaemon(true);
            return thread;
        };
    }

    /** Runs work in a separate thread. False after the client was closed. */
    public boolean run(Runnable work) {
        try {
            pool.execute(work);
            return true;
        } catch (RejectedExecutionException closed) {
            return false;
        }
    }

    /** Runs work in a separate thread after a delay. Nothing after the client was closed. */
    public Future<?> after(Duration delay, Runnable work) {
        return unlessClosed(() -> clock.schedule(() -> run(work), delay.toNanos(), TimeUnit.NANOSECONDS));
    }

    /** Runs short work in the thread that keeps time, again and again. Nothing after the client was closed. */
    public Future<?> each(Duration period, Runnable work) {
        return unlessClosed(() ->
                clock.scheduleWithFixedDelay(work, period.toNanos(), period.toNanos(), TimeUnit.NANOSECONDS));
    }

    private static Future<?> unlessClosed(Supplier<Future<?>> scheduled) {
        try {
            return scheduled.get();
        } catch (RejectedExecutionException closed) {
            return CompletableFuture.completedFuture(null);
        }
    }

    @Override
    public void close() {
        clock.shutdownNow();
        pool.shutdown();
    }
}
