package dev.rushgate.internal.redis;

import dev.rushgate.Cancelled;
import dev.rushgate.Closed;
import dev.rushgate.Completed;
import dev.rushgate.ConflictException;
import dev.rushgate.Contract;
import dev.rushgate.DeadLetter;
import dev.rushgate.DeadRequeued;
import dev.rushgate.Ended;
import dev.rushgate.Enqueued;
import dev.rushgate.IfDead;
import dev.rushgate.InvalidException;
import dev.rushgate.NewSchedule;
import dev.rushgate.NewTask;
import dev.rushgate.Page;
import dev.rushgate.QueueLimits;
import dev.rushgate.QueueStats;
import dev.rushgate.Recurrence;
import dev.rushgate.Rescheduled;
import dev.rushgate.Retried;
import dev.rushgate.RushgateException.Details;
import dev.rushgate.Schedule;
import dev.rushgate.Scheduled;
import dev.rushgate.Task;
import dev.rushgate.TaskExtended;
import dev.rushgate.TaskInfo;
import dev.rushgate.TaskReleased;
import dev.rushgate.TaskState;
import dev.rushgate.Waited;
import dev.rushgate.Why;
import dev.rushgate.WorkerInfo;
import dev.rushgate.WorkerMode;
import dev.rushgate.internal.Bell;
import dev.rushgate.internal.Bodies;
import dev.rushgate.internal.Check;
import dev.rushgate.internal.Cron;
import dev.rushgate.internal.Deadline;
import dev.rushgate.internal.Json;
import dev.rushgate.internal.Occurrences;
import dev.rushgate.internal.Times;
import dev.rushgate.internal.Transport.Announcement;
import dev.rushgate.internal.Transport.ClaimRequest;
import dev.rushgate.internal.Transport.Completion;
import dev.rushgate.internal.Transport.Failure;
import dev.rushgate.internal.Transport.Heartbeat;
import dev.rushgate.internal.Transport.Queues;
import dev.rushgate.internal.Transport.Release;
import dev.rushgate.internal.Transport.Unreadable;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Supplier;

/** Queues by the function library. */
final class RedisQueues implements Queues {
    /** Longest time until a schedule that another program has saved is noticed. */
    private static final Duration LOOK_EVERY = Duration.ofSeconds(5);
    /** Time between two looks while a schedule cannot be read. */
    private static final Duration UNREADABLE = Duration.ofSeconds(1);
    /** Maximum payload size of one step of a schedule, unless a single task exceeds it. */
    private static final int STEP_BYTES = 4 << 20;

    private final Store store;
    private final Merger enqueues;
    private final Merger completes;
    private final Merger finishes;

    RedisQueues(Store store) {
        this.store = store;
        enqueues = new Merger(true, (groups, args) -> store.callOrReplay("queue_enqueue", "queue_replay", groups, args));
        completes = new Merger(true, (groups, args) -> store.call("queue_complete", groups, args));
        finishes = new Merger(true, (groups, args) -> store.call("queue_finish", groups, args));
    }

    /** Requests for one task share a call. */
    private static Answer ask(Merger merger, String queue, int tasks, List<Group> groups, List<?> args) {
        return new Answer(tasks == 1 ? merger.ask(queue, groups, args) : merger.alone(groups, args));
    }

    @Override
    public List<Enqueued> enqueue(String queue, List<NewTask> tasks) {
        store.register(Contract.QUEUE_DIRECTORY, queue);
        List<Object> args = new ArrayList<>();
        for (NewTask task : tasks) {
            args.addAll(List.of(args.isEmpty() ? store.op() : "", task.id(), Terms.of(task), Bodies.write(task.content())));
        }
        List<Group> groups = List.of(Group.queue(queue), store.answers(queue), Group.unique(queue));
        Answer answer = ask(enqueues, queue, tasks.size(), groups, args);
        return each(tasks, () -> enqueued(answer));
    }

    private static Enqueued enqueued(Answer answer) {
        String outcome = answer.word(Contract.ENQUEUED);
        long value = answer.number();
        return switch (outcome) {
            case "added" -> new Enqueued.Added(value);
            case "kept" -> new Enqueued.Kept(value);
            case "replaced" -> new Enqueued.Replaced(value);
            case "full" -> new Enqueued.Full(value);
            case "dropped" -> new Enqueued.Dropped(value);
            case "displaced" -> new Enqueued.Displaced(value, answer.text());
            case "recent" -> new Enqueued.Recent(Times.instant(value));
            default -> {
                Enqueued.Why why = Answer.constant(Enqueued.Why.class, Contract.UNMET, value);
                yield new Enqueued.Refused(answer.text(), why);
            }
        };
    }

