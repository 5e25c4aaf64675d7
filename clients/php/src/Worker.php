<?php

declare(strict_types=1);

namespace Rushgate;

use Rushgate\Exception\InvalidArgument;
use Rushgate\Exception\RushgateException;
use Rushgate\Exception\Stale;
use Rushgate\Exception\Unavailable;
use Rushgate\Internal\Alarm;
use Rushgate\Internal\Checks;
use Rushgate\Internal\Clock;
use Rushgate\Internal\Forks;
use Rushgate\Internal\Presence;
use Rushgate\Internal\TaskInterrupted;
use Rushgate\Internal\Text;

/**
 * A worker of one queue: claims due tasks and runs the handler for each task's kind.
 *
 * A handler gets the {@see Task}. What it returns is the result of the task; null is none. An exception fails the
 * attempt, which is retried with a backoff. After the last attempt the task becomes a dead letter. An {@see Outcome}
 * ends the task in another way.
 *
 * With the extension pcntl, a signal (SIGALRM) extends the leases after each third of a lease, fires the schedules of the
 * queue over Redis, announces the worker, and stops handlers at their timeout. It ends early what the handler sleeps in:
 * `sleep()` returns the time that is left. SIGTERM and SIGINT stop the worker: the running task may finish within the
 * grace, and tasks that were not started are released. Without pcntl, handlers must call {@see Task::extend}.
 *
 * The worker announces itself to its queue every 10 s, and obeys the operator who quiets or stops it: see
 * {@see Queue::setWorker}. Without pcntl, it does so between tasks and while it waits for tasks.
 */
final class Worker
{
    private const CLAIM_WAIT = 3_600;
    private const PAUSE_MIN = 0.1;
    private const PAUSE_MAX = 5;
    /** Longest time in seconds until a schedule that another program has saved is noticed. */
    private const LOOK_EVERY = 5.0;
    /** Longest sleep of a quiet worker in seconds. A signal ends it early. */
    private const LOOK_QUIET = 1.0;

    private readonly Backoff $backoff;
    private WorkerReport $report;
    private bool $isStopping = false;
    /** Whether an operator asked the worker to claim nothing. */
    private bool $isQuiet = false;
    private ?Presence $presence = null;
    /** @var array<string, array{task: Task, until: float}> claimed tasks by ticket, with the end of their leases */
    private array $held = [];
    private ?Task $running = null;
    private bool $isCancelled = false;
    private ?int $firing = null;
    /** @var array<string, int> revisions of schedules that cannot be read */
    private array $unreadable = [];
    /** @var list<int> timers of the running task */
    private array $timers = [];

    /**
     * @param non-empty-array<string, \Closure(Task): mixed> $handlers handlers by kind. `*` takes all other tasks,
     *     also those without a kind
     * @param int|float $lease lease of a claim and of each heartbeat, in seconds: 3 to 86,400. Default: 30. If the
     *     worker dies, its tasks become available again after this time
     * @param int|float|null $timeout maximum run time of a handler, in seconds; resolution 1 s. Default: none
     * @param int|float $grace time for a handler to end after a stop or a cancellation, in seconds. Default: 10
     * @param ?Backoff $backoff retry delays of failed tasks. Default: 1 s, doubling, up to 1 h, with jitter
     * @param int $prefetch tasks per claim: 1 to 1,000. Default: 1. More is faster for short tasks; for long ones, other
     *     workers could run the tasks sooner
     * @param int $forks child processes, each with a task at a time: 1 to 1,000. Default: 1, which is this process
     * @param ?string $label name of the worker, as shown to operators: at most 200 bytes. Default: host and process ID
     */
    public function __construct(
        private readonly Queue $queue,
        private readonly array $handlers,
        private readonly int|float $lease = 30,
        private readonly int|float|null $timeout = null,
        private readonly int|float $grace = 10,
        ?Backoff $backoff = null,
        private readonly int $prefetch = 1,
        private readonly int $forks = 1,
        private readonly ?string $label = null,
    ) {
        $this->backoff = $backoff ?? new Backoff();
        $this->report = new WorkerReport();
        Checks::duration('the lease', $lease, 3_000_000, Contract::LEASE_US['max']);
        $timeout === null || Checks::period('the timeout', $timeout);
        Checks::delay('the grace', $grace);
        Checks::range('the prefetch', $prefetch, ...Contract::BATCH);
        Checks::range('the number of forks', $forks, 1, 1_000);
        if ($handlers === []) {
            throw Checks::invalid('the worker', 'has no handler');
        }
        foreach (array_keys($handlers) as $kind) {
            $kind === '*' || Checks::kind((string) $kind);
        }
        if (($forks > 1 || $timeout !== null) && !Alarm::isAvailable()) {
            throw Checks::invalid('the worker', 'needs the extension pcntl for forks and timeouts');
        }
    }

