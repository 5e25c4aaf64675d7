import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.rushgate.Cancelled;
import dev.rushgate.ClaimOptions;
import dev.rushgate.ClaimedTask;
import dev.rushgate.Closed;
import dev.rushgate.Completed;
import dev.rushgate.Content;
import dev.rushgate.DeadLetter;
import dev.rushgate.DeadRequeued;
import dev.rushgate.Ended;
import dev.rushgate.Enqueued;
import dev.rushgate.Finish;
import dev.rushgate.IfDead;
import dev.rushgate.InvalidException;
import dev.rushgate.KeyLimits;
import dev.rushgate.Missed;
import dev.rushgate.NewSchedule;
import dev.rushgate.NewTask;
import dev.rushgate.OnDuplicate;
import dev.rushgate.Overflow;
import dev.rushgate.Page;
import dev.rushgate.PastEnd;
import dev.rushgate.Progress;
import dev.rushgate.Queue;
import dev.rushgate.QueueLimits;
import dev.rushgate.Rate;
import dev.rushgate.Recurrence;
import dev.rushgate.Rescheduled;
import dev.rushgate.Retried;
import dev.rushgate.Schedule;
import dev.rushgate.Scheduled;
import dev.rushgate.Task;
import dev.rushgate.TaskEnd;
import dev.rushgate.TaskExtended;
import dev.rushgate.TaskInfo;
import dev.rushgate.TaskReleased;
import dev.rushgate.TaskState;
import dev.rushgate.Waited;
import dev.rushgate.WaitInterruptedException;
import dev.rushgate.internal.Cron;
import java.time.Duration;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

class QueuesTest extends Suite {
    private static final String TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    private static final Duration SHORT = Duration.ofMillis(200);
    private Queue queue;

    @BeforeEach
    void create() {
        queue = newQueue();
    }

    private static ClaimOptions many(int n) {
        return ClaimOptions.DEFAULTS.n(n);
    }

    private ClaimedTask claim() {
        return queue.claim(WAIT).orElseThrow();
    }

    @Test
    void aTaskIsClaimedAsItWasEnqueued() {
        Content content = Content.json(Map.of("to", "Zoë", "n", List.of(1, 2.5))).withKind("mail:welcome")
                .withTraceparent(TRACE);
        NewTask task = NewTask.builder("to:Zoe\u0308").content(content).priority(2).key("tenant").maxAttempts(3)
                .deadlineAfter(Duration.ofHours(1)).build();
        assertInstanceOf(Enqueued.Added.class, queue.enqueue(task));
        Task claimed = claim().task();
        assertEquals("to:Zo\u00eb", claimed.id(), "normalized");
        assertEquals(content.contentType(), claimed.content().contentType());
        assertEquals("mail:welcome", claimed.content().kind());
        assertEquals(TRACE, claimed.content().traceparent());
        assertEquals("Zoë", ((Map<?, ?>) claimed.content().json()).get("to"));
        assertEquals(List.of(2, 1, 3), List.of(claimed.priority(), claimed.attempt(), claimed.maxAttempts()));
        assertEquals("tenant", claimed.key());
        assertTrue(claimed.deadline().isAfter(claimed.due()));
        assertTrue(claimed.fence() > 0);
    }

    @Test
    void contentOfEveryTypeKeepsItsBytes() {
        byte[] bytes = {0, (byte) 255, '\r', '\n', (byte) 200};
        List<Content> contents = List.of(Content.bytes(bytes), Content.text("für dich"), Content.empty(), Content.json("x"),
                Content.of(bytes, "image/png"), Content.json(null), Content.of("<a/>".getBytes(), "application/xml"),
                Content.of("{no json".getBytes(), "application/json"));
        List<NewTask> tasks = new ArrayList<>();
        contents.forEach(content -> tasks.add(NewTask.of("task:" + tasks.size(), content)));
        queue.enqueueAll(tasks);
        List<ClaimedTask> claimed = queue.claim(many(contents.size()));
        for (int at = 0; at < contents.size(); at++) {
            assertEquals(contents.get(at), claimed.get(at).content());
        }
        assertArrayEquals(bytes, claimed.get(0).content().bytes());
    }

