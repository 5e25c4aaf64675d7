package dev.rushgate.internal.http;

import dev.rushgate.DeadLetter;
import dev.rushgate.Enqueued;
import dev.rushgate.Finish;
import dev.rushgate.Finished;
import dev.rushgate.IfDead;
import dev.rushgate.InvalidException;
import dev.rushgate.KeyLimits;
import dev.rushgate.Missed;
import dev.rushgate.Overflow;
import dev.rushgate.PastEnd;
import dev.rushgate.PastRun;
import dev.rushgate.Progress;
import dev.rushgate.QueueLimits;
import dev.rushgate.QueueStats;
import dev.rushgate.Rate;
import dev.rushgate.Recurrence;
import dev.rushgate.Retention;
import dev.rushgate.Retried;
import dev.rushgate.Running;
import dev.rushgate.Schedule;
import dev.rushgate.Scheduled;
import dev.rushgate.Task;
import dev.rushgate.TaskEnd;
import dev.rushgate.TaskInfo;
import dev.rushgate.TaskState;
import dev.rushgate.Waited;
import dev.rushgate.Why;
import dev.rushgate.WorkerInfo;
import dev.rushgate.WorkerMode;
import java.util.List;

/** Objects of the HTTP API that describe queues. */
final class Views {
    private Views() {}

    static Enqueued enqueued(Wire view) {
        return switch (view.variant("outcome")) {
            case "added" -> new Enqueued.Added(view.number("revision"));
            case "kept" -> new Enqueued.Kept(view.number("revision"));
            case "replaced" -> new Enqueued.Replaced(view.number("revision"));
            case "displaced" -> new Enqueued.Displaced(view.number("revision"), view.text("dropped"));
            case "full" -> new Enqueued.Full(view.number("bound"));
            case "dropped" -> new Enqueued.Dropped(view.number("bound"));
            case "recent" -> new Enqueued.Recent(view.instant("until_us"));
            default -> new Enqueued.Refused(view.text("task"), view.constant(Enqueued.Why.class, "why"));
        };
    }

    static Retried retried(Wire view) {
        return switch (view.variant("outcome")) {
            case "scheduled" -> new Retried.Scheduled(view.instant("due_us"));
            case "dead" -> new Retried.Dead();
            case "requeued" -> new Retried.Requeued();
            case "cancelled" -> new Retried.Cancelled();
            default -> new Retried.Stale();
        };
    }

    static Scheduled scheduled(Wire view) {
        return switch (view.variant("outcome")) {
            case "added" -> new Scheduled.Added(view.number("revision"));
            case "changed" -> new Scheduled.Changed(view.number("revision"));
            default -> new Scheduled.Unchanged(view.number("revision"));
        };
    }

    static Task task(Wire view) {
        return new Task(view.text("id"), view.text("ticket"), view.instant("due_us"), view.number("revision"),
                view.optionalNumber("fence"), view.optionalInstant("claimed_us"), view.content(), view.small("priority"),
                view.small("attempt"), view.small("max_attempts"), view.text("key"), view.optionalInstant("deadline_us"));
    }

    static TaskInfo info(Wire view) {
        return new TaskInfo(task(view), view.constant(TaskState.class, "state"), view.is("waits"),
                view.optionalInstant("not_before_us"), view.optionalInstant("lease_until_us"), view.text("worker"),
                progress(view.optionalObject("progress")), view.is("replaced"), view.is("cancelled"), view.text("error"),
                view.list("past", Views::past), finished(view.optionalObject("finished")));
    }

    private static Progress progress(Wire view) {
        return view == null ? null : new Progress(view.optionalSmall("percent"), view.has("note") ? view.text("note") : "");
    }

    private static PastRun past(Wire view) {
        return new PastRun(view.small("attempt"), view.instant("began_us"), view.instant("ended_us"),
                view.constant(PastEnd.class, "how"), view.text("worker"), view.text("error"));
    }

    private static Finished finished(Wire view) {
        if (view == null) {
            return null;
        }
        Wire result = view.optionalObject("result");
        return new Finished(view.instant("at_us"), view.constant(Finish.class, "how"), result == null ? null : result.content());
    }

    static Waited waited(Wire view) {
        Wire result = view.optionalObject("result");
        return new Waited(view.text("id"), view.constant(TaskEnd.class, "end"), view.instant("at_us"),
                result == null ? null : result.content(), view.text("error"));
    }

    static DeadLetter dead(Wire view) {
        return new DeadLetter(view.text("id"), view.content(), view.small("priority"), view.small("attempts"),
                view.small("max_attempts"), view.text("error"), view.instant("died_us"), view.text("key"),
                view.list("past", Views::past));
    }

