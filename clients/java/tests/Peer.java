import dev.rushgate.Content;
import dev.rushgate.Decision;
import dev.rushgate.Hold;
import dev.rushgate.NewTask;
import dev.rushgate.Outcome;
import dev.rushgate.Queue;
import dev.rushgate.Reservation;
import dev.rushgate.Reserved;
import dev.rushgate.Rushgate;
import dev.rushgate.Sale;
import dev.rushgate.Worker;
import dev.rushgate.internal.Json;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentLinkedQueue;

/** One role in a test across languages: URL ROLE ARGUMENT… */
final class Peer {
    private static final String LANGUAGE = "java";
    private static final Duration WAIT = Duration.ofSeconds(60);

    private final Rushgate client;
    private final String url;

    private Peer(Rushgate client, String url) {
        this.client = client;
        this.url = url;
    }

    public static void main(String[] words) throws Exception {
        try (Rushgate client = Target.builder(words[0]).connect()) {
            Peer peer = new Peer(client, words[0]);
            switch (words[1]) {
                case "count" -> peer.count(words[2], Integer.parseInt(words[3]));
                case "enqueue" -> peer.enqueue(words[2], Integer.parseInt(words[3]));
                case "work" -> peer.work(words[2], Integer.parseInt(words[3]), words[4]);
                case "buy" -> peer.buy(words[2], Integer.parseInt(words[3]), words.length > 4 ? words[4] : LANGUAGE);
                default -> throw new IllegalArgumentException("unknown role " + words[1]);
            }
        }
    }

    private static void say(Object json) {
        new PrintStream(System.out, true, StandardCharsets.UTF_8).println("» " + Json.write(json));
    }

    private void count(String lock, int times) throws Exception {
        try (Redis store = Redis.connect(url)) {
            for (int time = 0; time < times; time++) {
                client.lock(lock).run(WAIT, held -> {
                    Object counter = store.command("GET", "counter");
                    long next = 1 + (counter == null ? 0 : Long.parseLong(Redis.text(counter)));
                    return store.command("SET", "counter", Long.toString(next));
                });
            }
        }
    }

    private void enqueue(String queue, int n) {
        List<NewTask> tasks = new ArrayList<>();
        for (int number = 1; number <= n; number++) {
            tasks.add(NewTask.of(LANGUAGE + ":" + number, Content.json(Map.of("from", LANGUAGE, "n", number))));
        }
        int most = 1_000;
        for (int from = 0; from < tasks.size(); from += most) {
            client.queue(queue).enqueueAll(tasks.subList(from, Math.min(tasks.size(), from + most)));
        }
    }

    /** Completes tasks until {@code untilN} have an entry in the other queue and this one is empty. */
    private void work(String name, int untilN, String doneQueue) throws Exception {
        ConcurrentLinkedQueue<String> done = new ConcurrentLinkedQueue<>();
        Queue finished = client.queue(doneQueue);
        Worker worker = client.worker(name).handle("*", job -> {
            finished.enqueue(job.id(), job.content());
            done.add(job.id());
            return Outcome.done();
        }).build();
        var running = worker.start();
        while (finished.stats().ready() < untilN || !isEmpty(client.queue(name))) {
            Thread.sleep(20);
        }
        worker.stop();
        running.get();
        say(Map.of("done", done));
    }

    private static boolean isEmpty(Queue queue) {
        return queue.stats().ready() + queue.stats().scheduled() + queue.stats().leased() == 0;
    }

    private void buy(String id, int buyers, String name) throws InterruptedException {
        Sale sale = client.sale(id);
        List<Object> sold = new ArrayList<>();
        int refused = 0;
        for (int buyer = 1; buyer <= buyers; buyer++) {
            Hold hold = reserve(sale, name + "-" + buyer);
            if (hold == null) {
                refused++;
                continue;
            }
            Decision decision = sale.confirm(hold.id());
            if (!(decision instanceof Decision.Done || decision instanceof Decision.Pending)) {
                throw new IllegalStateException("not confirmed: " + decision);
            }
            List<Object> entry = new ArrayList<>(List.of(hold.id()));
            hold.units().forEach(unit -> entry.add(unit.unit()));
            sold.add(entry);
        }
        say(Map.of("sold", sold, "refused", refused));
    }

    /** A reservation. Null if the sale is sold out. */
    private static Hold reserve(Sale sale, String buyer) throws InterruptedException {
        while (true) {
            Reserved reserved = sale.reserve(Reservation.of(buyer, "click", "phone", 1));
            if (!(reserved instanceof Reserved.AllHeld)) {
                return reserved.reservation().orElse(null);
            }
            Thread.sleep(2);
        }
    }
}