    /** Reads one entry of an answer per argument. */
    private static <T> List<T> each(List<?> arguments, Supplier<T> read) {
        List<T> entries = new ArrayList<>(arguments.size());
        for (int entry = 0; entry < arguments.size(); entry++) {
            entries.add(read.get());
        }
        return entries;
    }

    @Override
    public List<Task> claim(String queue, ClaimRequest request) {
        Deadline until = Deadline.in(request.longestWait());
        while (true) {
            Claimed claimed = claimNow(queue, request);
            Duration left = until.left();
            if (!claimed.tasks().isEmpty() || left.isZero()) {
                return claimed.tasks();
            }
            sleep(queue, claimed.wakeUps(), Times.min(left, claimed.nextDue(), Contract.CLAIM_SLEEP));
        }
    }

    private record Claimed(List<Task> tasks, long wakeUps, Duration nextDue) {}

    private Claimed claimNow(String queue, ClaimRequest request) {
        List<Object> args = List.of(Integer.toString(request.n()), Store.us(request.lease()), request.worker());
        Answer answer = new Answer(once(queue, "claim", args)).list();
        Long nextDue = answer.optional();
        long wakeUps = answer.number();
        List<Task> tasks = new ArrayList<>();
        while (!answer.isEmpty()) {
            tasks.add(Records.task(answer.text(), answer.bytes(), answer.bytes()));
        }
        Duration next = nextDue == null ? Contract.CLAIM_SLEEP : Times.ofMicros(nextDue);
        return new Claimed(tasks, wakeUps, Times.max(next, Duration.ofMillis(1)));
    }

    /** Sleeps until a task can be claimed. Returns at once if the process missed a wake-up since the claim. */
    private void sleep(String queue, long wakeUps, Duration longest) {
        Inbox inbox = store.inbox();
        Bell bell = new Bell();
        Runnable ignore = inbox.listen(Inbox.tasks(queue), bell::ring);
        try {
            long missed = new Answer(call(queue, "listen", List.of(inbox.hex(), Long.toString(wakeUps)))).number();
            if (missed == 0) {
                bell.await(longest);
            }
        } finally {
            ignore.run();
        }
    }

    @Override
    public List<Completed> complete(String queue, List<Completion> completions) {
        boolean plain = completions.stream().allMatch(end -> end.result() == null && !end.discarded());
        List<Object> args = new ArrayList<>();
        for (Completion end : completions) {
            args.add(args.isEmpty() ? store.op() : "");
            addClaim(args, end.ticket());
            if (!plain) {
                args.add(end.discarded() ? "1" : "0");
                args.add(end.result() == null ? "" : Bodies.write(end.result()));
            }
        }
        List<Group> groups = List.of(Group.queue(queue), store.answers(queue));
        Answer answer = ask(plain ? completes : finishes, queue, completions.size(), groups, args);
        return each(completions, () -> Answer.constant(Completed.class, Contract.COMPLETED, answer.number()));
    }

    private static void addClaim(List<Object> args, String ticket) {
        Tickets claim = Tickets.read(ticket);
        args.add(claim.id());
        args.add(Long.toString(claim.claim()));
    }

    @Override
    public List<Retried> retry(String queue, List<Failure> failures) {
        List<Object> args = new ArrayList<>();
        for (Failure end : failures) {
            addClaim(args, end.ticket());
            args.addAll(List.of(Store.us(end.delay()), end.giveUp() ? "1" : "0", end.error()));
        }
        Answer answer = new Answer(once(queue, "retry", args));
        return each(failures, () -> retried(answer.word(Contract.RETRIED), answer.number()));
    }

    private static Retried retried(String outcome, long due) {
        return switch (outcome) {
            case "scheduled" -> new Retried.Scheduled(Times.instant(due));
            case "dead" -> new Retried.Dead();
            case "requeued" -> new Retried.Requeued();
            case "cancelled" -> new Retried.Cancelled();
            default -> new Retried.Stale();
        };
    }

    @Override
    public List<TaskReleased> release(String queue, List<Release> releases) {
        List<Object> args = new ArrayList<>();
        for (Release end : releases) {
            addClaim(args, end.ticket());
            args.add(Store.us(end.delay()));
        }
        Answer answer = new Answer(once(queue, "release", args));
        return each(releases, () -> Answer.constant(TaskReleased.class, Contract.TASK_RELEASED, answer.number()));
    }

