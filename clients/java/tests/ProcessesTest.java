import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.rushgate.ClaimedTask;
import dev.rushgate.Content;
import dev.rushgate.HeldLock;
import dev.rushgate.NewSale;
import dev.rushgate.NewTask;
import dev.rushgate.PastEnd;
import dev.rushgate.Queue;
import dev.rushgate.QueueLimits;
import dev.rushgate.TaskState;
import dev.rushgate.internal.Json;
import java.io.BufferedReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Processes that share a store, and that are killed or terminated. */
class ProcessesTest extends Suite {
    private Background<Map<?, ?>> peer(Object... words) {
        List<Object> all = new ArrayList<>(List.of(target.url()));
        all.addAll(List.of(words));
        return async(() -> {
            Process process = Child.start(Peer.class, all.toArray());
            String said = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
            assertEquals(0, process.waitFor(), said);
            return (Map<?, ?>) Json.read(said.replace("»", "").strip());
        });
    }

    private static List<?> list(Map<?, ?> answer, String field) {
        return (List<?>) answer.get(field);
    }

    @Test
    void workersInProcessesRunEachTaskOnce() throws Exception {
        Queue queue = newQueue();
        String done = Target.unique("done");
        get(peer("enqueue", queue.name(), 60));
        assertEquals(60, queue.stats().ready());
        var workers = List.of(peer("work", queue.name(), 60, done), peer("work", queue.name(), 60, done));
        List<String> ids = all(workers).stream().flatMap(answer -> list(answer, "done").stream()).map(String.class::cast)
                .sorted().toList();
        assertEquals(IntStream.rangeClosed(1, 60).mapToObj(number -> "java:" + number).sorted().toList(), ids);
        assertEquals(60, client.queue(done).stats().ready());
    }

    @Test
    void buyersInProcessesBuyEachUnitOnce() throws Exception {
        String sale = Target.unique("sale");
        client.createSale(NewSale.builder(sale).sku("phone", 12).build());
        client.sale(sale).open();
        List<Map<?, ?>> answers = all(List.of(peer("buy", sale, 10, "a"), peer("buy", sale, 10, "b")));
        List<Object> units = new ArrayList<>();
        long refused = 0;
        for (Map<?, ?> answer : answers) {
            list(answer, "sold").forEach(entry -> units.addAll(((List<?>) entry).subList(1, 2)));
            refused += (Long) answer.get("refused");
        }
        assertEquals(IntStream.rangeClosed(1, 12).mapToObj(Long::valueOf).toList(), units.stream().sorted().toList());
        assertEquals(8, refused);
    }

    @Test
    void peersLoseNoWriteToAFile(@TempDir Path folder) throws Exception {
        Path file = Files.createFile(folder.resolve("fences"));
        String lock = Target.unique("lock");
        all(List.of(peer("count", lock, 20, file), peer("count", lock, 20, file)));
        List<Long> fences = Files.readAllLines(file).stream().map(line -> Long.parseLong(line.split(" ")[0])).toList();
        assertEquals(40, fences.size());
        assertEquals(fences.stream().sorted().distinct().toList(), fences);
    }

    @Test
    void whatAKilledProcessHeldGoesToOthers() throws Exception {
        String lock = Target.unique("lock");
        Queue queue = newQueue();
        queue.enqueue(NewTask.builder("a").content(Content.json(1)).build());
        Process child = Child.start(Child.class, target.url(), "hold", lock, queue.name());
        try (BufferedReader said = child.inputReader()) {
            long fence = Long.parseLong(get(async(said::readLine)));
            assertTrue(client.lock(lock).acquire().isEmpty());
            assertTrue(queue.claim(Duration.ZERO).isEmpty());
            child.destroyForcibly().waitFor();
            try (HeldLock held = client.lock(lock).acquire(WAIT).orElseThrow()) {
                assertTrue(held.fence() > fence);
            }
            ClaimedTask task = queue.claim(WAIT).orElseThrow();
            assertEquals(List.of(2, 1L), List.of(task.task().attempt(), task.content().json()));
            assertEquals(PastEnd.LOST, queue.task("a").orElseThrow().past().get(0).how());
            task.complete();
        } finally {
            child.destroyForcibly();
        }
    }

    @Test
    void aTerminatedProcessLetsItsTaskFinish() throws Exception {
        Queue queue = newQueue();
        queue.limit(QueueLimits.builder().retention(Duration.ofHours(1), 10).build());
        queue.enqueue("a", Content.empty());
        Process child = Child.start(Child.class, target.url(), "serve", queue.name());
        try (BufferedReader said = child.inputReader()) {
            assertEquals("running", get(async(said::readLine)));
            // Unlike `Process.destroy`, this leaves the streams open.
            child.toHandle().destroy();
            assertEquals("stopping", get(async(said::readLine)));
            queue.enqueue("b", Content.empty());
            child.getOutputStream().write('\n');
            child.getOutputStream().flush();
            assertEquals("1", get(async(said::readLine)), "tasks done");
            assertEquals(128 + 15, child.waitFor(), "terminated");
            assertEquals(TaskState.DONE, queue.task("a").orElseThrow().state());
            assertEquals(TaskState.READY, queue.task("b").orElseThrow().state(), "not claimed");
        } finally {
            child.destroyForcibly();
        }
    }
}
