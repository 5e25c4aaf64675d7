package dev.rushgate.internal.http;

import dev.rushgate.Cancelled;
import dev.rushgate.Closed;
import dev.rushgate.Completed;
import dev.rushgate.Content;
import dev.rushgate.DeadLetter;
import dev.rushgate.DeadRequeued;
import dev.rushgate.Ended;
import dev.rushgate.Enqueued;
import dev.rushgate.NewSchedule;
import dev.rushgate.NewTask;
import dev.rushgate.Page;
import dev.rushgate.QueueLimits;
import dev.rushgate.QueueStats;
import dev.rushgate.Rate;
import dev.rushgate.Rescheduled;
import dev.rushgate.Retried;
import dev.rushgate.RushgateException;
import dev.rushgate.Schedule;
import dev.rushgate.Scheduled;
import dev.rushgate.Task;
import dev.rushgate.TaskExtended;
import dev.rushgate.TaskInfo;
import dev.rushgate.TaskReleased;
import dev.rushgate.TaskState;
import dev.rushgate.WaitInterruptedException;
import dev.rushgate.Waited;
import dev.rushgate.Why;
import dev.rushgate.WorkerInfo;
import dev.rushgate.WorkerMode;
import dev.rushgate.internal.Bodies;
import dev.rushgate.internal.Transport.Announcement;
import dev.rushgate.internal.Transport.ClaimRequest;
import dev.rushgate.internal.Transport.Completion;
import dev.rushgate.internal.Transport.Failure;
import dev.rushgate.internal.Transport.Heartbeat;
import dev.rushgate.internal.Transport.Queues;
import dev.rushgate.internal.Transport.Release;
import dev.rushgate.internal.http.HttpLink.Call;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.function.Function;

/** Queues by the HTTP API. */
final class HttpQueues implements Queues {
    /** Shortest wait for which the server checks that the queue has a retention. */
    private static final Duration SHORTEST_WAIT = Duration.ofMillis(1);

    private final HttpLink link;

    HttpQueues(HttpLink link) {
        this.link = link;
    }

    @Override
    public List<Enqueued> enqueue(String queue, List<NewTask> tasks) {
        Map<String, Object> body = Map.of("tasks", tasks.stream().map(HttpQueues::fields).toList());
        return outcomes(Call.of(Operation.ENQUEUE_ALL, queue).with(body).keyed(newKey()), Views::enqueued);
    }

    private static String newKey() {
        return UUID.randomUUID().toString();
    }

    private <T> List<T> outcomes(Call call, Function<Wire, T> read) {
        return Wire.of(link.ask(call).body()).list("outcomes", read);
    }

    private static Map<String, Object> fields(NewTask task) {
        Map<String, Object> fields = Wire.fields("id", task.id(), "delay_ms", task.delay(), "due_us", task.due(),
                "deadline_after_ms", task.deadlineAfter(), "deadline_us", task.deadline(), "priority", task.priority(),
                "on_duplicate", task.onDuplicate(), "max_wait_ms", task.maxWait(), "max_attempts", task.maxAttempts(),
                "unique_for_ms", task.uniqueFor(), "key", task.key(), "after", task.after(), "if_dead", task.ifDead(),
                "held_open", task.heldOpen(), "part_of", task.partOf());
        Wire.putContent(fields, task.content());
        Wire.putIf(fields, "traceparent", task.content().traceparent());
        return fields;
    }

    @Override
    public List<Task> claim(String queue, ClaimRequest request) {
        Map<String, Object> body = Wire.fields("n", request.n(), "lease_ms", request.lease(), "worker", request.worker());
        return Waiting.repeat(request.longestWait(), part -> claimOnce(queue, body, part), tasks -> !tasks.isEmpty());
    }

    private List<Task> claimOnce(String queue, Map<String, Object> body, Duration wait) {
        Call call = Call.of(Operation.CLAIM, queue).with(body).keyed(newKey());
        try {
            return tasks(call.waiting(wait));
        } catch (WaitInterruptedException stopped) {
            putBack(queue, call);
            throw stopped;
        }
    }

    private List<Task> tasks(Call call) {
        return Wire.of(link.ask(call).body()).list("tasks", Views::task);
    }

