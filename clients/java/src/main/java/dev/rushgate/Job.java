package dev.rushgate;

import dev.rushgate.internal.Check;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicReference;

/** One claimed task, as its handler gets it. */
public final class Job {
    private final Queue queue;
    private final Task task;
    private final AtomicReference<RushgateException> stop = new AtomicReference<>();
    private final AtomicReference<Progress> progress = new AtomicReference<>();

    Job(Queue queue, Task task) {
        this.queue = queue;
        this.task = task;
    }

    /** ID of the task. It is the same for every attempt. */
    public String id() {
        return task.id();
    }

    /** Name of the queue. */
    public String queue() {
        return queue.name();
    }

    /** Content of the task. */
    public Content content() {
        return task.content();
    }

    /** Kind of the task, or null. */
    public String kind() {
        return task.content().kind();
    }

    /** Content as JSON, as {@link Content#json()} returns it. Content that is not JSON fails the attempt. */
    public Object json() {
        return task.content().json();
    }

    /** Fencing token of the claim. It only grows within a queue: use it to fence the writes of the task. */
    public long fence() {
        return task.fence();
    }

    /** Number of times that the task was claimed, this claim included. */
    public int attempt() {
        return task.attempt();
    }

    /** Maximum number of attempts. */
    public int maxAttempts() {
        return task.maxAttempts();
    }

    /** Key that tasks share, or null. */
    public String key() {
        return task.key();
    }

    /** Deadline, or null. */
    public Instant deadline() {
        return task.deadline();
    }

    /** Whether the handler must stop. Its thread is interrupted too. */
    public boolean isStopped() {
        return stop.get() != null;
    }

    /**
     * Throws the reason if the handler must stop: {@link ClaimLostException}, {@link TaskCanceledException},
     * {@link HandlerTimeoutException}, or {@link ClosedException} at the end of the grace of a stopped worker.
     */
    public void checkStopped() {
        RushgateException reason = stop.get();
        if (reason != null) {
            throw reason;
        }
    }

    /** Reports progress, which operators see after the next heartbeat. */
    public void progress(Progress progress) {
        this.progress.set(Check.present("progress", progress));
    }

    /** Results of the tasks that this task waited for, by ID. */
    public List<Waited> results() {
        List<Waited> results = new ArrayList<>();
        int limit = (int) Contract.WAITED_PAGE.max();
        List<Waited> page;
        do {
            String after = results.isEmpty() ? "" : results.get(results.size() - 1).id();
            page = queue.waited(id(), new Page(after, limit));
            results.addAll(page);
        } while (page.size() == limit);
        return results;
    }

    /** Sets the reason for which the handler must stop. False if it has one already. */
    boolean stop(RushgateException reason) {
        return stop.compareAndSet(null, reason);
    }

    /** Progress that no heartbeat has sent yet, or null. */
    Progress takeProgress() {
        return progress.getAndSet(null);
    }

    /** Keeps progress for the next heartbeat, unless there is newer one. */
    void putBack(Progress unsent) {
        progress.compareAndSet(null, unsent);
    }
}