    @Override
    public List<TaskExtended> extend(String queue, List<Heartbeat> heartbeats, Duration lease) {
        List<Object> args = new ArrayList<>(List.of(Store.us(lease)));
        for (Heartbeat heartbeat : heartbeats) {
            addClaim(args, heartbeat.ticket());
            if (heartbeat.progress() == null) {
                args.addAll(List.of("0", "", ""));
            } else {
                Integer percent = heartbeat.progress().percent();
                args.addAll(List.of("1", percent == null ? "" : percent.toString(), heartbeat.progress().note()));
            }
        }
        Answer answer = new Answer(call(queue, "extend", args));
        return each(heartbeats, () -> Answer.constant(TaskExtended.class, Contract.TASK_EXTENDED, answer.number()));
    }

    @Override
    public Cancelled cancel(String queue, String id) {
        long outcome = new Answer(once(queue, "cancel", List.of(id))).number();
        return Answer.constant(Cancelled.class, Contract.CANCELED, outcome);
    }

    @Override
    public Rescheduled reschedule(String queue, String id, Duration delay, Instant due) {
        List<Object> args = due == null ? List.of(id, Store.us(delay), "1")
                : List.of(id, Long.toString(Times.micros(due)), "0");
        Answer answer = new Answer(once(queue, "reschedule", args));
        return switch (answer.word(Contract.RESCHEDULED)) {
            case "rescheduled" -> new Rescheduled.Done(Times.instant(answer.number()));
            case "leased" -> new Rescheduled.Leased();
            case "too_late" -> new Rescheduled.TooLate(Times.instant(answer.number()));
            default -> new Rescheduled.NotFound();
        };
    }

    @Override
    public Optional<TaskInfo> task(String queue, String id) {
        return tasks(queue, List.of(id)).tasks().stream().findFirst();
    }

    /** Tasks, and the time of the store. */
    record Tasks(Instant now, List<TaskInfo> tasks) {}

    Tasks tasks(String queue, List<String> ids) {
        List<Object> args = new ArrayList<>(List.of("0"));
        args.addAll(ids);
        Answer answer = new Answer(call(queue, "tasks", args));
        Instant now = Times.instant(answer.number());
        List<TaskInfo> tasks = new ArrayList<>();
        while (!answer.isEmpty()) {
            String id = answer.text();
            byte[] record = answer.bytes();
            byte[] run = answer.bytes();
            Long moment = answer.optional();
            tasks.add(record.length == 0 ? Records.finished(id, run) : Records.info(Records.row(id, record, run), moment, now));
        }
        return new Tasks(now, tasks);
    }

    @Override
    public List<Task> top(String queue, int n) {
        return readTasks(call(queue, "top", List.of(Integer.toString(n))));
    }

    @Override
    public List<Task> pop(String queue, int n) {
        return readTasks(once(queue, "pop", List.of(Integer.toString(n))));
    }

    @Override
    public boolean dequeue(String queue, String ticket) {
        Tickets read = Tickets.read(ticket);
        List<String> args = List.of(read.id(), Long.toString(read.revision()), Long.toString(read.claim()));
        return new Answer(once(queue, "dequeue", args)).word(Contract.DEQUEUED).equals("removed");
    }

    private static List<Task> readTasks(Object reply) {
        Answer answer = new Answer(reply);
        List<Task> tasks = new ArrayList<>();
        while (!answer.isEmpty()) {
            tasks.add(Records.task(answer.text(), answer.bytes(), answer.bytes()));
        }
        return tasks;
    }

    @Override
    public Optional<Ended> waitFor(String queue, String id, Duration wait) {
        Inbox inbox = store.inbox();
        Bell bell = new Bell();
        Runnable ignore = inbox.listen(Inbox.ended(queue, id), bell::ring);
        Deadline until = Deadline.in(wait);
        Duration longest = Contract.RESULT_SLEEP;
        try {
            while (true) {
                // Registered before the read, so that no end is missed in between.
                boolean watched = Answer.number(call(queue, "watch", List.of(inbox.hex(), id))) == 1;
                Optional<Ended> ended = ended(queue, id);
                if (ended.isPresent()) {
                    return ended;
                }
                if (!watched) {
                    checkRetention(queue);
                }
                if (until.hasPassed()) {
                    return Optional.empty();
                }
                bell.await(Times.min(until.left(), longest));
                longest = Times.min(longest.multipliedBy(2), Contract.LAST_RESULT_SLEEP);
            }
        } finally {
            ignore.run();
        }
    }

