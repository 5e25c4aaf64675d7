<?php

declare(strict_types=1);

namespace Rushgate\Http;

use Rushgate\Contract;
use Rushgate\Exception\InvalidArgument;
use Rushgate\Exception\LockLost;
use Rushgate\Exception\NotFound;
use Rushgate\Exception\Refused;
use Rushgate\Exception\ServerFault;
use Rushgate\Internal\Clock;
use Rushgate\Internal\Text;
use Rushgate\NewTask;
use Rushgate\Payload;
use Rushgate\Transport\Grant;
use Rushgate\Transport\Transport;

/**
 * A store behind a Rushgate server, by its HTTP API.
 *
 * @internal
 */
final class HttpTransport implements Transport
{
    /** Longest wait of one request, in seconds. A longer wait is continued by the next request. */
    private const WAIT_MAX = 55;
    /** Status of an answer that changed nothing. A new reservation has another one. */
    private const OK = 200;

    public function __construct(private readonly Http $http)
    {
    }

    public function twin(?float $retryFor = null): self
    {
        return new self($this->http->twin($retryFor));
    }

    public function close(): void
    {
        $this->http->close();
    }

    // Locks

    public function acquire(string $lock, float $lease, float $wait, string $label): Grant
    {
        $until = Clock::now() + $wait;
        $body = ['lease_ms' => Clock::toMillis($lease), 'label' => $label];
        while (true) {
            $sent = Clock::now();
            $left = max(0, min($until - $sent, self::WAIT_MAX));
            try {
                $grant = self::grant($this->write(Operation::ACQUIRE, [$lock], $body, $left), $sent);
                // After a wait, only a new answer tells how much of the lease is left.
                return $left > 0 ? $this->extendLock($lock, $grant->token, $lease) : $grant;
            } catch (Refused $busy) {
                if ($busy->errorCode !== 'lock_busy' || $until - Clock::now() <= 0) {
                    throw $busy;
                }
            }
        }
    }

    public function extendLock(string $lock, string $token, float $lease): Grant
    {
        $sent = Clock::now();
        $body = ['token' => $token, 'lease_ms' => Clock::toMillis($lease)];
        return self::grant($this->http->send(Operation::EXTEND_LOCK, [$lock], $body), $sent);
    }

    private static function grant(array $view, float $sent): Grant
    {
        return new Grant($view['token'], $view['fence'], $sent + $view['lease_left_ms'] / 1e3);
    }

    public function releaseLock(string $lock, string $token): bool
    {
        try {
            $this->http->send(Operation::RELEASE, [$lock], ['token' => $token]);
            return true;
        } catch (LockLost) {
            return false;
        }
    }

    public function lock(string $lock): array
    {
        $view = $this->http->send(Operation::SHOW_LOCK, [$lock]);
        return ['holder' => $view['holder'] ?? null, 'waiters' => $view['waiters']];
    }

    public function forceRelease(string $lock): ?array
    {
        return $this->http->send(Operation::FORCE_RELEASE, [$lock])['holder'] ?? null;
    }

    public function holdsLock(string $lock, string $token, int $fence): bool
    {
        $holder = $this->http->send(Operation::SHOW_LOCK, [$lock])['holder'] ?? null;
        return ($holder['fence'] ?? null) === $fence;
    }

    public function isRevoked(string $token): bool
    {
        return false;
    }

    // Queues

    public function enqueue(string $queue, array $tasks): array
    {
        $body = ['tasks' => array_map(self::specification(...), $tasks)];
        return $this->write(Operation::ENQUEUE_ALL, [$queue], $body)['outcomes'];
    }

    private static function specification(NewTask $task): array
    {
        $millis = fn (int|float|null $seconds) => $seconds === null ? null : Clock::toMillis($seconds);
        return self::present([
            'id' => $task->id,
            'delay_ms' => $millis($task->delay),
            'due_us' => $task->dueUs,
            'deadline_after_ms' => $millis($task->deadline),
            'deadline_us' => $task->deadlineUs,
            'priority' => $task->priority,
            'on_duplicate' => $task->onDuplicate,
            'max_wait_ms' => $millis($task->maxWait),
            'max_attempts' => $task->maxAttempts,
            'unique_for_ms' => $millis($task->uniqueFor),
            'key' => $task->key,
            'after' => $task->after,
            'if_dead' => $task->ifDead,
            'held_open' => $task->heldOpen,
            'part_of' => $task->partOf,
        ]) + $task->payload->toFields();
    }