    @Test
    void theModeDecidesAboutASecondTask() {
        queue.enqueue("a", Content.json(1));
        assertInstanceOf(Enqueued.Kept.class, queue.enqueue("a", Content.json(2)));
        NewTask.Builder again = NewTask.builder("a").content(Content.json(3));
        assertInstanceOf(Enqueued.Replaced.class, queue.enqueue(again.onDuplicate(OnDuplicate.REPLACE).build()));
        assertEquals(3L, claim().content().json());
        queue.enqueue(NewTask.builder("b").delay(Duration.ofHours(1)).build());
        queue.enqueue(NewTask.builder("b").onDuplicate(OnDuplicate.EARLIEST).build());
        assertEquals("b", claim().id(), "due at once now");
        queue.enqueue(NewTask.builder("c").content(Content.json(1)).delay(Duration.ofHours(1)).debounce(SHORT).build());
        queue.enqueue(NewTask.builder("c").content(Content.json(2)).delay(Duration.ofHours(1)).debounce(SHORT).build());
        assertEquals(2L, claim().content().json(), "due after the longest postponement");
    }

    @Test
    void tasksAreClaimedByPriorityAndDueTime() {
        queue.enqueueAll(List.of(NewTask.builder("late").priority(9).build(), NewTask.of("normal", Content.empty()),
                NewTask.builder("first").priority(0).build(), NewTask.builder("later").delay(Duration.ofHours(1)).build(),
                NewTask.builder("past").priority(9).due(Instant.now().minusSeconds(60)).build()));
        assertEquals(List.of("first", "normal", "past", "late"),
                queue.claim(many(10)).stream().map(ClaimedTask::id).toList());
    }

    @Test
    void aWaitingClaimIsWokenByATask() throws Exception {
        Background<Optional<ClaimedTask>> claiming = async(() -> queue.claim(WAIT));
        until(claiming::isAsleep);
        long began = System.nanoTime();
        other.queue(queue.name()).enqueue("a", Content.empty());
        assertEquals("a", get(claiming).orElseThrow().id());
        assertTrue(System.nanoTime() - began < TimeUnit.SECONDS.toNanos(3), "before the client would have asked again");
    }

    @Test
    void aWaitingClaimGetsADelayedTaskWhenItIsDue() {
        queue.enqueue(NewTask.builder("a").delay(SHORT).build());
        assertTrue(queue.claim(Duration.ZERO).isEmpty());
        assertEquals("a", claim().id());
        assertTrue(queue.claim(SHORT).isEmpty(), "the wait ends");
    }

    @Test
    void aWaitingClaimCanBeInterrupted() throws Exception {
        Background<Boolean> claiming = async(() -> {
            assertThrows(WaitInterruptedException.class, () -> queue.claim(WAIT));
            return Thread.interrupted();
        });
        until(claiming::isAsleep);
        claiming.interrupt();
        assertTrue(get(claiming), "the flag is set again");
    }

    @Test
    void anInterruptedClaimLeavesNothingClaimed() throws Exception {
        for (int round = 0; round < 5; round++) {
            Background<Boolean> claiming = async(() -> {
                try {
                    queue.claim(WAIT).ifPresent(ClaimedTask::release);
                    return true;
                } catch (WaitInterruptedException stopped) {
                    return true;
                }
            });
            until(() -> claiming.isAsleep() || claiming.isDone());
            queue.enqueue("a", Content.empty());
            claiming.interrupt();
            assertTrue(get(claiming));
        }
        until(() -> queue.task("a").orElseThrow().state() == TaskState.READY);
        assertEquals(1, claim().task().attempt());
    }

    @Test
    void aStaleClaimChangesNothing() {
        queue.enqueue("a", Content.empty());
        ClaimedTask first = queue.claim(ClaimOptions.DEFAULTS.lease(Duration.ofMillis(20)).worker("w1")).get(0);
        ClaimedTask second = claim();
        assertTrue(second.fence() > first.fence());
        assertEquals(2, second.task().attempt());
        assertEquals(Completed.STALE, first.complete());
        assertEquals(TaskExtended.LOST, first.extend());
        assertEquals(TaskReleased.STALE, first.release());
        assertInstanceOf(Retried.Stale.class, first.retry("late", Duration.ZERO));
        TaskInfo info = queue.task("a").orElseThrow();
        assertEquals(PastEnd.LOST, info.past().get(0).how());
        assertEquals("w1", info.past().get(0).worker());
        assertEquals(Completed.DONE, second.complete());
        assertTrue(queue.task("a").isEmpty());
    }

