<?php

declare(strict_types=1);

namespace Rushgate\Transport;

use Rushgate\NewTask;
use Rushgate\Payload;

/**
 * The verbs of a store, one method each. Arrays have the fields of the HTTP API, with payloads as `content`.
 *
 * Durations are in seconds. Names and limits are checked by the caller. A write that is repeated after a lost
 * connection takes effect once.
 *
 * @internal
 */
interface Transport
{
    /**
     * The same store over connections of its own, for use in a signal handler.
     *
     * @param ?float $retryFor retry budget in seconds; null for that of the client
     */
    public function twin(?float $retryFor = null): self;

    public function close(): void;

    public function acquire(string $lock, float $lease, float $wait, string $label): Grant;

    public function extendLock(string $lock, string $token, float $lease): Grant;

    /** False if the token did not hold the lock. */
    public function releaseLock(string $lock, string $token): bool;

    /** @return array<string, mixed> the `holder`, which may be null, and the `waiters` */
    public function lock(string $lock): array;

    /** @return ?array<string, mixed> the former holder */
    public function forceRelease(string $lock): ?array;

    /** True if the token holds the lock now. */
    public function holdsLock(string $lock, string $token, int $fence): bool;

    /** True if a notification said that the token was force-released. Never sends a request. */
    public function isRevoked(string $token): bool;

    /**
     * @param non-empty-list<NewTask> $tasks
     * @return list<array<string, mixed>> one outcome per task
     */
    public function enqueue(string $queue, array $tasks): array;

    /**
     * @param ?\Closure(): bool $stopped ends the wait when it returns true
     * @return list<array<string, mixed>> tasks
     */
    public function claim(string $queue, int $n, float $lease, float $wait, string $worker, ?\Closure $stopped): array;

    /** @return list<array<string, mixed>> tasks */
    public function top(string $queue, int $n): array;

    /** @return list<array<string, mixed>> tasks */
    public function pop(string $queue, int $n): array;

    /**
     * @param non-empty-list<string> $tickets
     * @return list<string> outcomes
     */
    public function complete(string $queue, array $tickets, ?Payload $result, bool $discarded): array;

    public function retry(string $queue, string $ticket, string $error, float $delay, bool $giveUp): string;

    /**
     * @param non-empty-list<string> $tickets
     * @return list<string> outcomes
     */
    public function release(string $queue, array $tickets, float $delay): array;

    /**
     * @param non-empty-list<string> $tickets
     * @return list<string> outcomes
     */
    public function extend(string $queue, array $tickets, float $lease, ?int $percent, ?string $note): array;

    public function cancel(string $queue, string $task): string;

    /**
     * @param ?int $dueUs takes precedence over $delay, in seconds
     * @return array<string, mixed> `outcome`, with `due_us` or `deadline_us`
     */
    public function reschedule(string $queue, string $task, float $delay, ?int $dueUs): array;

    public function dequeue(string $queue, string $ticket): string;

    /** End of the window, in µs; null if there was none. */
    public function clearUnique(string $queue, string $task): ?int;

    /** @return array<string, mixed> */
    public function closeBatch(string $queue, string $task): array;

    /** @return ?array<string, mixed> the task; null if it is neither live nor retained */
    public function task(string $queue, string $task): ?array;

    /** @return array<string, mixed> the finished task, or the live one after the wait */
    public function waitForTask(string $queue, string $task, float $wait): array;

    /** @return ?array<string, mixed> */
    public function waits(string $queue, string $task): ?array;

    /** @return list<string> */
    public function dependents(string $queue, string $task, int $n): array;

    /** @return list<array<string, mixed>> */
    public function waited(string $queue, string $task, string $after, int $limit): array;

    /** @return list<array<string, mixed>> reasons */
    public function why(string $queue, string $task): array;

    /** @return array<string, mixed> */
    public function stats(string $queue): array;

    public function pause(string $queue, bool $paused): void;

    /** @param array<string, mixed> $limits */
    public function limit(string $queue, array $limits): void;

    /** @return list<array<string, mixed>> dead letters */
    public function dead(string $queue, string $after, int $limit): array;

    /**
     * @param ?list<string> $ids null for all
     * @return array{requeued: int, kept: int}
     */
    public function requeueDead(string $queue, ?array $ids): array;

    /** @param ?list<string> $ids null for all */
    public function deleteDead(string $queue, ?array $ids): int;

    /** @param array<string, mixed> $schedule fields of the HTTP API, with a `content` */
    public function saveSchedule(string $queue, string $id, array $schedule): string;

    /** @return list<array<string, mixed>> */
    public function schedules(string $queue, string $after, int $limit): array;

    public function deleteSchedule(string $queue, string $id): bool;

    /**
     * Fires due schedules. A schedule that cannot be read stays due, for other programs.
     *
     * @param float $longest longest time until the next look, in seconds
     * @param \Closure(string, int, \Throwable): void $unreadable gets its ID, its revision (0 if unknown) and the error
     * @return ?float time until the next look; null if the server fires schedules
     */
    public function fireSchedules(string $queue, float $longest, \Closure $unreadable): ?float;

    /**
     * Announces a worker.
     *
     * @param array<string, mixed> $worker fields of the HTTP API
     * @return string the mode that an operator asked for
     */
    public function announce(string $queue, string $id, array $worker): string;

    /** Says that a worker has ended. */
    public function endWorker(string $queue, string $id): void;

    /** @return list<array<string, mixed>> */
    public function workers(string $queue, string $after, int $limit): array;

    /** False if the worker is not listed. */
    public function setWorker(string $queue, string $id, string $mode): bool;

    /** @param array<string, mixed> $sale fields of the HTTP API */
    public function createSale(array $sale): void;

    public function openSale(string $sale): string;

    public function endSale(string $sale): string;

    /** @return array<string, mixed> */
    public function sale(string $sale): array;

    /**
     * @param non-empty-array<string, int> $cart quantities by SKU
     * @return array<string, mixed> the hold, with its `receipt` and `replayed`
     */
    public function reserve(string $sale, string $buyer, string $key, array $cart, bool $same): array;

    /** @return array<string, mixed> the hold after the decision or the wait */
    public function confirm(string $sale, string $reservation, float $wait): array;

    /** @return array<string, mixed> the hold after the decision or the wait */
    public function cancelHold(string $sale, string $reservation, float $wait): array;

    /** @return array<string, mixed> the hold, once it is final or after the wait */
    public function reservation(string $sale, string $reservation, float $wait): array;

    /** @return array<string, mixed> the hold, with its `receipt` */
    public function restore(string $sale, string $receipt): array;
}