    public function claim(string $queue, int $n, float $lease, float $wait, string $worker, ?\Closure $stopped): array
    {
        $until = Clock::now() + $wait;
        $body = ['n' => $n, 'lease_ms' => Clock::toMillis($lease), 'worker' => $worker];
        do {
            $left = max(0, min($until - Clock::now(), self::WAIT_MAX));
            $answer = $this->write(Operation::CLAIM, [$queue], $body, $left, $stopped);
            $isStopped = $answer === null || ($stopped !== null && $stopped());
            $tasks = self::withContents($answer['tasks'] ?? []);
        } while ($tasks === [] && !$isStopped && $until - Clock::now() > 0);
        return $tasks;
    }

    public function top(string $queue, int $n): array
    {
        return self::withContents($this->http->send(Operation::TOP, [$queue], query: ['n' => $n])['tasks']);
    }

    public function pop(string $queue, int $n): array
    {
        return self::withContents($this->write(Operation::POP, [$queue], ['n' => $n])['tasks']);
    }

    public function complete(string $queue, array $tickets, ?Payload $result, bool $discarded): array
    {
        $content = $result === null
            ? []
            : ['result_base64' => base64_encode($result->toBytes()), 'result_type' => $result->contentType];
        $body = ['tickets' => $tickets, 'discarded' => $discarded] + $content;
        return array_column($this->write(Operation::COMPLETE, [$queue], $body)['outcomes'], 'outcome');
    }

    public function retry(string $queue, string $ticket, string $error, float $delay, bool $giveUp): string
    {
        $error = Text::cut($error, Contract::ERROR_BYTES);
        $body = ['tickets' => [$ticket], 'delay_ms' => Clock::toMillis($delay), 'error' => $error, 'give_up' => $giveUp];
        return $this->write(Operation::RETRY, [$queue], $body)['outcomes'][0]['outcome'];
    }

    public function release(string $queue, array $tickets, float $delay): array
    {
        $body = ['tickets' => $tickets, 'delay_ms' => Clock::toMillis($delay)];
        return array_column($this->write(Operation::RELEASE_TASKS, [$queue], $body)['outcomes'], 'outcome');
    }

    public function extend(string $queue, array $tickets, float $lease, ?int $percent, ?string $note): array
    {
        $progress = self::present(['percent' => $percent, 'note' => $note]);
        $body = ['tickets' => $tickets, 'lease_ms' => Clock::toMillis($lease)]
            + ($progress === [] ? [] : ['progress' => $progress]);
        return array_column($this->http->send(Operation::EXTEND_TASKS, [$queue], $body)['outcomes'], 'outcome');
    }

    public function cancel(string $queue, string $task): string
    {
        return $this->found(fn () => $this->http->send(Operation::CANCEL, [$queue, $task])['outcome']) ?? 'not_found';
    }

    public function reschedule(string $queue, string $task, float $delay, ?int $dueUs): array
    {
        $body = $dueUs === null ? ['delay_ms' => Clock::toMillis($delay)] : ['due_us' => $dueUs];
        try {
            return $this->write(Operation::RESCHEDULE, [$queue, $task], $body);
        } catch (InvalidArgument $late) {
            $deadline = $late->details['deadline_us'] ?? throw $late;
            return ['outcome' => 'too_late', 'deadline_us' => $deadline];
        } catch (NotFound | Refused $refused) {
            $isOutcome = in_array($refused->errorCode, Contract::RESCHEDULED, true);
            return $isOutcome ? ['outcome' => $refused->errorCode] : throw $refused;
        }
    }

    public function dequeue(string $queue, string $ticket): string
    {
        try {
            return $this->http->send(Operation::DEQUEUE, [$queue], ['ticket' => $ticket])['outcome'];
        } catch (Refused $refused) {
            return in_array($refused->errorCode, Contract::DEQUEUED, true) ? $refused->errorCode : throw $refused;
        }
    }

