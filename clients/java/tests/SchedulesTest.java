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
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
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