    static QueueStats stats(Wire view) {
        return new QueueStats(view.text("queue"), view.number("ready"), view.number("scheduled"), view.number("leased"),
                view.number("blocked"), view.number("dead"), view.number("done"), view.number("dropped"),
                view.millis("lag_ms"), view.optionalInstant("rate_until_us"), view.optionalInstant("last_claim_us"),
                view.is("paused"), limits(view.object("limits")));
    }

    private static QueueLimits limits(Wire view) {
        Wire perKey = view.optionalObject("per_key");
        Wire kept = view.optionalObject("retention");
        return new QueueLimits(view.optionalNumber("bound"),
                view.has("overflow") ? view.constant(Overflow.class, "overflow") : Overflow.REFUSE,
                view.optionalSmall("concurrency"), rate(view.optionalObject("rate")),
                perKey == null ? KeyLimits.NONE : new KeyLimits(perKey.optionalSmall("concurrency"),
                        rate(perKey.optionalObject("rate")), perKey.is("fifo")),
                kept == null ? null : new Retention(kept.millis("age_ms"), kept.small("count")), view.optionalSmall("events"));
    }

    private static Rate rate(Wire view) {
        return view == null ? null : new Rate(view.small("n"), view.millis("per_ms"));
    }

    static Schedule schedule(Wire view) {
        return new Schedule(view.text("id"), recurrence(view.object("recurrence")), view.content(), view.small("priority"),
                view.small("max_attempts"), view.optionalInstant("next_us"), view.instants("upcoming_us"),
                view.optionalInstant("previous_us"), view.is("paused"), view.number("revision"));
    }

    static WorkerInfo worker(Wire view) {
        return new WorkerInfo(view.text("id"), view.text("name"), view.text("version"), view.small("concurrency"),
                view.small("running"), view.instant("since_us"), view.instant("seen_us"), view.instant("lease_until_us"),
                view.constant(WorkerMode.class, "mode"));
    }

    /** A recurrence. Null if this package cannot read it. */
    private static Recurrence recurrence(Wire view) {
        try {
            return new Recurrence(view.text("cron"), view.text("zone"), view.has("every_ms") ? view.millis("every_ms") : null,
                    view.has("missed") ? view.constant(Missed.class, "missed") : Missed.ONCE);
        } catch (InvalidException unknown) {
            return null;
        }
    }

    private static Running running(Wire view) {
        return new Running(view.text("id"), view.text("worker"), view.instant("lease_until_us"));
    }

    static Why why(Wire view) {
        return switch (view.variant("reason")) {
            case "running" -> new Why.Busy(view.text("worker"), view.small("attempt"), view.number("fence"),
                    view.instant("lease_until_us"), view.millis("lease_left_ms"), view.is("cancelled"), view.is("replaced"));
            case "paused" -> new Why.Paused();
            case "not_due" -> new Why.NotDue(view.instant("due_us"), view.millis("wait_ms"), view.small("attempts"),
                    view.small("max_attempts"), view.text("error"));
            case "queue_busy" -> new Why.QueueBusy(view.small("concurrency"), view.list("running", Views::running));
            case "rate_limited" -> new Why.RateLimited(view.text("key"), view.instant("until_us"), view.millis("wait_ms"));
            case "key_busy" -> new Why.KeyBusy(view.text("key"), view.list("running", Views::running));
            case "in_line" -> new Why.InLine(view.text("key"), view.text("first"));
            case "waits_for" -> waitsFor(view);
            case "waiting" -> new Why.Waiting(view.optionalSmall("ahead"), view.number("leased"), view.millis("due_for_ms"),
                    view.optionalInstant("last_claim_us"));
            case "deadline" -> new Why.Deadline(view.instant("deadline_us"), view.millis("left_ms"));
            case "dead" -> new Why.Dead(view.small("attempts"), view.small("max_attempts"), view.text("error"),
                    view.instant("died_us"));
            case "done" -> new Why.Done(view.constant(Finish.class, "how"), view.instant("finished_us"), view.text("worker"));
            case "unique" -> new Why.Unique(view.instant("until_us"), view.millis("left_ms"));
            default -> new Why.Unknown();
        };
    }

    private static Why waitsFor(Wire view) {
        List<Why.Dependency> first =
                view.list("first", other -> new Why.Dependency(other.text("id"), other.text("error")));
        return new Why.WaitsFor(view.number("left"), view.number("dead"), first, view.constant(IfDead.class, "if_dead"),
                view.is("open"));
    }
}