    public function clearUnique(string $queue, string $task): ?int
    {
        return $this->found(fn () => $this->http->send(Operation::CLEAR_UNIQUE, [$queue, $task])['until_us']);
    }

    public function closeBatch(string $queue, string $task): array
    {
        try {
            return $this->write(Operation::CLOSE_BATCH, [$queue, $task]);
        } catch (Refused $refused) {
            $isOutcome = in_array($refused->errorCode, Contract::CLOSED, true);
            return $isOutcome ? ['outcome' => $refused->errorCode, 'left' => 0] : throw $refused;
        }
    }

    public function task(string $queue, string $task): ?array
    {
        try {
            return self::withResult($this->http->send(Operation::TASK, [$queue, $task]));
        } catch (Refused $refused) {
            return in_array($refused->errorCode, ['not_found', 'dead'], true) ? null : throw $refused;
        }
    }

    public function waitForTask(string $queue, string $task, float $wait): array
    {
        $until = Clock::now() + $wait;
        do {
            $left = max(0, min($until - Clock::now(), self::WAIT_MAX));
            $info = $this->http->send(Operation::TASK, [$queue, $task], wait: $left);
        } while ($info['state'] !== 'done' && $until - Clock::now() > 0);
        return self::withResult($info);
    }

    public function waits(string $queue, string $task): ?array
    {
        return $this->found(fn () => $this->http->send(Operation::WAITS, [$queue, $task]));
    }

    public function dependents(string $queue, string $task, int $n): array
    {
        return $this->http->send(Operation::DEPENDENTS, [$queue, $task], query: ['n' => $n])['ids'];
    }

    public function waited(string $queue, string $task, string $after, int $limit): array
    {
        $page = $this->page(Operation::WAITED, [$queue, $task], $after, $limit);
        $entry = fn (array $entry) => isset($entry['result'])
            ? ['result' => Payload::fromFields($entry['result'])] + $entry
            : $entry;
        return array_map($entry, $page['items']);
    }

    public function why(string $queue, string $task): array
    {
        return $this->http->send(Operation::WHY, [$queue, $task])['reasons'];
    }

    public function stats(string $queue): array
    {
        $stats = $this->http->send(Operation::STATS, [$queue]);
        unset($stats['queue']);
        return $stats + ['rate_until_us' => null, 'last_claim_us' => null];
    }

    public function pause(string $queue, bool $paused): void
    {
        $this->http->send($paused ? Operation::PAUSE : Operation::RESUME, [$queue]);
    }

    public function limit(string $queue, array $limits): void
    {
        $this->http->send(Operation::LIMIT, [$queue], $limits);
    }

    public function dead(string $queue, string $after, int $limit): array
    {
        $page = $this->page(Operation::DEAD, [$queue], $after, $limit);
        return self::withContents($page['items']);
    }

    public function requeueDead(string $queue, ?array $ids): array
    {
        return $this->http->send(Operation::REQUEUE_DEAD, [$queue], self::selection($ids));
    }

    public function deleteDead(string $queue, ?array $ids): int
    {
        return $this->http->send(Operation::DELETE_DEAD, [$queue], self::selection($ids))['deleted'];
    }

    private static function selection(?array $ids): array
    {
        return $ids === null ? ['all' => true] : ['ids' => array_values($ids)];
    }

    public function saveSchedule(string $queue, string $id, array $schedule): string
    {
        $content = $schedule['content']->toFields();
        unset($schedule['content'], $content['traceparent']);
        $body = self::present($schedule) + $content;
        return $this->http->send(Operation::SCHEDULE, [$queue, $id], $body)['outcome'];
    }

    public function schedules(string $queue, string $after, int $limit): array
    {
        $page = $this->page(Operation::SCHEDULES, [$queue], $after, $limit);
        return self::withContents($page['items']);
    }

    public function deleteSchedule(string $queue, string $id): bool
    {
        return $this->found(fn () => $this->http->send(Operation::UNSCHEDULE, [$queue, $id])) !== null;
    }

    public function fireSchedules(string $queue, float $longest, \Closure $unreadable): ?float
    {
        return null;
    }

    public function announce(string $queue, string $id, array $worker): string
    {
        return $this->http->send(Operation::ANNOUNCE, [$queue, $id], $worker)['mode']
            ?? throw new ServerFault('the server answered no mode of the worker', 'bug');
    }

