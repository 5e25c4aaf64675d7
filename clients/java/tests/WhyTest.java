import static org.junit.jupiter.api.Assertions.assertEquals;

import dev.rushgate.ClaimedTask;
import dev.rushgate.Content;
import dev.rushgate.KeyLimits;
import dev.rushgate.NewTask;
import dev.rushgate.Queue;
import dev.rushgate.QueueLimits;
import dev.rushgate.Why;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class WhyTest extends Suite {
    private Queue queue;

    @BeforeEach
    void create() {
        queue = newQueue();
    }

    private List<String> reasons(String id) {
        return queue.why(id).stream().map(why -> why.getClass().getSimpleName()).toList();
    }

    private ClaimedTask claim() {
        return queue.claim(WAIT).orElseThrow();
    }

    @Test
    void aReadyTaskWaitsBehindOthers() {
        queue.enqueueAll(List.of(NewTask.of("a", Content.empty()), NewTask.of("b", Content.empty())));
        Why.Waiting waiting = (Why.Waiting) queue.why("b").get(0);
        assertEquals(1, waiting.ahead());
        assertEquals(0, waiting.leased());
    }

    @Test
    void aTaskOfAPausedQueueIsNotDueEither() {
        queue.enqueue(NewTask.builder("a").delay(Duration.ofHours(1)).deadlineAfter(Duration.ofHours(2)).build());
        queue.pause();
        assertEquals(List.of("Paused", "NotDue", "Deadline"), reasons("a"));
    }

    @Test
    void aRunningTaskNamesItsWorker() {
        queue.enqueue("a", Content.empty());
        ClaimedTask task = claim();
        Why.Busy busy = (Why.Busy) queue.why("a").get(0);
        assertEquals(task.fence(), busy.fence());
        assertEquals(1, busy.attempt());
    }

    @Test
    void aBusyQueueNamesWhatRuns() {
        queue.limit(QueueLimits.builder().concurrency(1).build());
        queue.enqueueAll(List.of(NewTask.of("a", Content.empty()), NewTask.of("b", Content.empty())));
        claim();
        Why.QueueBusy busy = (Why.QueueBusy) queue.why("b").get(0);
        assertEquals("a", busy.running().get(0).id());
    }

    @Test
    void aRateLimitSaysUntilWhen() {
        queue.limit(QueueLimits.builder().rate(1, Duration.ofHours(1)).build());
        queue.enqueueAll(List.of(NewTask.of("a", Content.empty()), NewTask.of("b", Content.empty())));
        claim();
        assertEquals(List.of("RateLimited"), reasons("b"));
    }

    @Test
    void aTaskWithAKeyWaitsForItsKey() {
        queue.limit(QueueLimits.builder().perKey(new KeyLimits(1, null, false)).build());
        queue.enqueueAll(List.of(NewTask.builder("a").key("k").build(), NewTask.builder("b").key("k").build(),
                NewTask.builder("c").key("k").build()));
        assertEquals(new Why.InLine("k", "a"), queue.why("c").get(0));
        claim();
        Why.KeyBusy busy = (Why.KeyBusy) queue.why("b").get(0);
        assertEquals("a", busy.running().get(0).id());
    }

    @Test
    void aDependentTaskNamesWhatItWaitsFor() {
        queue.enqueueAll(List.of(NewTask.of("a", Content.empty()), NewTask.builder("b").after(List.of("a")).build(),
                NewTask.builder("c").heldOpen().build()));
        claim().giveUp("broken");
        Why.WaitsFor waits = (Why.WaitsFor) queue.why("b").get(0);
        assertEquals(List.of(new Why.Dependency("a", "broken")), waits.first());
        assertEquals(List.of(1L, 1L), List.of(waits.left(), waits.dead()));
        assertEquals(true, ((Why.WaitsFor) queue.why("c").get(0)).open());
    }

    @Test
    void aTaskThatIsOverSaysHowItEnded() {
        queue.limit(QueueLimits.builder().retention(Duration.ofHours(1), 10).build());
        queue.enqueueAll(List.of(NewTask.builder("done").uniqueFor(Duration.ofHours(1)).build(),
                NewTask.builder("dead").maxAttempts(1).build()));
        claim().complete();
        claim().retry("no", Duration.ZERO);
        assertEquals(List.of("Done", "Unique"), reasons("done"));
        Why.Dead dead = (Why.Dead) queue.why("dead").get(0);
        assertEquals(List.of("no", 1, 1), List.of(dead.error(), dead.attempts(), dead.maxAttempts()));
        assertEquals(List.of("Unknown"), reasons("never"));
    }
}
