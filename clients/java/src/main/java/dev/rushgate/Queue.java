package dev.rushgate;

import dev.rushgate.internal.Check;
import dev.rushgate.internal.Host;
import dev.rushgate.internal.Transport;
import dev.rushgate.internal.Transport.ClaimRequest;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Optional;

/**
 * A durable task queue. A task runs at least once, and a queue has at most one live task per ID.
 *
 * <p>Any number of threads may share it.
 */
public final class Queue {
    private final Transport.Queues queues;
    private final String name;

    Queue(Transport transport, String name) {
        queues = transport.queues();
        this.name = Check.name("queue", name);
    }

    /** Name of the queue. */
    public String name() {
        return name;
    }

    Transport.Queues queues() {
        return queues;
    }

    /** Enqueues a task with default settings. */
    public Enqueued enqueue(String id, Content content) {
        return enqueue(NewTask.of(id, content));
    }

    /** Enqueues a task. */
    public Enqueued enqueue(NewTask task) {
        return enqueueAll(List.of(Check.present("task", task))).get(0);
    }

    /** Enqueues 1 to 1,000 tasks in one atomic step, in this order. Returns one outcome per task. */
    public List<Enqueued> enqueueAll(List<NewTask> tasks) {
        return queues.enqueue(name, Check.list("tasks", tasks, Contract.BATCH));
    }

    /** Claims one due task under a lease of 30 s, and waits for it up to 24 h. Nothing if none is due by then. */
    public Optional<ClaimedTask> claim(Duration wait) {
        return claim(ClaimOptions.DEFAULTS.waitUpTo(wait)).stream().findFirst();
    }

    /**
     * Claims due tasks under a lease, and waits for the first one. Throws {@link WaitInterruptedException} if the thread is
     * interrupted while it waits.
     */
    public List<ClaimedTask> claim(ClaimOptions options) {
        Check.present("options", options);
        String worker = options.worker() == null ? defaultWorker() : options.worker();
        List<Task> tasks = queues.claim(name, new ClaimRequest(options.n(), options.lease(), options.longestWait(), worker));
        return tasks.stream().map(task -> new ClaimedTask(this, options.lease(), task)).toList();
    }

    /** The first due tasks, at most {@code n} (1 to 1,000), without claiming them. */
    public List<Task> top(int n) {
        Check.whole("n", n, Contract.BATCH);
        return queues.top(name, n);
    }

    /** Removes the first due tasks, at most {@code n} (1 to 1,000). They are lost if the program dies, so prefer a claim. */
    public List<Task> pop(int n) {
        Check.whole("n", n, Contract.BATCH);
        return queues.pop(name, n);
    }

    /** Removes a task if it is unchanged since it was read with this ticket. False if it was changed, or a worker is running it. */
    public boolean dequeue(String ticket) {
        return queues.dequeue(name, Check.present("ticket", ticket));
    }

    static String defaultWorker() {
        return Check.cut(Host.NAME + ":" + Host.PID, Contract.LABEL_BYTES);
    }

    /** A live or retained task. */
    public Optional<TaskInfo> task(String id) {
        return queues.task(name, Check.name("id", id));
    }

    /** Cancels a task: removes it, or marks it if it is running, so that its worker stops it. */
    public Cancelled cancel(String id) {
        return queues.cancel(name, Check.name("id", id));
    }

    /**
     * Makes a waiting task due after a delay of 0 to 400 days from now, earlier or later than before. Everything else about the
     * task stays. Over HTTP, the delay is in whole ms.
     */
    public Rescheduled reschedule(String id, Duration delay) {
        Check.micros("delay", delay, Contract.DELAY_US);
        return queues.reschedule(name, Check.name("id", id), delay, null);
    }

    /** Makes a waiting task due at a moment from 1970 on, earlier or later than before. Everything else about the task stays. */
    public Rescheduled reschedule(String id, Instant due) {
        Check.optionalMoment("due", Check.present("due", due));
        return queues.reschedule(name, Check.name("id", id), null, due);
    }

    /**
     * Waits up to 24 h until a task has ended. Nothing if it is live after the wait. Throws {@link InvalidException} if the
     * queue has no retention, and {@link WaitInterruptedException} if the thread is interrupted.
     */
    public Optional<Ended> waitFor(String id, Duration wait) {
        Check.micros("wait", wait, Contract.WAIT_US);
        return queues.waitFor(name, Check.name("id", id), wait);
    }