    public function endWorker(string $queue, string $id): void
    {
        $this->http->send(Operation::END_WORKER, [$queue, $id]);
    }

    public function workers(string $queue, string $after, int $limit): array
    {
        return $this->page(Operation::WORKERS, [$queue], $after, $limit)['items'];
    }

    public function setWorker(string $queue, string $id, string $mode): bool
    {
        $set = fn () => $this->http->send(Operation::SET_WORKER, [$queue, $id], ['mode' => $mode]);
        return $this->found($set) !== null;
    }

    // Sales

    public function createSale(array $sale): void
    {
        $this->write(Operation::CREATE, [], self::present($sale));
    }

    public function openSale(string $sale): string
    {
        return $this->http->send(Operation::OPEN, [$sale])['status'];
    }

    public function endSale(string $sale): string
    {
        return $this->http->send(Operation::END, [$sale])['status'];
    }

    public function sale(string $sale): array
    {
        return $this->http->send(Operation::SALE, [$sale]);
    }

    public function reserve(string $sale, string $buyer, string $key, array $cart, bool $same): array
    {
        $line = fn (string|int $sku, int $quantity) => ['sku' => (string) $sku, 'quantity' => $quantity];
        $lines = array_map($line, array_keys($cart), $cart);
        $body = ['buyer' => $buyer, 'lines' => $lines, 'same_number' => $same];
        $hold = $this->http->send(Operation::RESERVE, [$sale], $body, $key);
        return $hold + ['replayed' => $this->http->status() === self::OK];
    }

    public function confirm(string $sale, string $reservation, float $wait): array
    {
        return $this->decide(Operation::CONFIRM, $sale, $reservation, $wait);
    }

    public function cancelHold(string $sale, string $reservation, float $wait): array
    {
        return $this->decide(Operation::CANCEL_HOLD, $sale, $reservation, $wait);
    }

    private function decide(array $operation, string $sale, string $reservation, float $wait): array
    {
        return $this->http->send($operation, [$sale, $reservation], wait: min($wait, self::WAIT_MAX));
    }

    public function reservation(string $sale, string $reservation, float $wait): array
    {
        $until = Clock::now() + $wait;
        do {
            $left = max(0, min($until - Clock::now(), self::WAIT_MAX));
            $hold = $this->http->send(Operation::RESERVATION, [$sale, $reservation], wait: $left);
        } while (!in_array($hold['state'], Contract::FINAL_STATE, true) && $until - Clock::now() > 0);
        return $hold;
    }

    public function restore(string $sale, string $receipt): array
    {
        $hold = $this->http->send(Operation::RESTORE, [$sale], ['receipt' => $receipt]);
        return $hold + ['replayed' => $this->http->status() === self::OK];
    }

    // Requests

    /** A write with a new idempotency key, so that it can be repeated. Null only if $stopped ended the wait. */
    private function write(
        array $operation,
        array $path,
        ?array $body = null,
        float $wait = 0,
        ?\Closure $stopped = null,
    ): ?array {
        return $this->http->send($operation, $path, $body, bin2hex(random_bytes(16)), $wait, $stopped);
    }

    /**
     * The answer; null for a 404.
     *
     * @template T
     * @param \Closure(): T $send
     * @return ?T
     */
    private function found(\Closure $send): mixed
    {
        try {
            return $send();
        } catch (NotFound) {
            return null;
        }
    }

    private function page(array $operation, array $path, string $after, int $limit): array
    {
        $query = ['limit' => $limit] + ($after === '' ? [] : ['after' => $after]);
        return $this->http->send($operation, $path, query: $query);
    }

    /** The fields that have a value. */
    private static function present(array $fields): array
    {
        return array_filter($fields, fn (mixed $value) => $value !== null && $value !== []);
    }

    /** Adds the payload of each entry as `content`. */
    private static function withContents(array $entries): array
    {
        return array_map(fn (array $entry) => $entry + ['content' => Payload::fromFields($entry)], $entries);
    }

    private static function withResult(array $info): array
    {
        if (isset($info['finished']['result'])) {
            $info['finished']['result'] = Payload::fromFields($info['finished']['result']);
        }
        return self::withContents([$info])[0];
    }
}