    private void checkRetention(String queue) {
        if (stats(queue).limits().retention() == null) {
            throw new InvalidException("nothing_kept", "The queue has no retention, so that nothing can wait for its tasks.",
                    new Details("queue", "Set a retention with `limit`.", null, null));
        }
    }

    /** How a task ended. Nothing if it is live. */
    Optional<Ended> ended(String queue, String id) {
        Optional<TaskInfo> task = task(queue, id);
        if (task.isPresent() && task.get().state() != TaskState.DONE) {
            return Optional.empty();
        }
        Optional<DeadLetter> letter = deadLetter(queue, id);
        if (letter.isPresent()) {
            DeadLetter dead = letter.get();
            boolean isLatest = task.isEmpty() || task.get().finished().at().isBefore(dead.died());
            if (isLatest) {
                return Optional.of(new Ended.Dead(dead.error(), dead.attempts(), dead.died()));
            }
        }
        if (task.isPresent()) {
            return Optional.of(new Ended.Finished(task.get()));
        }
        // A dead letter may have been requeued between the two reads.
        return task(queue, id).isPresent() ? Optional.empty() : Optional.of(new Ended.Gone());
    }

    Optional<DeadLetter> deadLetter(String queue, String id) {
        return letters(call(queue, "dead_letter", List.of(id))).stream().findFirst();
    }

    private static List<DeadLetter> letters(Object reply) {
        Answer answer = new Answer(reply);
        List<DeadLetter> letters = new ArrayList<>();
        while (!answer.isEmpty()) {
            letters.add(Records.dead(answer.text(), answer.bytes()));
        }
        return letters;
    }

    @Override
    public List<Why> why(String queue, String id) {
        return new WhyReader(this, store, queue).explain(id);
    }

    /** End of the uniqueness window of an ID, or null. */
    Instant uniqueUntil(String queue, String id) {
        Object reply = store.call("queue_unique_until", List.of(Group.unique(queue)), List.of(id));
        return Times.optionalInstant(Answer.number(reply));
    }

    @Override
    public Optional<Instant> clearUnique(String queue, String id) {
        List<Group> groups = List.of(Group.unique(queue), store.answers(queue));
        Answer answer = new Answer(store.call("queue_clear_unique", groups, List.of(store.op(), id)));
        return Optional.ofNullable(Times.optionalInstant(answer.number()));
    }

    /** What a task waits for. Nothing if it never waited. */
    Optional<Why.WaitsFor> waits(String queue, String id) {
        Answer answer = new Answer(call(queue, "waits", List.of(id)));
        if (answer.isEmpty()) {
            return Optional.empty();
        }
        boolean open = answer.number() == 1;
        IfDead ifDead = Answer.constant(IfDead.class, Contract.IF_DEAD, answer.number());
        long left = answer.number();
        answer.number();
        long dead = answer.number();
        List<Why.Dependency> first = new ArrayList<>();
        while (!answer.isEmpty()) {
            String other = answer.text();
            boolean isDead = answer.number() == 1;
            String error = answer.text();
            first.add(new Why.Dependency(other, isDead ? error : null));
        }
        return Optional.of(new Why.WaitsFor(left, dead, first, ifDead, open));
    }

    @Override
    public Closed closeBatch(String queue, String id) {
        Answer answer = new Answer(once(queue, "close_batch", List.of(id)));
        return switch (answer.word(Contract.CLOSED)) {
            case "closed" -> new Closed.Done(answer.number());
            case "not_open" -> new Closed.NotOpen();
            default -> new Closed.NotFound();
        };
    }

    @Override
    public List<String> dependents(String queue, String id, int n) {
        Answer answer = new Answer(call(queue, "dependents", List.of(id, Integer.toString(n))));
        List<String> ids = new ArrayList<>();
        while (!answer.isEmpty()) {
            ids.add(answer.text());
        }
        return ids;
    }

    @Override
    public List<Waited> waited(String queue, String id, Page page) {
        Answer answer = new Answer(call(queue, "waited", List.of(id, page.after(), Integer.toString(page.limit()))));
        List<Waited> waited = new ArrayList<>();
        while (!answer.isEmpty()) {
            waited.add(Records.waited(answer.text(), answer.bytes()));
        }
        return waited;
    }

