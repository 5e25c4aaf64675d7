import dev.rushgate.Content;
import dev.rushgate.NewTask;
import dev.rushgate.Outcome;
import dev.rushgate.Queue;
import dev.rushgate.Rushgate;
import dev.rushgate.Worker;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.IntFunction;

/**
 * Measures lock cycles, single enqueues and the drain of a queue per second. Over Redis, the lock of most clients is measured
 * beside: SET NX and a script that compares and deletes, with a blocking connection per thread. The last column is the rate of
 * Rushgate, divided by that of the library. {@code Bench URL [seconds]}: time of each measurement, 3 by default.
 */
final class Bench {
    private static long seconds = 3;
    private static final int TASKS = 20_000;
    private static final String COMPARE =
            "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

    private final Rushgate client;
    private final String url;

    private Bench(Rushgate client, String url) {
        this.client = client;
        this.url = url;
    }

    public static void main(String[] words) throws Exception {
        String url = words.length > 0 ? words[0] : System.getenv("RUSHGATE_TEST_REDIS");
        seconds = words.length > 1 ? Long.parseLong(words[1]) : seconds;
        try (Rushgate client = Target.builder(url).connect()) {
            Bench bench = new Bench(client, url);
            bench.cycles(16, seconds);
            System.out.println("| what | threads | library | per second | rushgate / library |\n|---|---:|---|---:|---:|");
            for (int threads : new int[] {1, 16}) {
                double ours = bench.cycles(threads, seconds);
                row("lock cycles", threads, "rushgate", ours, 1);
                if (url.startsWith("redis://")) {
                    double theirs = bench.plainCycles(threads);
                    row("lock cycles", threads, "SET NX and compare-and-delete", theirs, ours / theirs);
                }
            }
            for (int threads : new int[] {1, 16}) {
                row("single enqueues", threads, "rushgate", bench.enqueues(threads), 1);
            }
            row("tasks completed by the worker", 16, "rushgate", bench.drain(), 1);
        }
    }

    private static void row(String what, int threads, String library, double perSecond, double ratio) {
        System.out.printf("| %s | %d | %s | %,.0f | %.2f |%n", what, threads, library, perSecond, ratio);
    }

    private static String unique(String name) {
        return name + "-" + System.nanoTime();
    }

    /** Calls per second of as many threads, each with separate work. */
    private static double rate(int threads, long seconds, IntFunction<Callable<?>> work) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
        List<Future<Long>> counts = new ArrayList<>();
        for (int thread = 0; thread < threads; thread++) {
            Callable<?> call = work.apply(thread);
            counts.add(pool.submit(() -> {
                long calls = 0;
                for (; System.nanoTime() < end; calls++) {
                    call.call();
                }
                return calls;
            }));
        }
        double sum = 0;
        for (Future<Long> count : counts) {
            sum += count.get();
        }
        pool.shutdown();
        return sum / seconds;
    }

    private double cycles(int threads, long seconds) throws Exception {
        return rate(threads, seconds, thread -> {
            String name = unique("lock");
            return () -> client.lock(name).acquire().orElseThrow().release();
        });
    }

    /** No wait queue, no fencing token, no renewal, no replay. */
    private double plainCycles(int threads) throws Exception {
        List<Redis> connections = new ArrayList<>();
        for (int thread = 0; thread < threads; thread++) {
            connections.add(Redis.connect(url));
        }
        double rate = rate(threads, seconds, thread -> {
            Redis redis = connections.get(thread);
            String name = unique("plain");
            return () -> {
                String token = UUID.randomUUID().toString();
                redis.command("SET", name, token, "NX", "PX", "30000");
                return redis.command("EVAL", COMPARE, "1", name, token);
            };
        });
        for (Redis redis : connections) {
            redis.close();
        }
        return rate;
    }

    private double enqueues(int threads) throws Exception {
        Queue queue = client.queue(unique("queue"));
        return rate(threads, seconds, thread -> {
            int[] number = {0};
            return () -> queue.enqueue("t" + thread + ":" + number[0]++, Content.json("Welcome"));
        });
    }

    private double drain() throws Exception {
        Queue queue = client.queue(unique("queue"));
        for (int from = 0; from < TASKS; from += 1_000) {
            List<NewTask> tasks = new ArrayList<>();
            for (int number = from; number < from + 1_000; number++) {
                tasks.add(NewTask.of("task:" + number, Content.json("Welcome")));
            }
            queue.enqueueAll(tasks);
        }
        CountDownLatch left = new CountDownLatch(TASKS);
        Worker worker = client.worker(queue.name()).concurrency(16).handle("*", job -> {
            left.countDown();
            return Outcome.done();
        }).build();
        long began = System.nanoTime();
        var running = worker.start();
        left.await();
        worker.stop();
        running.get();
        return TASKS / ((System.nanoTime() - began) / 1e9);
    }
}