    /**
     * Runs until a signal or {@see stop} ends the worker.
     *
     * @param bool $drain ends the worker when no task is due, or when an operator quiets it
     * @throws InvalidArgument|RushgateException for an error that lasts, such as wrong credentials. Outages and a full
     *     store do not end the worker
     */
    public function run(bool $drain = false): WorkerReport
    {
        if ($this->forks > 1) {
            return (new Forks($this->forks, fn () => $this->runHere($drain)))->run();
        }
        return $this->runHere($drain);
    }

    /**
     * Ends the worker after the running task. Tasks that were not started are released.
     *
     * In a worker with forks, it ends the fork that calls it. SIGTERM to the parent ends all.
     */
    public function stop(): void
    {
        $this->isStopping = true;
        if ($this->running !== null) {
            $this->interruptAfter($this->grace, TaskInterrupted::STOPPED);
        }
    }

    private function runHere(bool $drain): WorkerReport
    {
        [$this->report, $this->isStopping, $this->isQuiet] = [new WorkerReport(), false, false];
        $before = $this->listenToSignals();
        $heartbeat = $this->startHeartbeat();
        $this->startSchedules();
        $announcing = $this->startAnnouncing();
        try {
            $this->work($drain);
        } finally {
            $this->releaseHeld();
            Alarm::cancel($heartbeat);
            Alarm::cancel($this->firing);
            Alarm::cancel($announcing);
            $this->presence->leave();
            array_walk($before, fn (mixed $handler, int $signal) => pcntl_signal($signal, $handler));
        }
        return $this->report;
    }

    /** @return array<int, mixed> handlers of the signals before, to be restored */
    private function listenToSignals(): array
    {
        if (!Alarm::isAvailable()) {
            return [];
        }
        pcntl_async_signals(true);
        $before = [];
        foreach ([SIGTERM, SIGINT] as $signal) {
            $before[$signal] = pcntl_signal_get_handler($signal);
            pcntl_signal($signal, $this->stop(...));
        }
        return $before;
    }

    /** Starts heartbeats, on a connection of their own, because a handler may be in the middle of a call. */
    private function startHeartbeat(): ?int
    {
        if (!Alarm::isAvailable()) {
            return null;
        }
        $twin = $this->queue->twin();
        return Alarm::every($this->lease / 3, fn () => $this->beat($twin));
    }

    private function startSchedules(): void
    {
        if (Alarm::isAvailable()) {
            $this->fireSchedules($this->queue->twin());
        }
    }

    private function startAnnouncing(): ?int
    {
        $this->presence = $this->queue->presence($this->label);
        $this->announce();
        return Alarm::isAvailable() ? Alarm::every(Presence::$each, $this->announce(...)) : null;
    }

    /** Announces the worker, and does what an operator asks of it. */
    private function announce(): void
    {
        $mode = $this->presence->announce($this->running === null ? 0 : 1);
        if ($mode !== null) {
            $this->isQuiet = $mode === 'quiet';
        }
        if ($mode === 'stop' && !$this->isStopping) {
            $this->stop();
        }
    }

    /** Without timers, announcements are due between tasks and between claims. */
    private function announceIfDue(): void
    {
        if (!Alarm::isAvailable() && $this->presence->timeLeft() === 0.0) {
            $this->announce();
        }
    }

    /** How long the worker may wait, at most $longest: without timers, until the next announcement. */
    private function untilAnnouncement(int|float $longest): int|float
    {
        return Alarm::isAvailable() ? $longest : min($longest, $this->presence->timeLeft());
    }

