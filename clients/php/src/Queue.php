<?php

declare(strict_types=1);

namespace Rushgate;

use Rushgate\Exception\Dead;
use Rushgate\Exception\InvalidArgument;
use Rushgate\Exception\NotFound;
use Rushgate\Exception\QueueFull;
use Rushgate\Exception\Refused;
use Rushgate\Exception\Stale;
use Rushgate\Exception\Unmet;
use Rushgate\Internal\Checks;
use Rushgate\Internal\Clock;
use Rushgate\Internal\Limits;
use Rushgate\Internal\Presence;
use Rushgate\Transport\Transport;

/**
 * A queue of tasks. A task runs at least once.
 *
 * Durations are in seconds; moments are µs since 1970 on the store's clock.
 */
final class Queue
{
    /** Most dependencies of all tasks of one call. */
    private const DEPENDENCIES_PER_CALL = 10_000;

    /** @internal */
    public function __construct(private readonly Transport $store, public readonly string $name)
    {
    }

    /**
     * The same queue over connections of its own, for use in a signal handler.
     *
     * @internal
     */
    public function twin(): self
    {
        return new self($this->store->twin(), $this->name);
    }

    /**
     * Announces a worker to this queue. Each announcement is sent once, because the next one repeats it.
     *
     * @internal
     */
    public function presence(?string $worker): Presence
    {
        return new Presence($this->store->twin(retryFor: 0), $this->name, self::workerName($worker));
    }

    /**
     * Fires due schedules, as {@see Transport\Transport::fireSchedules} does.
     *
     * @internal
     */
    public function fireSchedules(float $longest, \Closure $unreadable): ?float
    {
        return $this->store->fireSchedules($this->name, $longest, $unreadable);
    }

    /**
     * Enqueues a task. The arguments are those of {@see NewTask}.
     *
     * @throws QueueFull if the queue is at capacity
     * @throws Unmet if a dependency or the batch does not exist
     * @throws InvalidArgument if a value is out of range. Nothing was sent
     */
    public function enqueue(string $id, mixed $payload = null, mixed ...$options): Enqueued
    {
        [$enqueued] = $this->enqueueAll([new NewTask($id, $payload, ...$options)]);
        if ($enqueued->outcome === 'full') {
            throw new QueueFull("the queue `$this->name` is full", 'queue_full', ['bound' => $enqueued->bound]);
        }
        if ($enqueued->outcome === 'refused') {
            $details = ['task' => $enqueued->other, 'why' => $enqueued->why];
            throw new Unmet("`$id` cannot depend on `$enqueued->other`: $enqueued->why", 'unmet', $details);
        }
        return $enqueued;
    }

    /**
     * Enqueues 1 to 1,000 tasks in one atomic step. A task that cannot be enqueued has the outcome `full` or `refused`.
     *
     * @param non-empty-list<NewTask> $tasks
     * @return non-empty-list<Enqueued> in the order of the tasks
     */
    public function enqueueAll(array $tasks): array
    {
        Checks::batch('tasks', $tasks);
        $dependencies = array_sum(array_map(fn (NewTask $task) => count($task->after), $tasks));
        Checks::range('the number of dependencies', $dependencies, 0, self::DEPENDENCIES_PER_CALL);
        $outcome = fn (array $fields) => new Enqueued(
            $fields['outcome'],
            $fields['revision'] ?? null,
            $fields['bound'] ?? null,
            $fields['until_us'] ?? null,
            $fields['dropped'] ?? $fields['task'] ?? null,
            $fields['why'] ?? null,
        );
        return array_map($outcome, $this->store->enqueue($this->name, array_values($tasks)));
    }

    /**
     * Claims the first due tasks under a lease. End each of them, or another worker gets it when the lease expires.
     *
     * @param int $n maximum number: 1 to 1,000
     * @param int|float $lease 0.01 to 86,400. Default: 30
     * @param int|float $wait maximum wait for the first task. Default: 0
     * @param ?string $worker name of the worker, as shown to operators. Default: host and process ID
     * @param ?\Closure(): bool $stopped ends the wait when it returns true
     * @return list<Task>
     */
    public function claim(
        int $n = 1,
        int|float $lease = 30,
        int|float $wait = 0,
        ?string $worker = null,
        ?\Closure $stopped = null,
    ): array {
        return $this->tasks($this->store->claim(
            $this->name,
            Checks::range('the number of tasks', $n, ...Contract::BATCH),
            Checks::lease($lease),
            Checks::wait($wait),
            self::workerName($worker),
            $stopped,
        ));
    }