    @Override
    public QueueStats stats(String queue) {
        Answer answer = new Answer(call(queue, "stats", List.of()));
        return new QueueStats(queue, answer.number(), answer.number(), answer.number(), answer.number(), answer.number(),
                answer.number(), answer.number(), Duration.ofMillis(answer.number() / 1_000),
                Times.optionalInstant(answer.optional()), Times.optionalInstant(answer.number()), answer.number() == 1,
                Limits.read(answer.optional(), answer.text()));
    }

    @Override
    public void limit(String queue, QueueLimits limits) {
        store.register(Contract.QUEUE_DIRECTORY, queue);
        call(queue, "limit", Limits.write(limits));
    }

    @Override
    public void pause(String queue, boolean paused) {
        store.register(Contract.QUEUE_DIRECTORY, queue);
        call(queue, "pause", List.of(paused ? "1" : "0"));
    }

    @Override
    public List<DeadLetter> dead(String queue, Page page) {
        return letters(call(queue, "dead", List.of(page.after(), Integer.toString(page.limit()))));
    }

    @Override
    public DeadRequeued requeueDead(String queue, List<String> ids) {
        Answer answer = new Answer(once(queue, "requeue_dead", selection(ids)));
        return new DeadRequeued(answer.number(), answer.number());
    }

    @Override
    public long deleteDead(String queue, List<String> ids) {
        return new Answer(once(queue, "delete_dead", selection(ids))).number();
    }

    /** All dead letters, or those with these IDs, in the order of their bytes. */
    private static List<Object> selection(List<String> ids) {
        List<Object> args = new ArrayList<>(List.of(ids.isEmpty() ? "1" : "0"));
        ids.stream().distinct()
                .sorted((one, other) -> Arrays.compareUnsigned(one.getBytes(StandardCharsets.UTF_8),
                        other.getBytes(StandardCharsets.UTF_8)))
                .forEach(args::add);
        return args;
    }

    @Override
    public Scheduled saveSchedule(String queue, String id, NewSchedule schedule) {
        store.register(Contract.QUEUE_DIRECTORY, queue);
        Instant now = Times.instant(new Answer(
                store.call("queue_due_schedules", List.of(Group.schedules(queue)), List.of("1"))).number());
        Instant next = Cron.next(schedule.recurrence(), now);
        List<Object> args = List.of(id, json(schedule.recurrence()), Bodies.write(schedule.content()),
                Integer.toString(schedule.priority()), Integer.toString(schedule.maxAttempts()),
                Long.toString(Times.micros(next)), schedule.paused() == null ? "" : schedule.paused() ? "1" : "0", "");
        List<Group> groups = List.of(Group.queue(queue), Group.schedules(queue));
        Answer answer = new Answer(store.call("queue_schedule", groups, args));
        return switch (answer.word(Contract.SCHEDULED)) {
            case "added" -> new Scheduled.Added(answer.number());
            case "changed" -> new Scheduled.Changed(answer.number());
            case "unchanged" -> new Scheduled.Unchanged(answer.number());
            case "full" -> new Scheduled.Full();
            default -> throw new ConflictException("stale", "The schedule was changed meanwhile.", Details.NONE);
        };
    }

    /** The stored form of a recurrence, which Rust programs read. */
    private static String json(Recurrence recurrence) {
        Map<String, Object> json = new LinkedHashMap<>();
        if (recurrence.cron() != null) {
            json.put("cron", recurrence.cron());
            if (recurrence.zone() != null) {
                json.put("zone", recurrence.zone());
            }
        } else {
            json.put("every_ms", recurrence.every().toMillis());
        }
        json.put("missed", Check.word(recurrence.missed()));
        return Json.write(json);
    }

    @Override
    public List<Schedule> schedules(String queue, Page page) {
        Answer answer = new Answer(store.call("queue_schedules", List.of(Group.schedules(queue)),
                List.of(page.after(), Integer.toString(page.limit()))));
        List<Schedule> schedules = new ArrayList<>();
        while (!answer.isEmpty()) {
            schedules.add(Records.schedule(answer.text(), answer.bytes()));
        }
        return schedules;
    }

    @Override
    public WorkerMode announce(String queue, Announcement worker) {
        store.register(Contract.QUEUE_DIRECTORY, queue);
        return announce(queue, List.of(worker.id(), worker.name(), worker.version(), Integer.toString(worker.concurrency()),
                Integer.toString(worker.running()), Store.us(worker.lease())));
    }