    /** Fires the schedules of the queue now and whenever one is due. */
    private function fireSchedules(Queue $twin): void
    {
        $pause = min($this->lease / 3, self::LOOK_EVERY);
        try {
            $pause = $twin->fireSchedules($pause, $this->reportUnreadable(...));
        } catch (RushgateException) {
            // Outages show in the claims.
        }
        $this->firing = $pause === null ? null : Alarm::after($pause, fn () => $this->fireSchedules($twin));
    }

    /** Logs each revision once. */
    private function reportUnreadable(string $id, int $revision, \Throwable $error): void
    {
        if (($this->unreadable[$id] ?? null) !== $revision) {
            error_log("cannot fire the schedule $id of the queue {$this->queue->name}: {$error->getMessage()}");
        }
        $this->unreadable[$id] = $revision;
    }

    private function work(bool $drain): void
    {
        while (!$this->isStopping) {
            $this->announceIfDue();
            if ($this->isQuiet && !$drain) {
                Clock::sleep($this->untilAnnouncement(self::LOOK_QUIET));
                continue;
            }
            $tasks = $this->claim($drain ? 0 : self::CLAIM_WAIT);
            if ($tasks === [] && $drain) {
                return;
            }
            foreach ($tasks as $task) {
                $this->announceIfDue();
                if ($this->isStopping) {
                    return;
                }
                if ($this->isQuiet) {
                    $this->releaseHeld();
                } elseif (isset($this->held[$task->ticket])) {
                    $this->runTask($task);
                }
            }
        }
    }

    /** @return list<Task> */
    private function claim(int|float $wait): array
    {
        $pause = self::PAUSE_MIN;
        while (!$this->isStopping && !$this->isQuiet) {
            try {
                $stopped = fn () => $this->isStopping || $this->isQuiet;
                $wait = $this->untilAnnouncement($wait);
                $tasks = $this->queue->claim($this->prefetch, $this->lease, $wait, $this->label, $stopped);
            } catch (Unavailable) {
                $this->report->outages++;
                Clock::sleep($pause * random_int(500, 1_000) / 1_000);
                $pause = min(2 * $pause, self::PAUSE_MAX);
                continue;
            }
            $this->report->claimed += count($tasks);
            foreach ($tasks as $task) {
                $this->held[$task->ticket] = ['task' => $task, 'until' => Clock::now() + $this->lease];
            }
            return $tasks;
        }
        return [];
    }

    private function runTask(Task $task): void
    {
        $kind = $task->kind();
        $handler = $this->handlers[$kind ?? '*'] ?? $this->handlers['*'] ?? null;
        if ($handler === null) {
            $this->report->unknown++;
            $what = $kind === null ? 'tasks without a kind' : "the kind `$kind`";
            $outcome = Outcome::retry("the worker has no handler for $what");
        } else {
            $outcome = $this->handle($task, $handler);
        }
        if (isset($this->held[$task->ticket])) {
            $this->settle($task, $outcome);
            unset($this->held[$task->ticket]);
        }
    }

    private function handle(Task $task, \Closure $handler): mixed
    {
        $this->isCancelled = false;
        $this->startTimers($task);
        try {
            try {
                $this->running = $task;
                $outcome = $handler($task);
            } finally {
                $this->running = null;
            }
            return $this->isCancelled ? null : $outcome;
        } catch (TaskInterrupted $interrupted) {
            $this->running = null;
            return $this->afterInterruption($interrupted->reason);
        } catch (\Throwable $error) {
            return $this->isCancelled ? null : Outcome::retry(Text::ofError($error, Contract::ERROR_BYTES));
        } finally {
            array_map(Alarm::cancel(...), $this->timers);
            $this->timers = [];
        }
    }

    private function afterInterruption(string $reason): ?Outcome
    {
        if (in_array($reason, [TaskInterrupted::TIMEOUT, TaskInterrupted::DEADLINE], true)) {
            $this->report->timedOut++;
        }
        return match ($reason) {
            TaskInterrupted::TIMEOUT => Outcome::retry("the handler took longer than $this->timeout s"),
            TaskInterrupted::DEADLINE => Outcome::retry('its deadline passed while the handler was running'),
            TaskInterrupted::STOPPED => Outcome::release(),
            // A canceled task is over. The outcome of a lost one is not reported.
            TaskInterrupted::CANCELLED, TaskInterrupted::LOST => null,
        };
    }

