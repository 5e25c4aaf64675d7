import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.rushgate.Queue;
import dev.rushgate.Rushgate;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Timeout;

/** Two clients of the current transport. */
@Timeout(120)
abstract class Suite {
    static final Duration WAIT = Target.WAIT;
    final Target target = Target.CURRENT.get();
    Rushgate client;
    Rushgate other;

    @BeforeEach
    void connect() {
        client = target.connect();
        other = target.connect();
    }

    @AfterEach
    void close() {
        client.close();
        other.close();
    }

    Queue newQueue() {
        return client.queue(Target.unique("queue"));
    }

    /** Runs work in a separate thread. */
    static <T> Background<T> async(Callable<T> work) {
        return new Background<>(work);
    }

    static <T> T get(CompletableFuture<T> result) throws Exception {
        return result.get(WAIT.toSeconds(), TimeUnit.SECONDS);
    }

    static <T> List<T> all(List<? extends CompletableFuture<T>> results) throws Exception {
        List<T> values = new ArrayList<>();
        for (CompletableFuture<T> result : results) {
            values.add(get(result));
        }
        return values;
    }

    /** What the package logs about a queue while work runs. */
    static List<String> logged(String queue, Callable<?> work) throws Exception {
        List<String> logged = Collections.synchronizedList(new ArrayList<>());
        Handler handler = new Handler() {
            @Override
            public void publish(LogRecord record) {
                if (record.getMessage().contains(queue)) {
                    logged.add(record.getMessage());
                }
            }

            @Override
            public void flush() { }

            @Override
            public void close() { }
        };
        Logger logger = Logger.getLogger("dev.rushgate");
        logger.addHandler(handler);
        logger.setUseParentHandlers(false);
        try {
            work.call();
        } finally {
            logger.removeHandler(handler);
            logger.setUseParentHandlers(true);
        }
        return logged;
    }

    /** Asks until a condition holds. */
    static void until(Callable<Boolean> condition) throws Exception {
        long end = System.nanoTime() + WAIT.toNanos();
        while (!condition.call()) {
            assertTrue(System.nanoTime() < end, "in time");
            Thread.sleep(5);
        }
    }
}