    /** An answer may have been under way when the wait was interrupted. With the same key it arrives again. */
    private void putBack(String queue, Call call) {
        try {
            List<Release> releases = tasks(call).stream().map(task -> new Release(task.ticket(), Duration.ZERO)).toList();
            if (!releases.isEmpty()) {
                release(queue, releases);
            }
        } catch (RushgateException lost) {
            // After its lease, a task returns to the queue in any case.
        }
    }

    @Override
    public List<Completed> complete(String queue, List<Completion> completions) {
        return grouped(queue, Operation.COMPLETE, completions, Completion::ticket, HttpQueues::fields,
                view -> view.constant(Completed.class, "outcome"));
    }

    private static Map<String, Object> fields(Completion end) {
        Map<String, Object> fields = Wire.fields("discarded", end.discarded());
        if (end.result() != null) {
            fields.put("result_base64", Wire.base64(end.result()));
            fields.put("result_type", Bodies.contentType(end.result()));
        }
        return fields;
    }

    @Override
    public List<Retried> retry(String queue, List<Failure> failures) {
        return grouped(queue, Operation.RETRY, failures, Failure::ticket,
                end -> Wire.fields("delay_ms", end.delay(), "error", end.error(), "give_up", end.giveUp()), Views::retried);
    }

    @Override
    public List<TaskReleased> release(String queue, List<Release> releases) {
        return grouped(queue, Operation.RELEASE_TASKS, releases, Release::ticket, end -> Wire.fields("delay_ms", end.delay()),
                view -> view.constant(TaskReleased.class, "outcome"));
    }

    @Override
    public List<TaskExtended> extend(String queue, List<Heartbeat> heartbeats, Duration lease) {
        return grouped(queue, Operation.EXTEND_TASKS, heartbeats, Heartbeat::ticket, heartbeat -> {
            Map<String, Object> fields = Wire.fields("lease_ms", lease);
            if (heartbeat.progress() != null) {
                fields.put("progress", Wire.fields("percent", heartbeat.progress().percent(), "note",
                        heartbeat.progress().note()));
            }
            return fields;
        }, view -> view.constant(TaskExtended.class, "outcome"));
    }

    /** One request for all entries with the same fields. Returns the outcomes in the order of the entries. */
    private <E, T> List<T> grouped(String queue, Operation operation, List<E> entries, Function<E, String> ticket,
            Function<E, Map<String, Object>> fields, Function<Wire, T> read) {
        Map<Map<String, Object>, List<Integer>> groups = new LinkedHashMap<>();
        for (int at = 0; at < entries.size(); at++) {
            groups.computeIfAbsent(fields.apply(entries.get(at)), same -> new ArrayList<>()).add(at);
        }
        List<T> outcomes = new ArrayList<>(Collections.nCopies(entries.size(), null));
        groups.forEach((same, positions) -> {
            Map<String, Object> body = new LinkedHashMap<>(same);
            body.put("tickets", positions.stream().map(entries::get).map(ticket).toList());
            // Heartbeats take no key: repeating one is harmless.
            String key = operation == Operation.EXTEND_TASKS ? null : newKey();
            List<T> answers = outcomes(Call.of(operation, queue).with(body).keyed(key), read);
            for (int answer = 0; answer < positions.size(); answer++) {
                outcomes.set(positions.get(answer), answers.get(answer));
            }
        });
        return outcomes;
    }

    @Override
    public Cancelled cancel(String queue, String id) {
        return found(Call.of(Operation.CANCEL, queue, id)).map(view -> view.constant(Cancelled.class, "outcome"))
                .orElse(Cancelled.NOT_FOUND);
    }

    @Override
    public List<Task> top(String queue, int n) {
        return tasks(Call.of(Operation.TOP, queue).query("n=" + n));
    }

    @Override
    public List<Task> pop(String queue, int n) {
        return tasks(Call.of(Operation.POP, queue).with(Wire.fields("n", n)).keyed(newKey()));
    }

    @Override
    public boolean dequeue(String queue, String ticket) {
        try {
            link.send(Call.of(Operation.DEQUEUE, queue).with(Wire.fields("ticket", ticket)));
            return true;
        } catch (Problem problem) {
            if (problem.code().equals("stale") || problem.code().equals("leased")) {
                return false;
            }
            throw HttpLink.failure(problem);
        }
    }