    private function startTimers(Task $task): void
    {
        if ($this->timeout !== null) {
            $this->interruptAfter($this->timeout, TaskInterrupted::TIMEOUT);
        }
        if ($task->deadlineUs !== null) {
            // The fence of a claim is its time on the store's clock, or slightly later.
            $left = ($task->deadlineUs - $task->fence) / 1e6;
            $this->interruptAfter(max(0, $left), TaskInterrupted::DEADLINE);
        }
    }

    private function interruptAfter(int|float $seconds, string $reason): void
    {
        if (Alarm::isAvailable()) {
            $this->timers[] = Alarm::after($seconds, fn () => $this->interrupt($reason));
        }
    }

    private function interrupt(string $reason): void
    {
        if ($this->running !== null) {
            $this->running = null;
            throw new TaskInterrupted($reason);
        }
    }

    /** Extends the leases of all claimed tasks. */
    private function beat(Queue $twin): void
    {
        $held = $this->held;
        if ($held === []) {
            return;
        }
        $sent = Clock::now();
        try {
            $outcomes = $twin->extendAll(array_column($held, 'task'), (float) $this->lease);
        } catch (RushgateException) {
            // The store cannot be reached. The tasks are held until their leases end.
            $isOver = fn (array $one) => Clock::now() >= $one['until'];
            $outcomes = array_map(fn (array $one) => $isOver($one) ? 'lost' : 'unknown', array_values($held));
        }
        $outcomes = array_combine(array_keys($held), $outcomes);
        foreach ($outcomes as $ticket => $outcome) {
            match ($outcome) {
                'lost' => $this->lose($ticket),
                'unknown' => null,
                default => $this->held[$ticket]['until'] = $sent + $this->lease,
            };
        }
        $this->signalHandler($outcomes[$this->running?->ticket] ?? null);
    }

    private function lose(string $ticket): void
    {
        unset($this->held[$ticket]);
        $this->report->lost++;
    }

    private function signalHandler(?string $outcome): void
    {
        if ($outcome === 'lost') {
            $this->interrupt(TaskInterrupted::LOST);
        }
        if ($outcome === 'cancelled' && !$this->isCancelled) {
            $this->isCancelled = true;
            $this->report->cancelled++;
            $this->interruptAfter($this->grace, TaskInterrupted::CANCELLED);
        }
    }

    /** Reports the outcome of a task. */
    private function settle(Task $task, mixed $outcome): void
    {
        try {
            if (!$outcome instanceof Outcome) {
                $this->complete($task, $outcome);
                return;
            }
            match ($outcome->verb) {
                'discard' => $this->discard($task),
                'release' => $this->release($task, $outcome->delay),
                default => $this->fail($task, $outcome),
            };
        } catch (Stale) {
            $this->report->lost++;
        } catch (Unavailable) {
            $this->report->unanswered++;
        }
    }

    private function complete(Task $task, mixed $result): void
    {
        try {
            $task->complete($result);
            $this->report->done++;
        } catch (InvalidArgument $error) {
            // The result is too large or not JSON. A client would wait for it in vain.
            $this->fail($task, Outcome::giveUp($error->getMessage()));
        }
    }

    private function discard(Task $task): void
    {
        $this->queue->complete($task, null, true);
        $this->report->discarded++;
    }

    private function release(Task $task, int|float $delay): void
    {
        $task->release($delay);
        $this->report->released++;
    }

    private function fail(Task $task, Outcome $outcome): void
    {
        $delay = $outcome->delay ?? $this->backoff->delay($task->attempt);
        match ($task->retry($outcome->error, $delay, $outcome->verb === 'give_up')) {
            'dead' => $this->report->dead++,
            'cancelled' => $this->report->cancelled++,
            default => $this->report->retried++,
        };
    }

    private function releaseHeld(): void
    {
        foreach (array_column($this->held, 'task') as $task) {
            $this->settle($task, Outcome::release());
        }
        $this->held = [];
    }
}
