package dev.rushgate.internal.redis;

import dev.rushgate.Contract;
import dev.rushgate.DeadLetter;
import dev.rushgate.Ended;
import dev.rushgate.KeyLimits;
import dev.rushgate.QueueStats;
import dev.rushgate.Running;
import dev.rushgate.Task;
import dev.rushgate.TaskInfo;
import dev.rushgate.TaskState;
import dev.rushgate.Why;
import dev.rushgate.internal.Times;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.function.Predicate;

/** Explains why a task is not running: the same reasons, in the same order, as the library and the HTTP API. */
final class WhyReader {
    private final RedisQueues queues;
    private final Store store;
    private final String queue;

    WhyReader(RedisQueues queues, Store store, String queue) {
        this.queues = queues;
        this.store = store;
        this.queue = queue;
    }

    List<Why> explain(String id) {
        for (int tries = 0; tries < Contract.WHY_TRIES; tries++) {
            List<Why> reasons = once(id);
            if (!reasons.isEmpty()) {
                return reasons;
            }
            // No reason found: the task changed its state between two reads.
        }
        return List.of(new Why.Unknown());
    }

    private List<Why> once(String id) {
        RedisQueues.Tasks read = queues.tasks(queue, List.of(id));
        Optional<TaskInfo> found = read.tasks().stream().filter(info -> info.state() != TaskState.DONE).findFirst();
        if (found.isEmpty()) {
            return over(id, read.now());
        }
        TaskInfo info = found.get();
        List<Why> reasons = info.state() == TaskState.LEASED ? new ArrayList<>(List.of(busy(info, read.now())))
                : waiting(info, read.now());
        Instant deadline = info.task().deadline();
        if (!reasons.isEmpty() && deadline != null) {
            reasons.add(new Why.Deadline(deadline, Times.since(read.now(), deadline)));
        }
        return reasons;
    }

    private List<Why> over(String id, Instant now) {
        Optional<Ended> ended = queues.ended(queue, id);
        if (ended.isEmpty()) {
            return List.of();
        }
        List<Why> reasons = new ArrayList<>();
        if (ended.get() instanceof Ended.Finished finished) {
            TaskInfo task = finished.task();
            reasons.add(new Why.Done(task.finished().how(), task.finished().at(), task.worker()));
        } else if (ended.get() instanceof Ended.Dead dead) {
            int most = queues.deadLetter(queue, id).map(DeadLetter::maxAttempts).orElse(dead.attempts());
            reasons.add(new Why.Dead(dead.attempts(), most, dead.error(), dead.died()));
        }
        Instant until = queues.uniqueUntil(queue, id);
        if (until != null && until.isAfter(now)) {
            reasons.add(new Why.Unique(until, Times.since(now, until)));
        }
        return reasons.isEmpty() ? List.of(new Why.Unknown()) : reasons;
    }

    private List<Why> waiting(TaskInfo info, Instant now) {
        QueueStats stats = queues.stats(queue);
        List<Why> reasons = general(stats, now);
        switch (info.state()) {
            case SCHEDULED -> reasons.add(notYet(info, now));
            case BLOCKED -> reasons.addAll(info.waits() ? waitsFor(info, now) : blocked(info, stats));
            default -> {
                if (reasons.isEmpty()) {
                    reasons.addAll(ready(info, stats, now));
                }
            }
        }
        return reasons;
    }

    private List<Why> general(QueueStats stats, Instant now) {
        List<Why> reasons = new ArrayList<>();
        if (stats.paused()) {
            reasons.add(new Why.Paused());
        }
        Integer most = stats.limits().concurrency();
        if (most != null && stats.leased() >= most) {
            reasons.add(new Why.QueueBusy(most, running(leased(Contract.WHY_RUNNING))));
        }
        if (stats.rateUntil() != null) {
            reasons.add(new Why.RateLimited(null, stats.rateUntil(), Times.since(now, stats.rateUntil())));
        }
        return reasons;
    }

