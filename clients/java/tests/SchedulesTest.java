import static java.nio.charset.StandardCharsets.ISO_8859_1;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.rushgate.Content;
import dev.rushgate.InvalidException;
import dev.rushgate.Job;
import dev.rushgate.Missed;
import dev.rushgate.NewSchedule;
import dev.rushgate.Outcome;
import dev.rushgate.Queue;
import dev.rushgate.Recurrence;
import dev.rushgate.Worker;
import dev.rushgate.WorkerReport;
import dev.rushgate.internal.Occurrences;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

class SchedulesTest extends Suite {
    private static final Instant FIRST = Instant.parse("2026-11-22T09:00:00Z");
    private static final Instant LATE = Instant.parse("2026-11-22T12:30:00Z");

    private static Instant hours(int hours) {
        return FIRST.plus(Duration.ofHours(hours));
    }

    @Test
    void missedOccurrencesFollowThePolicyOfTheSchedule() {
        Recurrence hourly = Recurrence.cron("0 * * * *");
        Optional<Instant> next = Optional.of(hours(4));
        assertEquals(new Occurrences(List.of(), next), Occurrences.due(hourly.missed(Missed.SKIP), FIRST, LATE, 1_000));
        assertEquals(new Occurrences(List.of(hours(3)), next), Occurrences.due(hourly.missed(Missed.ONCE), FIRST, LATE, 1_000));
        assertEquals(new Occurrences(List.of(FIRST, hours(1), hours(2), hours(3)), next),
                Occurrences.due(hourly.missed(Missed.ALL), FIRST, LATE, 1_000));
        for (Missed missed : Missed.values()) {
            assertEquals(List.of(FIRST), Occurrences.due(hourly.missed(missed), FIRST, FIRST.plusSeconds(2), 1_000).runs());
        }
        Recurrence each = Recurrence.every(Duration.ofHours(1)).missed(Missed.ALL);
        assertEquals(new Occurrences(List.of(FIRST, hours(1)), Optional.of(hours(2))), Occurrences.due(each, FIRST, LATE, 2));
    }

    @Test
    void aScheduleMayHaveALastOccurrence() {
        Recurrence last = Recurrence.cron("0 0 9 22 11 * 2026");
        assertEquals(new Occurrences(List.of(FIRST), Optional.empty()), Occurrences.due(last, FIRST, LATE, 1_000));
        Recurrence malformed = Recurrence.cron("soon");
        assertThrows(InvalidException.class, () -> Occurrences.due(malformed, FIRST, LATE, 1_000));
    }

    @Test
    void aMomentHasTheFractionsThatItNeeds() {
        assertEquals("2026-11-22T09:00:00Z", Occurrences.written(FIRST));
        assertEquals("2026-11-22T09:00:00.5Z", Occurrences.written(FIRST.plusMillis(500)));
    }

    @Test
    @Tag(Target.ONCE)
    void aScheduleThatCannotBeReadStaysAndStopsNoOther() throws Exception {
        Queue queue = newQueue();
        queue.saveSchedule("beat", NewSchedule.of(Recurrence.every(Duration.ofSeconds(1)), Content.json(1)));
        String key = "rg:{q:" + queue.name() + "}:";
        // As later versions or other programs might write them, and due. They are as long as what they replace.
        List<String> recurrences = List.of("{\"cron\":\"0 X * \"", "{\"cron\":5       ", "{\"zone\":\"UTC\"   ",
                "{\"every_ms\":0   ", "{\"every_ms\":\"1\" ", "{\"every_ms\":1e99");
        try (Redis store = target.store()) {
            byte[] record = (byte[]) store.command("HGET", key + "schedules", "beat");
            Map<String, byte[]> broken = new TreeMap<>(Map.of("cut off", Arrays.copyOf(record, 3)));
            for (String recurrence : recurrences) {
                String replaced = new String(record, ISO_8859_1).replace("{\"every_ms\":1000", recurrence);
                broken.put("broken-" + broken.size(), replaced.getBytes(ISO_8859_1));
            }
            for (Map.Entry<String, byte[]> schedule : broken.entrySet()) {
                store.command("HSET", key + "schedules", schedule.getKey(), schedule.getValue());
                store.command("ZADD", key + "schedule_moments", "1", schedule.getKey());
            }
            ConcurrentLinkedQueue<String> seen = new ConcurrentLinkedQueue<>();
            Worker worker = client.worker(queue.name()).handle("*", job -> {
                seen.add(job.id());
                return Outcome.done();
            }).build();
            List<String> logged = logged(queue.name(), () -> {
                CompletableFuture<WorkerReport> running = worker.start();
                until(() -> seen.size() >= 3);
                worker.stop();
                return get(running);
            });
            assertTrue(seen.stream().allMatch(id -> id.startsWith("beat@")), seen.toString());
            assertEquals((long) broken.size(), store.command("ZCOUNT", key + "schedule_moments", "1", "1"));
            assertEquals(broken.keySet().stream().map(id -> "cannot fire the schedule " + id + " of the queue " + queue.name()).toList(),
                    logged.stream().sorted().toList());
            // A server on the same store would keep logging them.
            store.command("DEL", key + "schedules", key + "schedule_ids", key + "schedule_moments");
        }
    }

    @Test
    void workersFireEachOccurrenceOfAScheduleOnce() throws Exception {
        Queue queue = newQueue();
        queue.saveSchedule("beat", NewSchedule.of(Recurrence.every(Duration.ofSeconds(1)), Content.json(1).withKind("pulse")));
        ConcurrentLinkedQueue<Job> seen = new ConcurrentLinkedQueue<>();
        List<Worker> workers = new ArrayList<>();
        for (int number = 0; number < 2; number++) {
            workers.add(client.worker(queue.name()).handle("*", job -> {
                seen.add(job);
                return Outcome.done();
            }).build());
        }
        List<CompletableFuture<WorkerReport>> running = workers.stream().map(Worker::start).toList();
        until(() -> seen.size() >= 3);
        workers.forEach(Worker::stop);
        all(running);
        List<Instant> moments = seen.stream().map(job -> Instant.parse(job.id().split("@")[1])).sorted().toList();
        for (int at = 1; at < moments.size(); at++) {
            assertEquals(moments.get(at - 1).plusSeconds(1), moments.get(at));
        }
        assertTrue(seen.stream().allMatch(job -> job.id().startsWith("beat@") && job.kind().equals("pulse")));
    }
}