    /**
     * Reads the first due tasks without claiming them.
     *
     * @return list<Task>
     */
    public function top(int $n = 1): array
    {
        Checks::range('the number of tasks', $n, ...Contract::BATCH);
        return $this->tasks($this->store->top($this->name, $n));
    }

    /**
     * Removes the first due tasks. They are lost if the program dies: prefer {@see claim}.
     *
     * @return list<Task>
     */
    public function pop(int $n = 1): array
    {
        Checks::range('the number of tasks', $n, ...Contract::BATCH);
        return $this->tasks($this->store->pop($this->name, $n));
    }

    /**
     * Completes a task. A result is kept if the queue has a retention.
     *
     * @param Task|string $task a claimed task, or its ticket
     * @param mixed $result a {@see Payload} or a JSON value, at most 64 KiB; null for none
     * @return string `done`, or `requeued` if a pending replacement took over
     * @throws Stale if the claim has ended
     */
    public function complete(Task|string $task, mixed $result = null, bool $discarded = false): string
    {
        $result = self::result($result);
        [$outcome] = $this->store->complete($this->name, [self::ticket($task)], $result, $discarded);
        return self::notStale($outcome);
    }

    /**
     * Completes 1 to 1,000 tasks without results.
     *
     * @param non-empty-list<Task> $tasks
     * @return non-empty-list<string> `done`, `requeued` or `stale` for each task
     */
    public function completeAll(array $tasks): array
    {
        Checks::batch('tasks', $tasks);
        return $this->store->complete($this->name, array_map(self::ticket(...), array_values($tasks)), null, false);
    }

    /**
     * Fails an attempt. The task is due again after $delay, or becomes a dead letter after its last attempt.
     *
     * @param string $error why it failed, as shown to operators. Cut to 2,000 bytes
     * @param bool $giveUp makes the task a dead letter now
     * @return string `scheduled`, `dead`, `requeued` (a pending replacement took over) or `cancelled`
     * @throws Stale if the claim has ended
     */
    public function retry(Task|string $task, string $error, int|float $delay = 0, bool $giveUp = false): string
    {
        $delay = Checks::delay('the delay', $delay);
        return self::notStale($this->store->retry($this->name, self::ticket($task), $error, $delay, $giveUp));
    }

    /**
     * Returns a task to the queue. The attempt does not count.
     *
     * @return string `waiting` or `cancelled`
     * @throws Stale if the claim has ended
     */
    public function release(Task|string $task, int|float $delay = 0): string
    {
        $delay = Checks::delay('the delay', $delay);
        return self::notStale($this->store->release($this->name, [self::ticket($task)], $delay)[0]);
    }

    /**
     * Extends the lease of a task, and reports progress if $percent or $note is set.
     *
     * @param ?int $percent 0 to 100
     * @param ?string $note what the task is doing: at most 200 bytes
     * @return bool false if a client asked to cancel the task: stop, and complete it
     * @throws Stale if the claim has ended: stop
     */
    public function extend(Task|string $task, int|float $lease = 30, ?int $percent = null, ?string $note = null): bool
    {
        $percent === null || Checks::range('the percentage', $percent, ...Contract::PERCENT);
        $note === null || Checks::label('the note', $note);
        $lease = Checks::lease($lease);
        [$outcome] = $this->store->extend($this->name, [self::ticket($task)], $lease, $percent, $note);
        return self::notStale($outcome) === 'extended';
    }

    /**
     * Extends the leases of 1 to 1,000 tasks.
     *
     * @internal
     * @param non-empty-list<Task> $tasks
     * @return non-empty-list<string> `extended`, `cancelled` or `lost` for each task
     */
    public function extendAll(array $tasks, float $lease): array
    {
        return $this->store->extend($this->name, array_map(self::ticket(...), $tasks), $lease, null, null);
    }

