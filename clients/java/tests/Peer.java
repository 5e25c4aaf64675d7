import dev.rushgate.ClaimOptions;
import dev.rushgate.ClaimedTask;
import dev.rushgate.Completed;
import dev.rushgate.Content;
import dev.rushgate.Decision;
import dev.rushgate.Enqueued;
import dev.rushgate.HeldLock;
import dev.rushgate.Hold;
import dev.rushgate.Job;
import dev.rushgate.LockOptions;
import dev.rushgate.NewTask;
import dev.rushgate.Outcome;
import dev.rushgate.Queue;
import dev.rushgate.QueueStats;
import dev.rushgate.Reservation;
import dev.rushgate.Reserved;
import dev.rushgate.Rushgate;
import dev.rushgate.RushgateException;
import dev.rushgate.Sale;
import dev.rushgate.Worker;
import dev.rushgate.internal.Json;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CountDownLatch;

/**
 * Plays roles in a test across languages: URL [ROLE ARGUMENT…]. Without a role, it reads a role per line, with tabs between
 * the words, and prints an answer to each.
 */
final class Peer {
    private static final String LANGUAGE = "java";
    private static final Duration WAIT = Duration.ofSeconds(60);
    private static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    private final Rushgate client;
    private final Map<String, HeldLock> held = new HashMap<>();

    private Peer(Rushgate client) {
        this.client = client;
    }