    @Override
    public Rescheduled reschedule(String queue, String id, Duration delay, Instant due) {
        Map<String, Object> body = Wire.fields("delay_ms", delay, "due_us", due);
        try {
            Wire view = Wire.of(link.send(Call.of(Operation.RESCHEDULE, queue, id).with(body).keyed(newKey())).body());
            return new Rescheduled.Done(view.instant("due_us"));
        } catch (Problem problem) {
            Wire view = new Wire(problem.body());
            if (view.has("deadline_us")) {
                return new Rescheduled.TooLate(view.instant("deadline_us"));
            }
            return switch (problem.code()) {
                case "leased" -> new Rescheduled.Leased();
                case "not_found" -> new Rescheduled.NotFound();
                default -> throw HttpLink.failure(problem);
            };
        }
    }

    /** The answer. Nothing if what the path names does not exist. */
    private Optional<Wire> found(Call call) {
        try {
            return Optional.of(Wire.of(link.send(call).body()));
        } catch (Problem problem) {
            if (problem.code().equals("not_found")) {
                return Optional.empty();
            }
            throw HttpLink.failure(problem);
        }
    }

    /** A task that is live, or its end. */
    private record Lookup(TaskInfo live, Ended ended) {}

    @Override
    public Optional<TaskInfo> task(String queue, String id) {
        Lookup lookup = look(queue, id, Duration.ZERO);
        if (lookup.ended() instanceof Ended.Finished finished) {
            return Optional.of(finished.task());
        }
        return Optional.ofNullable(lookup.live());
    }

    @Override
    public Optional<Ended> waitFor(String queue, String id, Duration wait) {
        Lookup lookup = Waiting.repeat(wait,
                part -> look(queue, id, part.isZero() ? SHORTEST_WAIT : part), answer -> answer.ended() != null);
        return Optional.ofNullable(lookup.ended());
    }

    private Lookup look(String queue, String id, Duration wait) {
        try {
            Wire view = Wire.of(link.send(Call.of(Operation.TASK, queue, id).waiting(wait)).body());
            TaskInfo task = Views.info(view);
            return task.state() == TaskState.DONE ? new Lookup(null, new Ended.Finished(task)) : new Lookup(task, null);
        } catch (Problem problem) {
            Wire body = new Wire(problem.body());
            return switch (problem.code()) {
                case "not_found" -> new Lookup(null, new Ended.Gone());
                case "dead" -> new Lookup(null,
                        new Ended.Dead(body.text("error"), body.small("attempts"), body.instant("died_us")));
                default -> throw HttpLink.failure(problem);
            };
        }
    }

    @Override
    public List<Why> why(String queue, String id) {
        return Wire.of(link.ask(Call.of(Operation.WHY, queue, id)).body()).list("reasons", Views::why);
    }

    @Override
    public Closed closeBatch(String queue, String id) {
        try {
            Wire view = Wire.of(link.send(Call.of(Operation.CLOSE_BATCH, queue, id).with(Map.of()).keyed(newKey())).body());
            return new Closed.Done(view.number("left"));
        } catch (Problem problem) {
            return switch (problem.code()) {
                case "not_open" -> new Closed.NotOpen();
                case "not_found" -> new Closed.NotFound();
                default -> throw HttpLink.failure(problem);
            };
        }
    }

    @Override
    public List<String> dependents(String queue, String id, int n) {
        return Wire.of(link.ask(Call.of(Operation.DEPENDENTS, queue, id).query("n=" + n)).body()).texts("ids");
    }

    @Override
    public List<Waited> waited(String queue, String id, Page page) {
        return page(Call.of(Operation.WAITED, queue, id), page, Views::waited);
    }

    @Override
    public Optional<Instant> clearUnique(String queue, String id) {
        return found(Call.of(Operation.CLEAR_UNIQUE, queue, id)).map(view -> view.instant("until_us"));
    }

    @Override
    public QueueStats stats(String queue) {
        return Views.stats(Wire.of(link.ask(Call.of(Operation.STATS, queue)).body()));
    }

