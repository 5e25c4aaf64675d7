package dev.rushgate.internal.redis;

import dev.rushgate.Content;
import dev.rushgate.Contract;
import dev.rushgate.DeadLetter;
import dev.rushgate.Finish;
import dev.rushgate.Finished;
import dev.rushgate.Missed;
import dev.rushgate.PastEnd;
import dev.rushgate.PastRun;
import dev.rushgate.Progress;
import dev.rushgate.Recurrence;
import dev.rushgate.Schedule;
import dev.rushgate.Task;
import dev.rushgate.TaskEnd;
import dev.rushgate.TaskInfo;
import dev.rushgate.TaskState;
import dev.rushgate.Waited;
import dev.rushgate.WorkerInfo;
import dev.rushgate.WorkerMode;
import dev.rushgate.internal.Bodies;
import dev.rushgate.internal.Json;
import dev.rushgate.internal.Occurrences;
import dev.rushgate.internal.Times;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/** Packed records of queues, as docs/protocol/keys.md describes them. */
final class Records {
    private Records() {}

    /** Identity of a holder or waiter. */
    record Owner(long pid, String host, String label) {
        static Owner read(Packed packed) {
            long pid = packed.fields(Contract.OWNER_LAYOUT).number("pid");
            return new Owner(pid, packed.text(Contract.HOST_LENGTH_BYTES), packed.restText());
        }
    }

    /** A record and a run. The run of a task that was never claimed has zeros. */
    record Row(Task task, boolean waits, boolean leased, boolean cancelled, boolean replaced, Instant leaseUntil,
            String worker, Progress progress, List<PastRun> past, String error) {}

    /** Content: the rest of a record. */
    static Content body(Packed packed) {
        int first = (int) packed.number(1);
        String common = Bodies.SHORT_TYPES.get(first);
        if (common != null) {
            return Content.stored(packed.rest(), common, null, null);
        }
        String type = new String(packed.take(first), StandardCharsets.ISO_8859_1);
        return Bodies.content(packed.rest(), type);
    }

    /** A claimed task. */
    static Task task(String id, byte[] record, byte[] run) {
        return row(id, record, run).task();
    }

    static Row row(String id, byte[] record, byte[] run) {
        Packed packed = new Packed(record);
        Packed.Fields fields = packed.fields(Contract.RECORD_LAYOUT);
        long due = fields.has("priority", Contract.PRIORITY_AT_ONCE)
                ? fields.number("first") : packed.number(Contract.DUE_BYTES);
        Instant deadline = fields.has("priority", Contract.PRIORITY_DEADLINE)
                ? Times.instant(packed.number(Contract.DEADLINE_BYTES)) : null;
        String key = fields.has("priority", Contract.PRIORITY_KEYED) ? packed.text(Contract.KEY_LENGTH_BYTES) : null;
        Content content = body(packed);
        long revision = fields.number("revision") + fields.number("turn");
        int priority = fields.small("priority") % Contract.PRIORITY_KEYED;
        int most = fields.small("max_attempts");
        boolean waits = fields.has("priority", Contract.PRIORITY_WAITS);
        if (run.length == 0) {
            Task task = new Task(id, Tickets.write(revision, 0, due, id), Times.instant(due), revision, null, null,
                    content, priority, 0, most, key, deadline);
            return new Row(task, waits, false, false, false, null, null, null, List.of(), null);
        }
        Packed rest = new Packed(run);
        Packed.Fields claim = rest.fields(Contract.RUN_LAYOUT);
        boolean leased = claim.has("flags", Contract.RUN_LEASED);
        Long fence = leased ? claim.number("claim") + claim.number("turn") : null;
        // Claims are numbered by the time.
        Instant claimed = fence == null ? null : Times.instant(fence);
        due = claim.number("due");
        Task task = new Task(id, Tickets.write(revision, fence == null ? 0 : fence, due, id), Times.instant(due), revision,
                fence, claimed, content, priority, claim.small("attempts"), most, key, deadline);
        String worker = rest.text(Contract.WORKER_LENGTH_BYTES);
        Progress progress = claim.has("flags", Contract.RUN_PROGRESS) ? progress(rest) : null;
        List<PastRun> past = claim.has("flags", Contract.RUN_PAST) ? past(rest) : List.of();
        String error = claim.has("flags", Contract.RUN_FAILED) ? rest.restText() : null;
        return new Row(task, waits, leased, claim.has("flags", Contract.RUN_CANCELED),
                claim.has("flags", Contract.RUN_REPLACED), Times.instant(claim.number("lease_until")), worker, progress, past,
                error);
    }

    private static Progress progress(Packed packed) {
        int length = (int) packed.number(Contract.NOTE_LENGTH_BYTES);
        int percent = (int) packed.number(Contract.PERCENT_BYTES);
        String note = new String(packed.take(length), StandardCharsets.UTF_8);
        return new Progress(percent == Contract.NO_PERCENT ? null : percent, note);
    }

    private static List<PastRun> past(Packed packed) {
        Packed rest = new Packed(packed.sized(Contract.PAST_LENGTH_BYTES));
        List<PastRun> runs = new ArrayList<>();
        while (!rest.isEmpty()) {
            Packed.Fields run = rest.fields(Contract.PAST_LAYOUT);
            runs.add(new PastRun(run.small("attempt"), Times.instant(run.number("began")), Times.instant(run.number("ended")),
                    Answer.constant(PastEnd.class, Contract.PAST_END, run.number("how")),
                    rest.text(Contract.WORKER_LENGTH_BYTES), rest.text(Contract.PAST_ERROR_LENGTH_BYTES)));
        }
        return runs;
    }