    @Test
    void aReleaseDoesNotCountTheAttempt() {
        queue.enqueue("a", Content.empty());
        assertEquals(TaskReleased.WAITING, claim().release());
        ClaimedTask again = claim();
        assertEquals(1, again.task().attempt());
        assertEquals(TaskReleased.WAITING, again.release(Duration.ofHours(1)));
        assertEquals(TaskState.SCHEDULED, queue.task("a").orElseThrow().state());
    }

    @Test
    void aFailedTaskIsRetriedAndThenADeadLetter() {
        queue.enqueue(NewTask.builder("a").content(Content.json(1)).kind("k").maxAttempts(2).build());
        assertInstanceOf(Retried.Scheduled.class, claim().retry("first", SHORT));
        assertEquals("first", queue.task("a").orElseThrow().error());
        assertInstanceOf(Retried.Dead.class, claim().retry("second", Duration.ZERO));
        DeadLetter letter = queue.dead(Page.first(10)).get(0);
        assertEquals(List.of("a", "second", 2, 2), List.of(letter.id(), letter.error(), letter.attempts(), letter.maxAttempts()));
        assertEquals("k", letter.content().kind());
        assertEquals("first", letter.past().get(0).error());
        assertEquals(new DeadRequeued(1, 0), queue.requeueDead(List.of("a", "none")));
        assertInstanceOf(Retried.Dead.class, claim().giveUp("x".repeat(3_000)));
        assertEquals(2_000, queue.dead(Page.first(1)).get(0).error().getBytes(UTF_8).length);
        assertEquals(1, queue.deleteDead(List.of("a")));
        assertEquals(0, queue.deleteAllDead());
        queue.enqueueAll(List.of(NewTask.of("b", Content.empty()), NewTask.of("c", Content.empty())));
        queue.claim(many(2)).forEach(task -> task.giveUp("no"));
        assertEquals(List.of("c"), queue.dead(new Page("b", 10)).stream().map(DeadLetter::id).toList());
        assertEquals(new DeadRequeued(2, 0), queue.requeueAllDead());
    }

    @Test
    void extendKeepsTheClaimAndStoresProgress() {
        queue.enqueue("a", Content.empty());
        ClaimedTask task = queue.claim(ClaimOptions.DEFAULTS.lease(Duration.ofSeconds(1))).get(0);
        assertEquals(TaskExtended.EXTENDED, task.extend(Duration.ofMinutes(1), new Progress(40, "halfway")));
        TaskInfo info = queue.task("a").orElseThrow();
        assertEquals(new Progress(40, "halfway"), info.progress());
        assertEquals(TaskState.LEASED, info.state());
        assertEquals(TaskExtended.EXTENDED, task.extend());
        assertEquals(new Progress(40, "halfway"), queue.task("a").orElseThrow().progress(), "kept");
    }

    @Test
    void cancelRemovesAWaitingTaskAndMarksARunningOne() {
        queue.enqueue("a", Content.empty());
        assertEquals(Cancelled.REMOVED, queue.cancel("a"));
        assertEquals(Cancelled.NOT_FOUND, queue.cancel("a"));
        queue.enqueue("b", Content.empty());
        ClaimedTask task = claim();
        assertEquals(Cancelled.MARKED, queue.cancel("b"));
        assertEquals(TaskExtended.CANCELLED, task.extend());
        assertEquals(TaskReleased.CANCELLED, task.release());
    }

    @Test
    void aWaitingTaskIsRescheduled() {
        queue.enqueue(NewTask.builder("a").delay(Duration.ofMinutes(10)).deadlineAfter(Duration.ofHours(1)).build());
        Instant due = assertInstanceOf(Rescheduled.Done.class, queue.reschedule("a", Duration.ofMinutes(1))).due();
        Task task = queue.task("a").orElseThrow().task();
        assertEquals(due, task.due());
        Duration left = Duration.between(due, task.deadline()).minusMinutes(59);
        assertTrue(left.abs().compareTo(Duration.ofMinutes(1)) < 0, left.toString());
        assertEquals(new Rescheduled.TooLate(task.deadline()), queue.reschedule("a", Duration.ofHours(2)));
        Instant later = due.plus(1_000_001, ChronoUnit.MICROS);
        assertEquals(new Rescheduled.Done(later), queue.reschedule("a", later));
        assertEquals(later, queue.task("a").orElseThrow().task().due());
        assertTrue(queue.claim(Duration.ZERO).isEmpty(), "not due");
        assertInstanceOf(Rescheduled.Done.class, queue.reschedule("a", Duration.ZERO));
        ClaimedTask claimed = claim();
        assertEquals(1, claimed.task().attempt());
        assertEquals(new Rescheduled.Leased(), queue.reschedule("a", Duration.ZERO));
        claimed.complete();
        assertEquals(new Rescheduled.NotFound(), queue.reschedule("a", Duration.ZERO));
        assertThrows(InvalidException.class, () -> queue.reschedule("a", Duration.ofMillis(-1)));
        assertThrows(InvalidException.class, () -> queue.reschedule("a", Duration.ofDays(401)));
        assertThrows(InvalidException.class, () -> queue.reschedule("a", Instant.ofEpochSecond(-1)));
        assertThrows(InvalidException.class, () -> queue.reschedule("a", (Instant) null));
    }