    /**
     * Cancels a task: removes it, or asks its worker to stop.
     *
     * @return string `removed` or `marked`
     * @throws NotFound if no live task has the ID
     */
    public function cancel(string $id): string
    {
        $outcome = $this->store->cancel($this->name, Checks::name('the task ID', $id));
        return $outcome === 'not_found' ? throw $this->noTask($id) : $outcome;
    }

    /**
     * Changes when a waiting task is due, earlier or later. Everything else about the task stays.
     *
     * @param int|float|null $delay 0 to 400 days from now, in seconds. Over HTTP, rounded up to whole ms
     * @param ?int $dueUs moment at which the task is due, instead of $delay. Default: now
     * @return int when the task is due, in µs
     * @throws InvalidArgument if the new due time is not before the deadline of the task, which is `deadline_us` in the details
     * @throws NotFound if no live task has the ID
     * @throws Refused if a worker is running the task
     */
    public function reschedule(string $id, int|float|null $delay = null, ?int $dueUs = null): int
    {
        if ($delay !== null && $dueUs !== null) {
            throw Checks::invalid('the task', 'has a delay and a due time; set one of them');
        }
        $delay = Checks::delay('the delay', $delay ?? 0);
        $dueUs === null || Checks::range('the due time', $dueUs, ...Contract::MOMENT_US);
        $answer = $this->store->reschedule($this->name, Checks::name('the task ID', $id), $delay, $dueUs);
        return match ($answer['outcome']) {
            'rescheduled' => $answer['due_us'],
            'not_found' => throw $this->noTask($id),
            'leased' => throw new Refused("a worker is running the task `$id`", 'leased'),
            'too_late' => throw new InvalidArgument(
                'the new due time is not before the deadline of the task',
                'invalid',
                ['deadline_us' => $answer['deadline_us']],
            ),
        };
    }

    /** Removes a task if it is unchanged since it was read. False if it was changed, or a worker is running it. */
    public function dequeue(Task|string $task): bool
    {
        return $this->store->dequeue($this->name, self::ticket($task)) === 'removed';
    }

    /** Clears the uniqueness window of an ID. Returns when it would have ended, in µs; null if there was none. */
    public function clearUnique(string $id): ?int
    {
        return $this->store->clearUnique($this->name, Checks::name('the task ID', $id));
    }

    /**
     * Closes a batch: its callback runs when all members have finished.
     *
     * @return int number of tasks that it still waits for
     * @throws NotFound if no live task has the ID
     * @throws Refused if the task is not the callback of an open batch
     */
    public function closeBatch(string $id): int
    {
        $answer = $this->store->closeBatch($this->name, Checks::name('the task ID', $id));
        ['outcome' => $outcome, 'left' => $left] = $answer;
        return match ($outcome) {
            'closed' => $left,
            'not_found' => throw $this->noTask($id),
            'not_open' => throw new Refused("the batch `$id` is not open", 'not_open'),
        };
    }

    /** A live or retained task; null if there is none. */
    public function find(string $id): ?TaskInfo
    {
        $fields = $this->store->task($this->name, Checks::name('the task ID', $id));
        return $fields === null ? null : TaskInfo::fromFields($this, $fields);
    }

    /**
     * Waits until a task has finished. The queue needs a retention.
     *
     * @return ?TaskInfo the finished task; null if it has not finished within the wait
     * @throws Dead if the task is a dead letter
     * @throws NotFound if the task is neither live nor retained
     * @throws Refused if the queue has no retention
     */
    public function wait(string $id, int|float $wait): ?TaskInfo
    {
        $id = Checks::name('the task ID', $id);
        $info = TaskInfo::fromFields($this, $this->store->waitForTask($this->name, $id, Checks::wait($wait)));
        return $info->isDone() ? $info : null;
    }

    /**
     * What a live task waits for, as in the HTTP API; null if it never waited.
     *
     * @return ?array{open: bool, if_dead: string, left: int, over: int, dead: int, first: list<array<string, string>>}
     */
    public function waits(string $id): ?array
    {
        return $this->store->waits($this->name, Checks::name('the task ID', $id));
    }