    @Override
    public void limit(String queue, QueueLimits limits) {
        Map<String, Object> perKey = Wire.fields("concurrency", limits.perKey().concurrency(), "rate",
                rate(limits.perKey().rate()), "fifo", limits.perKey().fifo());
        Map<String, Object> retention = limits.retention() == null ? null
                : Wire.fields("age_ms", limits.retention().age(), "count", limits.retention().count());
        link.ask(Call.of(Operation.LIMIT, queue).with(Wire.fields("bound", limits.bound(), "overflow", limits.overflow(),
                "concurrency", limits.concurrency(), "rate", rate(limits.rate()), "per_key", perKey, "retention", retention,
                "events", limits.events())));
    }

    private static Map<String, Object> rate(Rate rate) {
        return rate == null ? null : Wire.fields("n", rate.n(), "per_ms", rate.per());
    }

    @Override
    public void pause(String queue, boolean paused) {
        link.ask(Call.of(paused ? Operation.PAUSE : Operation.RESUME, queue).with(Map.of()));
    }

    @Override
    public List<DeadLetter> dead(String queue, Page page) {
        return page(Call.of(Operation.DEAD, queue), page, Views::dead);
    }

    @Override
    public DeadRequeued requeueDead(String queue, List<String> ids) {
        Wire view = Wire.of(link.ask(Call.of(Operation.REQUEUE_DEAD, queue).with(selection(ids))).body());
        return new DeadRequeued(view.number("requeued"), view.number("kept"));
    }

    @Override
    public long deleteDead(String queue, List<String> ids) {
        return Wire.of(link.ask(Call.of(Operation.DELETE_DEAD, queue).with(selection(ids))).body()).number("deleted");
    }

    private static Map<String, Object> selection(List<String> ids) {
        return ids.isEmpty() ? Map.of("all", true) : Map.of("ids", ids.stream().distinct().toList());
    }

    @Override
    public Scheduled saveSchedule(String queue, String id, NewSchedule schedule) {
        Map<String, Object> body = Wire.fields("cron", schedule.recurrence().cron(), "zone", schedule.recurrence().zone(),
                "every_ms", schedule.recurrence().every(), "missed", schedule.recurrence().missed(), "priority",
                schedule.priority(), "max_attempts", schedule.maxAttempts(), "paused", schedule.paused());
        Content content = schedule.content();
        Wire.putContent(body, content);
        try {
            return Views.scheduled(Wire.of(link.send(Call.of(Operation.SCHEDULE, queue, id).with(body)).body()));
        } catch (Problem problem) {
            if (problem.code().equals("queue_full")) {
                return new Scheduled.Full();
            }
            throw HttpLink.failure(problem);
        }
    }

    @Override
    public List<Schedule> schedules(String queue, Page page) {
        return page(Call.of(Operation.SCHEDULES, queue), page, Views::schedule);
    }

    @Override
    public boolean deleteSchedule(String queue, String id) {
        return found(Call.of(Operation.UNSCHEDULE, queue, id)).isPresent();
    }

    @Override
    public WorkerMode announce(String queue, Announcement worker) {
        Map<String, Object> body = Wire.fields("name", worker.name(), "version", worker.version(), "concurrency",
                worker.concurrency(), "running", worker.running(), "lease_ms", worker.lease());
        Call call = Call.of(Operation.ANNOUNCE, queue, worker.id()).with(body);
        return Wire.of(link.ask(call).body()).constant(WorkerMode.class, "mode");
    }

    @Override
    public void endWorker(String queue, String id) {
        link.ask(Call.of(Operation.END_WORKER, queue, id));
    }

    @Override
    public List<WorkerInfo> workers(String queue, Page page) {
        return page(Call.of(Operation.WORKERS, queue), page, Views::worker);
    }

    @Override
    public boolean setWorker(String queue, String id, WorkerMode mode) {
        return found(Call.of(Operation.SET_WORKER, queue, id).with(Wire.fields("mode", mode))).isPresent();
    }

    /** Large payloads make a page of the server smaller. */
    private <T> List<T> page(Call call, Page page, Function<Wire, T> read) {
        List<T> items = new ArrayList<>();
        String next = page.after();
        while (next != null && items.size() < page.limit()) {
            String query = "after=" + Wire.encoded(next) + "&limit=" + (page.limit() - items.size());
            Wire view = Wire.of(link.ask(call.query(query)).body());
            items.addAll(view.list("items", read));
            next = view.text("next");
        }
        return items;
    }
}
