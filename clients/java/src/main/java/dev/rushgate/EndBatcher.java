package dev.rushgate;

import dev.rushgate.internal.Pauses;
import dev.rushgate.internal.Timers;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import java.util.function.Function;

/** Collects the ends of claims of one kind, and sends pending ones in one call. */
final class EndBatcher<E, T> {
    /** Maximum number of ends per call. It keeps a call short, so that other calls get their turn. */
    private static final int BATCH = 256;

    private final Function<List<E>, List<T>> send;
    private final BooleanSupplier hurry;
    private final Timers timers;
    private final Deque<Pending<E, T>> pending = new ArrayDeque<>();
    private boolean sending;

    private record Pending<E, T>(E end, Consumer<T> answered) {}

    /**
     * A batcher without pending ends.
     *
     * @param hurry true when there is no more time to repeat a call
     */
    EndBatcher(Function<List<E>, List<T>> send, BooleanSupplier hurry, Timers timers) {
        this.send = send;
        this.hurry = hurry;
        this.timers = timers;
    }

    /** Sends an end soon. {@code answered} gets the outcome, or null if the store did not take it. */
    void push(E end, Consumer<T> answered) {
        synchronized (this) {
            pending.add(new Pending<>(end, answered));
            if (sending) {
                return;
            }
            sending = true;
        }
        if (!timers.run(this::sendAll)) {
            sendAll();
        }
    }

    private void sendAll() {
        List<Pending<E, T>> batch = next();
        while (!batch.isEmpty()) {
            List<T> outcomes = sendUntilAnswered(batch.stream().map(Pending::end).toList());
            for (int at = 0; at < batch.size(); at++) {
                batch.get(at).answered().accept(outcomes.isEmpty() ? null : outcomes.get(at));
            }
            batch = next();
        }
    }

    private synchronized List<Pending<E, T>> next() {
        List<Pending<E, T>> batch = new ArrayList<>();
        while (!pending.isEmpty() && batch.size() < BATCH) {
            batch.add(pending.poll());
        }
        sending = !batch.isEmpty();
        return batch;
    }

    /** An outage ends eventually. An answer that comes too late is stale and has no effect. */
    private List<T> sendUntilAnswered(List<E> ends) {
        Pauses pauses = new Pauses();
        while (true) {
            try {
                return send.apply(ends);
            } catch (RushgateException failed) {
                if (!failed.isRetryable() || hurry.getAsBoolean()) {
                    return List.of();
                }
                Pauses.sleep(pauses.draw());
            }
        }
    }
}