    public static void main(String[] words) throws Exception {
        try (Rushgate client = Target.builder(words[0]).connect()) {
            Peer peer = new Peer(client);
            if (words.length > 1) {
                say(peer.play(Arrays.copyOfRange(words, 1, words.length)));
                return;
            }
            BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                say(peer.play(line.split("\t", -1)));
            }
        }
    }

    private static void say(Object json) {
        OUT.println("» " + Json.write(json));
    }

    private static Duration seconds(String word) {
        return Duration.ofSeconds(Long.parseLong(word));
    }

    /** The word of an outcome. */
    private static String word(Object outcome) {
        return outcome.getClass().getSimpleName().replaceAll("(?<=[a-z])(?=[A-Z])", "_").toLowerCase(Locale.ROOT);
    }

    private Object play(String[] words) throws Exception {
        return switch (words[0]) {
            case "count" -> count(words[1], Integer.parseInt(words[2]), Path.of(words[3]));
            case "hold" -> hold(words[1], seconds(words[2]), seconds(words[3]));
            case "free" -> free(words[1]);
            case "enqueue" -> enqueue(words[1], Integer.parseInt(words[2]));
            case "work" -> new Work(words[1], Integer.parseInt(words[2]), words[3]).run(words);
            case "send" -> send(words[1], words[2], words[3], words[4]);
            case "receive" -> receive(words[1]);
            case "buy" -> buy(words[1], Integer.parseInt(words[2]), words.length > 3 ? words[3] : LANGUAGE);
            case "reserve" -> reserve(words[1], words[2], words[3], words[4]);
            case "decide" -> decide(words[1], words[2], words[3]);
            default -> throw new IllegalArgumentException("unknown role " + words[0]);
        };
    }

    /** Appends the fencing token to a file under a lock: reads all, writes all. */
    private Object count(String lock, int times, Path file) throws Exception {
        for (int time = 0; time < times; time++) {
            client.lock(lock).run(WAIT, held ->
                    Files.writeString(file, Files.readString(file) + held.fence() + " " + LANGUAGE + "\n"));
        }
        return null;
    }

    private Object hold(String name, Duration wait, Duration lease) {
        HeldLock lock = client.lock(name, LockOptions.DEFAULTS.lease(lease)).acquire(wait).orElse(null);
        if (lock == null) {
            return null;
        }
        held.put(name, lock);
        return Map.of("fence", lock.fence());
    }

    private Object free(String name) {
        check(held.remove(name).release(), "the lock was held");
        return null;
    }

    private Object enqueue(String queue, int n) {
        List<NewTask> tasks = new ArrayList<>();
        for (int number = 1; number <= n; number++) {
            tasks.add(NewTask.of(LANGUAGE + ":" + number, Content.json(Map.of("from", LANGUAGE, "n", number))));
        }
        check(client.queue(queue).enqueueAll(tasks).stream().allMatch(Enqueued.Added.class::isInstance), "all are added");
        return null;
    }

    /** Completes tasks until N are in the queue DONE and none is left. Or stays in a handler after some. */
    private final class Work {
        private final Queue queue;
        private final Queue counted;
        private final int n;
        private final List<String> done = new ArrayList<>();
        private int stuckAfter = -1;

        Work(String queue, int n, String counted) {
            this.queue = client.queue(queue);
            this.counted = client.queue(counted);
            this.n = n;
        }

        Object run(String[] words) throws Exception {
            Worker.Builder builder = client.worker(queue.name()).handle("*", this::handle);
            if (words.length > 4) {
                stuckAfter = Integer.parseInt(words[4]);
                builder.concurrency(1).lease(seconds(words[5]));
            }
            Worker worker = builder.build();
            var running = worker.start();
            while (!isOver()) {
                Thread.sleep(20);
            }
            worker.stop();
            running.get();
            return Map.of("done", done);
        }

        private boolean isOver() {
            QueueStats left = queue.stats();
            return left.ready() + left.leased() + left.scheduled() == 0 && counted.stats().ready() >= n;
        }

        private Outcome handle(Job job) throws Exception {
            Map<?, ?> payload = (Map<?, ?>) job.json();
            check((payload.get("from") + ":" + payload.get("n")).equals(job.id()), "the payload is that of the task");
            if (done.size() == stuckAfter) {
                stick(job.id());
            }
            check(counted.enqueue(job.id(), Content.empty()) instanceof Enqueued.Added, "the task is done once");
            synchronized (done) {
                done.add(job.id());
            }
            return Outcome.done();
        }

        /** Once the store has all completions, no task of this process runs again but the one that it holds. */
        private void stick(String id) throws InterruptedException {
            for (String one : done) {
                while (queue.task(one).isPresent()) {
                    Thread.sleep(10);
                }
            }
            say(Map.of("done", done, "stuck", id));
            new CountDownLatch(1).await();
        }
    }

    private Object send(String queue, String id, String kind, String text) {
        return word(client.queue(queue).enqueue(id, Content.json(Map.of("text", text)).withKind(kind)));
    }

    private Object receive(String queue) {
        ClaimedTask task = client.queue(queue).claim(ClaimOptions.DEFAULTS.waitUpTo(WAIT)).get(0);
        check(task.complete() == Completed.DONE, "the claim is kept");
        Object text = ((Map<?, ?>) task.content().json()).get("text");
        return Map.of("id", task.id(), "kind", task.content().kind(), "text", text);
    }

    private Object buy(String id, int buyers, String name) throws InterruptedException {
        Sale sale = client.sale(id);
        List<Object> sold = new ArrayList<>();
        int refused = 0;
        for (int buyer = 1; buyer <= buyers; buyer++) {
            Hold hold = buyOne(sale, name + "-" + buyer);
            if (hold == null) {
                refused++;
                continue;
            }
            Decision decision = sale.confirm(hold.id());
            check(decision instanceof Decision.Done || decision instanceof Decision.Pending, decision.toString());
            List<Object> entry = new ArrayList<>(List.of(hold.id()));
            hold.units().forEach(unit -> entry.add(unit.unit()));
            sold.add(entry);
        }
        return Map.of("sold", sold, "refused", refused);
    }

    /** A reservation. Null if the sale is sold out. */
    private static Hold buyOne(Sale sale, String buyer) throws InterruptedException {
        while (true) {
            Reserved reserved = sale.reserve(Reservation.of(buyer, "click", "phone", 1));
            if (!(reserved instanceof Reserved.AllHeld)) {
                return reserved.reservation().orElse(null);
            }
            Thread.sleep(2);
        }
    }

    private Object reserve(String sale, String sku, String buyer, String key) {
        Map<String, Object> answer = new HashMap<>();
        try {
            Reserved reserved = client.sale(sale).reserve(Reservation.of(buyer, key, sku, 1));
            answer.put("outcome", reserved instanceof Reserved.New ? "reserved" : word(reserved));
            answer.put("reservation", reserved.reservation().map(Hold::id).orElse(null));
        } catch (RushgateException error) {
            answer.put("outcome", error.code());
            answer.put("reservation", null);
        }
        return answer;
    }

    private Object decide(String sale, String verb, String reservation) {
        Sale of = client.sale(sale);
        return word(verb.equals("confirm") ? of.confirm(reservation) : of.cancel(reservation));
    }

    private static void check(boolean isTrue, String what) {
        if (!isTrue) {
            throw new IllegalStateException("not true: " + what);
        }
    }
}