    @Override
    public void endWorker(String queue, String id) {
        announce(queue, List.of(id, "", "", "1", "0", "0"));
    }

    private WorkerMode announce(String queue, List<Object> args) {
        long mode = Answer.number(store.call("queue_announce", List.of(Group.workers(queue)), args));
        return Answer.constant(WorkerMode.class, Contract.WORKER_MODE, mode);
    }

    @Override
    public List<WorkerInfo> workers(String queue, Page page) {
        Answer answer = new Answer(store.call("queue_workers", List.of(Group.workers(queue)),
                List.of(page.after(), Integer.toString(page.limit()))));
        List<WorkerInfo> workers = new ArrayList<>();
        while (!answer.isEmpty()) {
            workers.add(Records.worker(answer.text(), answer.bytes()));
        }
        return workers;
    }

    @Override
    public boolean setWorker(String queue, String id, WorkerMode mode) {
        List<Object> args = List.of(id, Integer.toString(Contract.WORKER_MODE.indexOf(Check.word(mode))));
        return Answer.number(store.call("queue_set_worker", List.of(Group.workers(queue)), args)) == 1;
    }

    @Override
    public Optional<Duration> fireSchedules(String queue, Unreadable unreadable) {
        Answer answer = new Answer(store.call("queue_due_schedules", List.of(Group.schedules(queue)),
                List.of(Long.toString(Contract.BATCH.max()))));
        Instant now = Times.instant(answer.number());
        long next = answer.number();
        Duration wait = next == 0 ? LOOK_EVERY : Times.min(LOOK_EVERY, Times.since(now, Times.instant(next)));
        while (!answer.isEmpty()) {
            String id = answer.text();
            byte[] record = answer.bytes();
            if (fire(queue, id, record, now, unreadable)) {
                // More occurrences may be due.
                wait = Duration.ZERO;
            } else {
                wait = wait.compareTo(UNREADABLE) < 0 ? UNREADABLE : wait;
            }
        }
        return Optional.of(wait);
    }

    /** Returns false for a schedule that cannot be read, or that the server refuses: the others fire. */
    private boolean fire(String queue, String id, byte[] record, Instant now, Unreadable unreadable) {
        long revision = 0;
        List<Object> step = null;
        try {
            Schedule schedule = Records.schedule(id, record);
            revision = schedule.revision();
            step = step(schedule, record.length, now);
            store.call("queue_fire", List.of(Group.queue(queue), Group.schedules(queue)), step);
            return true;
        } catch (RuntimeException failed) {
            if (step != null && !(failed instanceof InvalidException)) {
                throw failed;
            }
            unreadable.report(id, revision, failed);
            return false;
        }
    }

    private static List<Object> step(Schedule schedule, int bytes, Instant now) {
        if (schedule.recurrence() == null) {
            throw Check.invalid("recurrence", "is malformed");
        }
        int most = (int) Math.min(Math.max(STEP_BYTES / bytes, 1), Contract.BATCH.max());
        Occurrences due = Occurrences.due(schedule.recurrence(), schedule.next(), now, most);
        List<Object> step = new ArrayList<>(List.of(schedule.id(), Long.toString(schedule.revision()),
                due.next().map(at -> Long.toString(Times.micros(at))).orElse("0")));
        for (Instant at : due.runs()) {
            // A schedule that was changed while another program fired it may list an occurrence again.
            if (schedule.previous() == null || at.isAfter(schedule.previous())) {
                step.add(schedule.id() + "@" + Occurrences.written(at));
                step.add(Long.toString(Times.micros(at)));
            }
        }
        return step;
    }

    @Override
    public boolean deleteSchedule(String queue, String id) {
        return Answer.number(store.call("queue_unschedule", List.of(Group.schedules(queue)), List.of(id))) == 1;
    }

    /** A call that changes nothing, or that is harmless to repeat. */
    private Object call(String queue, String verb, List<?> args) {
        return store.call("queue_" + verb, List.of(Group.queue(queue)), args);
    }

    /** A call with an op, which is executed once. */
    private Object once(String queue, String verb, List<?> args) {
        List<Object> all = new ArrayList<>(List.of(store.op()));
        all.addAll(args);
        return store.call("queue_" + verb, List.of(Group.queue(queue), store.answers(queue)), all);
    }
}