    @Test
    void aTaskSaysWhenItWasClaimed() {
        queue.enqueue("a", Content.empty());
        assertNull(queue.task("a").orElseThrow().task().claimed());
        Instant claimed = claim().task().claimed();
        assertEquals(claimed, queue.task("a").orElseThrow().task().claimed());
        assertTrue(Duration.between(claimed, Instant.now()).abs().compareTo(Duration.ofMinutes(1)) < 0, claimed.toString());
    }

    @Test
    void theTasksThatWaitForATaskAreListed() {
        assertEquals(List.of(), queue.dependents("a", 100));
        queue.enqueueAll(List.of(NewTask.of("a", Content.empty()),
                NewTask.builder("z").after(List.of("a")).ifDead(IfDead.FAIL).build(),
                NewTask.builder("y").after(List.of("a")).ifDead(IfDead.FAIL).build(),
                NewTask.builder("x").after(List.of("a")).build()));
        assertEquals(List.of("x", "z", "y"), queue.dependents("a", 100));
        assertEquals(List.of("x", "z"), queue.dependents("a", 2));
        assertThrows(InvalidException.class, () -> queue.dependents("a", 0));
        assertThrows(InvalidException.class, () -> queue.dependents("a", 1_001));
        assertThrows(InvalidException.class, () -> queue.dependents("a b", 1));
    }

    @Test
    void aClientWaitsForTheResultOfATask() throws Exception {
        queue.limit(QueueLimits.builder().retention(Duration.ofHours(1), 100).build());
        queue.enqueue("a", Content.empty());
        CompletableFuture<Optional<Ended>> waiting = async(() -> other.queue(queue.name()).waitFor("a", WAIT));
        assertTrue(queue.waitFor("a", SHORT).isEmpty(), "live");
        assertEquals(Completed.DONE, claim().complete(Content.json(Map.of("sum", 6)).withKind("k")));
        Ended.Finished ended = assertInstanceOf(Ended.Finished.class, get(waiting).orElseThrow());
        assertEquals(Finish.DONE, ended.task().finished().how());
        assertEquals(Map.of("sum", 6L), ended.task().finished().result().json());
        assertEquals(TaskState.DONE, queue.task("a").orElseThrow().state());
        queue.enqueue("b", Content.empty());
        claim().giveUp("no");
        assertEquals("no", assertInstanceOf(Ended.Dead.class, queue.waitFor("b", WAIT).orElseThrow()).error());
        assertInstanceOf(Ended.Gone.class, queue.waitFor("none", WAIT).orElseThrow());
        queue.enqueue("c", Content.empty());
        claim().discard();
        Ended.Finished discarded = assertInstanceOf(Ended.Finished.class, queue.waitFor("c", WAIT).orElseThrow());
        assertEquals(Finish.DISCARDED, discarded.task().finished().how());
    }

    @Test
    void nothingWaitsForTasksOfAQueueWithoutARetention() {
        queue.enqueue("a", Content.empty());
        assertEquals("nothing_kept", assertThrows(InvalidException.class, () -> queue.waitFor("a", SHORT)).code());
    }