    /** Reasons why a task is not running: at least one, and the one that must end first comes first. */
    public List<Why> why(String id) {
        return queues.why(name, Check.name("id", id));
    }

    /** Closes an open batch: its callback runs when all members have finished. */
    public Closed closeBatch(String id) {
        return queues.closeBatch(name, Check.name("id", id));
    }

    /**
     * IDs of at most {@code n} live tasks (1 to 1,000) that still wait for a task: by their policy for a dead dependency, then by
     * arrival.
     */
    public List<String> dependents(String id, int n) {
        Check.whole("n", n, Contract.BATCH);
        return queues.dependents(name, Check.name("id", id), n);
    }

    /** Finished tasks that a live task waited for, by ID, with their results. A page has 1 to 100 of them. */
    public List<Waited> waited(String id, Page page) {
        return queues.waited(name, Check.name("id", id), checked(page, Contract.WAITED_PAGE));
    }

    /**
     * Clears the uniqueness window of an ID, which may then be enqueued again. Returns when the window would have ended. Empty if
     * there is none.
     */
    public Optional<Instant> clearUnique(String id) {
        return queues.clearUnique(name, Check.name("id", id));
    }

    /** Task counts, lag and limits. */
    public QueueStats stats() {
        return queues.stats(name);
    }

    /** Sets the limits of the queue. A limit that is absent does not apply from now on. */
    public void limit(QueueLimits limits) {
        queues.limit(name, Check.present("limits", limits));
    }

    /** Pauses the queue: workers get no tasks from it. */
    public void pause() {
        queues.pause(name, true);
    }

    /** Resumes the queue. */
    public void resume() {
        queues.pause(name, false);
    }

    /** Dead letters by ID. A page has 1 to 1,000 of them. */
    public List<DeadLetter> dead(Page page) {
        return queues.dead(name, checked(page, Contract.DEAD_PAGE));
    }

    /** Requeues 1 to 1,000 dead letters, due at once. */
    public DeadRequeued requeueDead(List<String> ids) {
        return queues.requeueDead(name, checked(ids));
    }

    /** Requeues all dead letters, due at once. */
    public DeadRequeued requeueAllDead() {
        return queues.requeueDead(name, List.of());
    }

    /** Deletes 1 to 1,000 dead letters. Returns how many there were. */
    public long deleteDead(List<String> ids) {
        return queues.deleteDead(name, checked(ids));
    }

    /** Deletes all dead letters. Returns how many there were. */
    public long deleteAllDead() {
        return queues.deleteDead(name, List.of());
    }

    /** Creates or changes a schedule, whose ID has at most 170 bytes. Saving the same settings again changes nothing. */
    public Scheduled saveSchedule(String id, NewSchedule schedule) {
        String checked = Check.name("id", id, Contract.SCHEDULE_ID_BYTES);
        return queues.saveSchedule(name, checked, Check.present("schedule", schedule));
    }

    /** Schedules by ID. A page has 1 to 10,000 of them. */
    public List<Schedule> schedules(Page page) {
        return queues.schedules(name, checked(page, Contract.SCHEDULES_PAGE));
    }

    /** Deletes a schedule. False if it does not exist. Tasks that it enqueued stay. */
    public boolean deleteSchedule(String id) {
        return queues.deleteSchedule(name, Check.name("id", id, Contract.SCHEDULE_ID_BYTES));
    }

    /** Workers that run, busy or idle, by ID. A page has 1 to 10,000 of them. */
    public List<WorkerInfo> workers(Page page) {
        return queues.workers(name, checked(page, Contract.WORKERS_PAGE));
    }

    /**
     * Asks a worker to work, to claim nothing from this queue, or to stop, for operators. The worker obeys within 10 s. False if it
     * is not listed.
     */
    public boolean setWorker(String id, WorkerMode mode) {
        return queues.setWorker(name, Check.name("id", id), Check.present("mode", mode));
    }

    private static Page checked(Page page, Contract.Range range) {
        Check.whole("limit", Check.present("page", page).limit(), range);
        return page.after().isEmpty() ? page : new Page(Check.name("after", page.after()), page.limit());
    }

    private static List<String> checked(List<String> ids) {
        return Check.names("ids", Check.list("ids", ids, Contract.BATCH), (int) Contract.BATCH.max());
    }
}
