package dev.rushgate;

import dev.rushgate.internal.Check;
import dev.rushgate.internal.ErrorText;
import dev.rushgate.internal.Transport.Completion;
import dev.rushgate.internal.Transport.Failure;
import dev.rushgate.internal.Transport.Heartbeat;
import dev.rushgate.internal.Transport.Release;
import java.time.Duration;
import java.util.List;

/** A claimed task. End it before its lease expires; otherwise another worker gets it. Any thread may end it. */
public final class ClaimedTask {
    private final Queue queue;
    private final Duration lease;
    private final Task task;

    ClaimedTask(Queue queue, Duration lease, Task task) {
        this.queue = queue;
        this.lease = lease;
        this.task = task;
    }

    /** The task. */
    public Task task() {
        return task;
    }

    /** ID of the task. */
    public String id() {
        return task.id();
    }

    /** Content of the task. */
    public Content content() {
        return task.content();
    }

    /** Fencing token of the claim. It only grows within a queue: use it to fence the writes of the task. */
    public long fence() {
        return task.fence();
    }

    /** Completes the task. */
    public Completed complete() {
        return complete(new Completion(task.ticket(), null, false));
    }

    /** Completes the task with a result of at most 64 KiB, which is kept if the queue has a retention. */
    public Completed complete(Content result) {
        return complete(new Completion(task.ticket(), checkedResult(Check.present("result", result)), false));
    }

    static Content checkedResult(Content result) {
        Check.bytes("result", result.size(), Contract.RESULT_BYTES);
        return result;
    }

    /** Completes the task without work, because there is nothing to do. */
    public Completed discard() {
        return complete(new Completion(task.ticket(), null, true));
    }

    private Completed complete(Completion end) {
        return queue.queues().complete(queue.name(), List.of(end)).get(0);
    }

    /**
     * Fails the attempt. The task is due again after a delay of 0 to 400 days. After its last attempt it becomes a dead
     * letter. The error is cut to 2,000 bytes.
     */
    public Retried retry(String error, Duration delay) {
        Check.micros("delay", delay, Contract.DELAY_US);
        return retry(new Failure(task.ticket(), delay, ErrorText.of(error), false));
    }

    /** Fails the task for good: it becomes a dead letter now. The error is cut to 2,000 bytes. */
    public Retried giveUp(String error) {
        return retry(new Failure(task.ticket(), Duration.ZERO, ErrorText.of(error), true));
    }

    private Retried retry(Failure end) {
        return queue.queues().retry(queue.name(), List.of(end)).get(0);
    }

    /** Returns the task to the queue, due at once. The attempt does not count. */
    public TaskReleased release() {
        return release(Duration.ZERO);
    }

    /** Returns the task to the queue, due after a delay of 0 to 400 days. The attempt does not count. */
    public TaskReleased release(Duration delay) {
        Check.micros("delay", delay, Contract.DELAY_US);
        return queue.queues().release(queue.name(), List.of(new Release(task.ticket(), delay))).get(0);
    }

    /** Extends the lease to that of the claim from now. */
    public TaskExtended extend() {
        return extend(lease, null);
    }

    /** Extends the lease to 10 ms to 24 h from now, and stores progress unless it is null. */
    public TaskExtended extend(Duration lease, Progress progress) {
        Check.micros("lease", lease, Contract.LEASE_US);
        return queue.queues().extend(queue.name(), List.of(new Heartbeat(task.ticket(), progress)), lease).get(0);
    }
}