    @Test
    void aTaskWaitsForOthersAndGetsTheirResults() {
        queue.enqueueAll(List.of(NewTask.of("a", Content.empty()), NewTask.of("b", Content.empty()),
                NewTask.builder("sum").after(List.of("a", "b")).ifDead(IfDead.RUN).build()));
        Enqueued refused = queue.enqueue(NewTask.builder("x").after(List.of("none")).build());
        assertEquals(new Enqueued.Refused("none", Enqueued.Why.UNKNOWN), refused);
        assertFalse(refused.isAccepted());
        List<ClaimedTask> claimed = queue.claim(many(10));
        assertEquals(2, claimed.size());
        claimed.get(0).complete(Content.json(1));
        claimed.get(1).giveUp("broken");
        assertEquals("sum", claim().id());
        List<Waited> waited = queue.waited("sum", Page.first(100));
        assertEquals(List.of(TaskEnd.DONE, TaskEnd.DEAD), waited.stream().map(Waited::end).toList());
        assertEquals(1L, waited.get(0).result().json());
        assertEquals("broken", waited.get(1).error());
    }

    @Test
    void theCallbackOfABatchRunsWhenAllMembersHaveFinished() {
        queue.enqueue(NewTask.builder("callback").heldOpen().build());
        queue.enqueueAll(List.of(NewTask.builder("m1").partOf("callback").build(),
                NewTask.builder("m2").partOf("callback").build()));
        assertEquals(new Closed.Done(2), queue.closeBatch("callback"));
        assertInstanceOf(Closed.NotOpen.class, queue.closeBatch("callback"));
        assertInstanceOf(Closed.NotFound.class, queue.closeBatch("none"));
        assertEquals(new Enqueued.Refused("callback", Enqueued.Why.NOT_OPEN),
                queue.enqueue(NewTask.builder("m3").partOf("callback").build()));
        queue.claim(many(10)).forEach(ClaimedTask::complete);
        assertEquals("callback", claim().id());
    }

    @Test
    void anIdStaysUniqueForItsWindow() {
        NewTask task = NewTask.builder("a").uniqueFor(Duration.ofHours(1)).build();
        queue.enqueue(task);
        claim().complete();
        Enqueued.Recent recent = assertInstanceOf(Enqueued.Recent.class, queue.enqueue(task));
        assertTrue(recent.until().isAfter(Instant.now().plusSeconds(3_000)));
        assertEquals(Optional.of(recent.until()), queue.clearUnique("a"));
        assertEquals(Optional.empty(), queue.clearUnique("a"));
        assertInstanceOf(Enqueued.Added.class, queue.enqueue(task));
    }

    @Test
    void aTaskThatMissesItsDeadlineIsADeadLetter() throws Exception {
        queue.enqueue(NewTask.builder("a").deadlineAfter(SHORT).build());
        queue.pause();
        until(() -> !queue.dead(Page.first(1)).isEmpty());
        assertEquals(List.of("a", 0), List.of(queue.dead(Page.first(1)).get(0).id(), queue.dead(Page.first(1)).get(0).attempts()));
    }

    @Test
    void tasksOfAKeyRunInOrder() {
        queue.limit(QueueLimits.builder().perKey(new KeyLimits(null, null, true)).build());
        queue.enqueueAll(List.of(NewTask.builder("a").key("k").build(), NewTask.builder("b").key("k").build(),
                NewTask.builder("c").key("other").build()));
        List<ClaimedTask> first = queue.claim(many(10));
        assertEquals(List.of("a", "c"), first.stream().map(ClaimedTask::id).sorted().toList());
        first.stream().filter(task -> task.id().equals("a")).forEach(ClaimedTask::complete);
        assertEquals("b", claim().id());
    }

    @Test
    void limitsAreReadAsTheyWereSet() {
        QueueLimits limits = QueueLimits.builder().bound(100).overflow(Overflow.DROP_OLDEST).concurrency(7)
                .rate(5, Duration.ofSeconds(2)).perKey(new KeyLimits(3, new Rate(4, Duration.ofMinutes(1)), false))
                .retention(Duration.ofHours(2), 50).events(10).build();
        queue.limit(limits);
        assertEquals(limits, queue.stats().limits());
        QueueLimits inOrder = QueueLimits.builder().perKey(new KeyLimits(1, null, true)).build();
        queue.limit(inOrder);
        assertEquals(inOrder, queue.stats().limits());
        queue.limit(QueueLimits.NONE);
        assertEquals(QueueLimits.NONE, queue.stats().limits());
    }