    /**
     * IDs of the live tasks that still wait for a task: by their policy for a dead dependency, `ifDead`, and then by
     * arrival.
     *
     * @param int $n maximum number of IDs: 1 to 1,000
     * @return list<string>
     */
    public function dependents(string $id, int $n = 100): array
    {
        Checks::range('the number of tasks', $n, ...Contract::BATCH);
        return $this->store->dependents($this->name, Checks::name('the task ID', $id), $n);
    }

    /**
     * The finished tasks that a live task waited for, by ID.
     *
     * @param int $limit 1 to 100
     * @return list<array{id: string, end: string, at_us: int, result?: Payload, error?: string}>
     */
    public function waited(string $id, string $after = '', int $limit = Contract::WAITED_PAGE['max']): array
    {
        Checks::range('the limit', $limit, ...Contract::WAITED_PAGE);
        return $this->store->waited($this->name, Checks::name('the task ID', $id), $after, $limit);
    }

    /**
     * Reasons why a task is not running, the first one to resolve first. Each has a `reason` and the fields of the
     * HTTP API.
     *
     * @return non-empty-list<array<string, mixed>>
     */
    public function why(string $id): array
    {
        return $this->store->why($this->name, Checks::name('the task ID', $id));
    }

    /**
     * Task counts, lag and limits of the queue, as in the HTTP API.
     *
     * @return array<string, mixed>
     */
    public function stats(): array
    {
        return $this->store->stats($this->name);
    }

    /** Pauses the queue: workers get no tasks. */
    public function pause(): void
    {
        $this->store->pause($this->name, true);
    }

    /** Resumes the queue. */
    public function resume(): void
    {
        $this->store->pause($this->name, false);
    }

    /**
     * Replaces the limits of the queue. A limit that is left out does not apply.
     *
     * @param array<string, mixed> $limits `bound`, `overflow`, `concurrency`, `rate`, `per_key`, `retention` and
     *     `events`, as in the HTTP API, such as `['retention' => ['age_ms' => 60_000, 'count' => 1_000]]`
     */
    public function limit(array $limits): void
    {
        Limits::check($limits);
        $this->store->limit($this->name, $limits);
    }

    /**
     * Dead letters by ID.
     *
     * @param string $after only IDs greater than this
     * @param int $limit 1 to 1,000
     * @return list<DeadLetter>
     */
    public function dead(string $after = '', int $limit = Contract::BATCH['max']): array
    {
        Checks::range('the limit', $limit, ...Contract::BATCH);
        return array_map(DeadLetter::fromFields(...), $this->store->dead($this->name, $after, $limit));
    }

    /**
     * Requeues dead letters with all their attempts.
     *
     * @param ?non-empty-list<string> $ids 1 to 1,000 IDs; null for all
     * @return array{requeued: int, kept: int} kept: their ID is live, or the queue is full
     */
    public function requeueDead(?array $ids = null): array
    {
        return $this->store->requeueDead($this->name, self::selection($ids));
    }

    /**
     * Deletes dead letters.
     *
     * @param ?non-empty-list<string> $ids 1 to 1,000 IDs; null for all
     * @return int how many were deleted
     */
    public function deleteDead(?array $ids = null): int
    {
        return $this->store->deleteDead($this->name, self::selection($ids));
    }