    /** A live task and its state. {@code moment}: when its key lets it run, null if its key blocks it, 0 without a key. */
    static TaskInfo info(Row row, Long moment, Instant now) {
        Task task = row.task();
        if (row.leased()) {
            return info(row, TaskState.LEASED, null, row.leaseUntil(), row.worker(), row.progress());
        }
        Instant notBefore = moment == null ? null : task.key() == null ? task.due() : Times.instant(moment);
        TaskState state = notBefore == null ? TaskState.BLOCKED
                : notBefore.isAfter(now) ? TaskState.SCHEDULED : TaskState.READY;
        return info(row, state, notBefore, null, null, null);
    }

    private static TaskInfo info(Row row, TaskState state, Instant notBefore, Instant leaseUntil, String worker,
            Progress progress) {
        return new TaskInfo(row.task(), state, row.waits(), notBefore, leaseUntil, worker, progress, row.replaced(),
                row.cancelled(), row.error(), row.past(), null);
    }

    /** A finished task that is kept. */
    static TaskInfo finished(String id, byte[] bytes) {
        Packed packed = new Packed(bytes);
        Packed.Fields end = packed.fields(Contract.FINISHED_LAYOUT);
        byte[] result = packed.sized(Contract.RESULT_LENGTH_BYTES);
        byte[] run = packed.sized(Contract.RUN_LENGTH_BYTES);
        Row row = row(id, packed.rest(), run);
        Finished finished = new Finished(Times.instant(end.number("finished")),
                Answer.constant(Finish.class, Contract.TASK_END, end.number("how")),
                result.length == 0 ? null : body(new Packed(result)));
        return new TaskInfo(row.task(), TaskState.DONE, false, null, null, row.leased() ? row.worker() : null, null, false,
                false, row.error(), row.past(), finished);
    }

    /** A finished task that another one waited for. */
    static Waited waited(String id, byte[] bytes) {
        Packed packed = new Packed(bytes);
        Packed.Fields fields = packed.fields(Contract.FINISHED_LAYOUT);
        TaskEnd end = Answer.constant(TaskEnd.class, Contract.TASK_END, fields.number("how"));
        Instant at = Times.instant(fields.number("finished"));
        if (end == TaskEnd.DEAD) {
            return new Waited(id, end, at, null, packed.restText());
        }
        return new Waited(id, end, at, packed.isEmpty() ? null : body(packed), null);
    }

    static DeadLetter dead(String id, byte[] bytes) {
        Packed packed = new Packed(bytes);
        Packed.Fields fields = packed.fields(Contract.DEAD_LETTER_LAYOUT);
        String error = packed.text(Contract.DEAD_LETTER_ERROR_LENGTH_BYTES);
        List<PastRun> past = fields.has("priority", Contract.PRIORITY_PAST) ? past(packed) : List.of();
        String key = fields.has("priority", Contract.PRIORITY_KEYED) ? packed.text(Contract.KEY_LENGTH_BYTES) : null;
        return new DeadLetter(id, body(packed), fields.small("priority") % Contract.PRIORITY_KEYED, fields.small("attempts"),
                fields.small("max_attempts"), error, Times.instant(fields.number("died")), key, past);
    }

    static Schedule schedule(String id, byte[] bytes) {
        Packed packed = new Packed(bytes);
        Packed.Fields fields = packed.fields(Contract.SCHEDULE_LAYOUT);
        Recurrence recurrence = recurrence(packed.text(Contract.RECURRENCE_LENGTH_BYTES));
        Instant next = Times.optionalInstant(fields.number("next"));
        boolean paused = fields.number("paused") == 1;
        List<Instant> upcoming = paused || next == null ? List.of() : Occurrences.upcoming(recurrence, next);
        return new Schedule(id, recurrence, body(packed), fields.small("priority"), fields.small("max_attempts"), next, upcoming,
                Times.optionalInstant(fields.number("previous")), paused, fields.number("revision"));
    }

    static WorkerInfo worker(String id, byte[] bytes) {
        Packed packed = new Packed(bytes);
        Packed.Fields fields = packed.fields(Contract.WORKER_LAYOUT);
        String name = packed.text(Contract.NAME_LENGTH_BYTES);
        WorkerMode mode = Answer.constant(WorkerMode.class, Contract.WORKER_MODE, fields.number("mode"));
        return new WorkerInfo(id, name, packed.restText(), fields.small("concurrency"), fields.small("running"),
                Times.instant(fields.number("since")), Times.instant(fields.number("seen")),
                Times.instant(fields.number("lease_until")), mode);
    }

    /** A stored recurrence. Null if this package cannot read it. */
    static Recurrence recurrence(String text) {
        try {
            return recurrence((Map<?, ?>) Json.read(text));
        } catch (RuntimeException unknown) {
            return null;
        }
    }

    /** A recurrence as JSON. */
    static Recurrence recurrence(Map<?, ?> json) {
        Object every = json.get("every_ms");
        Object missed = json.get("missed");
        return new Recurrence((String) json.get("cron"), (String) json.get("zone"),
                every == null ? null : Duration.ofMillis(((Number) every).longValue()),
                missed == null ? Missed.ONCE : Missed.valueOf(((String) missed).toUpperCase(Locale.ROOT)));
    }
}