    @Test
    void aFullQueueSaysSo() {
        queue.limit(QueueLimits.builder().bound(1).build());
        queue.enqueue("a", Content.empty());
        assertEquals(new Enqueued.Full(1), queue.enqueue("b", Content.empty()));
        queue.limit(QueueLimits.builder().bound(1).overflow(Overflow.DROP_NEW).build());
        assertEquals(new Enqueued.Dropped(1), queue.enqueue("b", Content.empty()));
        queue.limit(QueueLimits.builder().bound(1).overflow(Overflow.DROP_OLDEST).build());
        Enqueued.Displaced displaced = assertInstanceOf(Enqueued.Displaced.class, queue.enqueue("b", Content.empty()));
        assertEquals("a", displaced.dropped());
    }

    @Test
    void aPausedQueueGivesNoTasks() {
        queue.enqueue("a", Content.empty());
        queue.pause();
        assertTrue(queue.claim(Duration.ZERO).isEmpty());
        assertTrue(queue.stats().paused());
        queue.resume();
        assertEquals("a", claim().id());
        assertEquals(List.of(0L, 1L), List.of(queue.stats().ready(), queue.stats().leased()));
        assertTrue(queue.stats().lastClaim() != null);
    }

    @Test
    void schedulesAreSavedListedAndDeleted() {
        Recurrence nightly = Recurrence.cron("30 3 * * *").in("Europe/Berlin").missed(Missed.ALL);
        Content content = Content.json(1).withKind("report");
        NewSchedule schedule = NewSchedule.of(nightly, content).priority(2).maxAttempts(4);
        assertInstanceOf(Scheduled.Added.class, queue.saveSchedule("nightly", schedule));
        assertInstanceOf(Scheduled.Unchanged.class, queue.saveSchedule("nightly", schedule));
        assertInstanceOf(Scheduled.Changed.class, queue.saveSchedule("nightly", schedule.priority(3)));
        Recurrence each = Recurrence.every(Duration.ofMinutes(1));
        queue.saveSchedule("minutely", NewSchedule.of(each, Content.bytes(new byte[] {1})).paused(true));
        List<Schedule> schedules = queue.schedules(Page.first(10));
        assertEquals(List.of("minutely", "nightly"), schedules.stream().map(Schedule::id).toList());
        Schedule saved = schedules.get(1);
        assertEquals(nightly, saved.recurrence());
        assertEquals(content, saved.content());
        assertEquals(List.of(3, 4), List.of(saved.priority(), saved.maxAttempts()));
        assertEquals(Cron.next(nightly, Instant.now()), saved.next());
        assertNull(saved.previous());
        assertEquals(List.of(saved.next(), Cron.next(nightly, saved.next())), saved.upcoming().subList(0, 2));
        assertEquals(5, saved.upcoming().size());
        assertTrue(schedules.get(0).paused());
        assertEquals(List.of(), schedules.get(0).upcoming());
        assertTrue(queue.deleteSchedule("nightly"));
        assertFalse(queue.deleteSchedule("nightly"));
        assertThrows(InvalidException.class,
                () -> queue.saveSchedule("never", NewSchedule.of(Recurrence.cron("0 0 31 2 *"), Content.empty())));
    }

    @Test
    void aThousandTasksFitInOneCall() {
        List<NewTask> tasks = new ArrayList<>();
        for (int number = 0; number < 1_000; number++) {
            tasks.add(NewTask.of("task:" + number, Content.json(number)));
        }
        assertTrue(queue.enqueueAll(tasks).stream().allMatch(Enqueued.Added.class::isInstance));
        List<ClaimedTask> claimed = queue.claim(many(1_000));
        assertEquals(1_000, claimed.size());
        assertEquals(999L, claimed.get(999).content().json());
    }

    @Test
    void dueTasksAreReadRemovedAndPopped() {
        queue.enqueueAll(List.of(NewTask.of("a", Content.json(1)), NewTask.of("b", Content.json(2))));
        Task read = queue.top(1).get(0);
        assertEquals("a", read.id());
        assertNull(read.fence());
        queue.enqueue(NewTask.builder("a").onDuplicate(OnDuplicate.REPLACE).build());
        assertFalse(queue.dequeue(read.ticket()));
        assertTrue(queue.dequeue(queue.task("a").orElseThrow().task().ticket()));
        assertEquals(List.of("b"), queue.pop(5).stream().map(Task::id).toList());
        assertEquals(0, queue.stats().ready());
        assertThrows(InvalidException.class, () -> queue.top(0));
        assertThrows(InvalidException.class, () -> queue.pop(1_001));
        assertThrows(InvalidException.class, () -> queue.dequeue("a"));
    }
}