    /**
     * Saves a schedule: enqueues a task at each occurrence of a cron pattern or an interval, with an ID such as
     * `ID@2026-11-22T03:30:00Z`. Workers of the queue and `rushgate serve` fire it.
     *
     * @param string $id 1 to 170 bytes
     * @param ?string $cron `minute hour day month weekday`, with seconds in front if there are six fields
     * @param ?string $zone time zone of the pattern. Default: UTC
     * @param int|float|null $every interval instead of a pattern: 1 to 34,560,000
     * @param string $missed what happens to missed occurrences: `skip`, `once` (default) or `all`
     * @param ?bool $paused null keeps the setting. A new schedule is active
     * @return string `added`, `changed` or `unchanged`
     * @throws InvalidArgument if the pattern is invalid
     * @throws QueueFull if the queue has 10,000 schedules
     */
    public function saveSchedule(
        string $id,
        mixed $payload = null,
        ?string $cron = null,
        ?string $zone = null,
        int|float|null $every = null,
        string $missed = 'once',
        ?string $kind = null,
        int $priority = Contract::DEFAULT_PRIORITY,
        int $maxAttempts = Contract::DEFAULT_ATTEMPTS,
        ?bool $paused = null,
    ): string {
        $every === null || Checks::duration('the interval', $every, ...Contract::INTERVAL_US);
        $fields = [
            'cron' => $cron,
            'zone' => $zone,
            'every_ms' => $every === null ? null : Clock::toMillis($every),
            'missed' => $missed,
            'content' => Payload::of($payload)->with($kind, null),
            'priority' => Checks::range('the priority', $priority, ...Contract::PRIORITY),
            'max_attempts' => Checks::range('the number of attempts', $maxAttempts, ...Contract::ATTEMPTS),
            'paused' => $paused,
        ];
        $id = Checks::name('the schedule ID', $id, Contract::SCHEDULE_ID_BYTES);
        $fields = array_filter($fields, fn (mixed $field) => $field !== null);
        return $this->store->saveSchedule($this->name, $id, $fields);
    }

    /**
     * Schedules by ID: `id`, `recurrence`, `content` (a {@see Payload}), `priority`, `max_attempts`, `paused`,
     * `revision`, `upcoming_us` (its next occurrences: at most five, and none while it is paused), and `next_us` and
     * `previous_us` if they are known.
     *
     * @param int $limit 1 to 10,000
     * @return list<array<string, mixed>>
     */
    public function schedules(string $after = '', int $limit = Contract::BATCH['max']): array
    {
        Checks::range('the limit', $limit, ...Contract::SCHEDULES_PAGE);
        return $this->store->schedules($this->name, $after, $limit);
    }

    /** Deletes a schedule. Its tasks stay. False if there is none with the ID. */
    public function deleteSchedule(string $id): bool
    {
        return $this->store->deleteSchedule($this->name, Checks::name('the schedule ID', $id));
    }

    /**
     * Workers that run, busy or idle, by ID.
     *
     * @param int $limit 1 to 10,000
     * @return list<WorkerInfo>
     */
    public function workers(string $after = '', int $limit = Contract::BATCH['max']): array
    {
        Checks::range('the limit', $limit, ...Contract::WORKERS_PAGE);
        return array_map(WorkerInfo::fromFields(...), $this->store->workers($this->name, $after, $limit));
    }

    /**
     * Lets a worker `work`, be `quiet` (it claims nothing from this queue) or `stop`, for operators. The worker obeys
     * within 10 s.
     *
     * @return bool false if the worker is not listed
     */
    public function setWorker(string $id, string $mode): bool
    {
        $mode = Checks::word('the mode', $mode, Contract::WORKER_MODE);
        return $this->store->setWorker($this->name, Checks::name('the worker ID', $id), $mode);
    }

    /** @return list<Task> */
    private function tasks(array $rows): array
    {
        return array_map(fn (array $fields) => Task::fromFields($this, $fields), $rows);
    }

    private static function workerName(?string $name): string
    {
        return Checks::label('the worker', $name ?? gethostname() . ':' . getmypid());
    }

    private static function ticket(Task|string $task): string
    {
        $ticket = is_string($task) ? $task : $task->ticket;
        Ticket::parse($ticket);
        return $ticket;
    }

    private static function result(mixed $result): ?Payload
    {
        if ($result === null) {
            return null;
        }
        $payload = Payload::of($result);
        Checks::range('the size of the result in bytes', strlen($payload->toBytes()), 0, Contract::RESULT_BYTES);
        return $payload;
    }

    private static function notStale(string $outcome): string
    {
        return in_array($outcome, ['stale', 'lost'], true)
            ? throw new Stale('the claim of the task has ended', 'stale')
            : $outcome;
    }

    private static function selection(?array $ids): ?array
    {
        if ($ids === null) {
            return null;
        }
        Checks::batch('dead letters', $ids);
        return array_map(fn (string $id) => Checks::name('the task ID', $id), array_values($ids));
    }

    private function noTask(string $id): NotFound
    {
        return new NotFound("no live task has the ID `$id`", 'not_found');
    }
}