    private List<Why> ready(TaskInfo info, QueueStats stats, Instant now) {
        List<String> first = queues.top(queue, Contract.WHY_AHEAD).stream().map(Task::id).toList();
        int place = first.indexOf(info.task().id());
        if (place < 0 && first.size() < Contract.WHY_AHEAD) {
            return List.of();
        }
        Instant since = info.notBefore() == null ? info.task().due() : info.notBefore();
        return List.of(new Why.Waiting(place < 0 ? null : place, stats.leased(), Times.since(since, now), stats.lastClaim()));
    }

    private List<Why> waitsFor(TaskInfo info, Instant now) {
        List<Why> reasons = new ArrayList<>();
        Optional<Why.WaitsFor> waits = queues.waits(queue, info.task().id());
        if (waits.isEmpty()) {
            return reasons;
        }
        waits.filter(one -> one.open() || one.left() > 0).ifPresent(reasons::add);
        if (info.task().due().isAfter(now)) {
            reasons.add(notYet(info, now));
        }
        return reasons;
    }

    private List<Why> blocked(TaskInfo info, QueueStats stats) {
        String key = info.task().key();
        if (key == null) {
            return List.of();
        }
        KeyLimits perKey = stats.limits().perKey();
        Integer most = perKey.fifo() ? Integer.valueOf(1) : perKey.concurrency();
        if (most != null) {
            List<TaskInfo> others = leased(Contract.WHY_LISTED).stream()
                    .filter(other -> key.equals(other.task().key())).toList();
            if (others.size() >= most) {
                return List.of(new Why.KeyBusy(key, running(others)));
            }
        }
        return List.of(new Why.InLine(key, firstOf(key, info.task().priority()).orElse(null)));
    }

    /** The first task of a key group: it may be due, or wait for its next attempt. */
    private Optional<String> firstOf(String key, int priority) {
        Predicate<Task> isFirst = task -> Objects.equals(task.key(), key) && task.priority() == priority;
        Optional<Task> due = queues.top(queue, Contract.WHY_AHEAD).stream().filter(isFirst).findFirst();
        return due.or(() -> waitingTasks(priority).stream().map(TaskInfo::task).filter(isFirst).findFirst()).map(Task::id);
    }

    /** A scheduled task is not due, or the rate limit of its key does not allow it yet. */
    private static Why notYet(TaskInfo info, Instant now) {
        Task task = info.task();
        if (info.notBefore() != null && info.notBefore().isAfter(task.due())) {
            return new Why.RateLimited(task.key(), info.notBefore(), Times.since(now, info.notBefore()));
        }
        return new Why.NotDue(task.due(), Times.since(now, task.due()), task.attempt(), task.maxAttempts(), info.error());
    }

    private static Why busy(TaskInfo info, Instant now) {
        return new Why.Busy(info.worker(), info.task().attempt(), info.task().fence(), info.leaseUntil(),
                Times.since(now, info.leaseUntil()), info.cancelled(), info.replaced());
    }

    private static List<Running> running(List<TaskInfo> tasks) {
        return tasks.stream().limit(Contract.WHY_RUNNING)
                .map(info -> new Running(info.task().id(), info.worker(), info.leaseUntil())).toList();
    }

    private List<TaskInfo> leased(int most) {
        return listed(Contract.LEASES_KEY, Contract.LEASES_HEAD_BYTES, most).stream()
                .filter(info -> info.state() == TaskState.LEASED).toList();
    }

    /** Tasks of one priority that can be claimed now or later, and the first of each key. */
    private List<TaskInfo> waitingTasks(int priority) {
        return listed(Contract.WAITING_KEY + priority, Contract.WAITING_HEAD_BYTES, Contract.WHY_LISTED);
    }

    private List<TaskInfo> listed(String ending, int head, int most) {
        Answer answer = new Answer(store.read("ZRANGE", Group.queue(queue).key(ending), "0", Integer.toString(most - 1)));
        List<String> ids = new ArrayList<>();
        while (!answer.isEmpty()) {
            byte[] member = answer.bytes();
            ids.add(new String(member, head, member.length - head, StandardCharsets.UTF_8));
        }
        List<TaskInfo> tasks = new ArrayList<>();
        int part = (int) Contract.BATCH.max();
        for (int from = 0; from < ids.size(); from += part) {
            tasks.addAll(queues.tasks(queue, ids.subList(from, Math.min(ids.size(), from + part))).tasks());
        }
        return tasks;
    }
}
