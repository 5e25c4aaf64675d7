<?php

declare(strict_types=1);

namespace Rushgate\Redis;

use Rushgate\Contract;

/**
 * Finds the reasons why a task is not running, as the server does for the HTTP API.
 *
 * The answer combines several reads, so it may be slightly out of date.
 *
 * @internal
 */
final class Why
{
    /** Number of leased tasks searched for those of a key. */
    private const LISTED = 1_000;

    public function __construct(
        private readonly RedisTransport $store,
        private readonly Caller $caller,
        private readonly string $queue,
    ) {
    }

    /** @return non-empty-list<array<string, mixed>> */
    public function reasons(string $id): array
    {
        for ($try = 0; $try < Contract::WHY_TRIES; $try++) {
            [$now, $info] = $this->read($id);
            $reasons = match ($info['state'] ?? 'done') {
                'leased' => [self::running($info, $now), ...self::deadline($info, $now)],
                'done' => $this->over($id, $info, $now),
                default => $this->waiting($info, $now),
            };
            if ($reasons !== []) {
                return $reasons;
            }
        }
        return [['reason' => 'unknown']];
    }

    /** The store's clock, and the task if it is live or retained. */
    private function read(string $id): array
    {
        $answer = $this->caller->call('queue_tasks', $this->queue, [0, $id]);
        return [$answer[0], Records::infos($answer)[0] ?? null];
    }

    private static function running(array $info, int $now): array
    {
        return [
            'reason' => 'running',
            'worker' => $info['worker'],
            'attempt' => $info['attempt'],
            'fence' => $info['fence'],
            'lease_until_us' => $info['lease_until_us'],
            'lease_left_ms' => self::millis($info['lease_until_us'] - $now),
            'cancelled' => $info['cancelled'],
            'replaced' => $info['replaced'],
        ];
    }

    private function over(string $id, ?array $info, int $now): array
    {
        $until = (int) $this->caller->call('queue_unique_until', $this->queue, [$id]);
        $unique = $until > $now
            ? [['reason' => 'unique', 'until_us' => $until, 'left_ms' => self::millis($until - $now)]]
            : [];
        $letter = Records::deadLetters($this->caller->call('queue_dead_letter', $this->queue, [$id]))[0] ?? null;
        $ended = match (true) {
            $info !== null => [[
                'reason' => 'done',
                'how' => $info['finished']['how'],
                'finished_us' => $info['finished']['at_us'],
                'worker' => $info['worker'],
            ]],
            $letter !== null => [[
                'reason' => 'dead',
                'attempts' => $letter['attempts'],
                'max_attempts' => $letter['max_attempts'],
                'error' => $letter['error'],
                'died_us' => $letter['died_us'],
            ]],
            $unique === [] => [['reason' => 'unknown']],
            default => [],
        };
        return [...$ended, ...$unique];
    }

    private function waiting(array $info, int $now): array
    {
        $stats = $this->store->stats($this->queue);
        $reasons = [
            ...($stats['paused'] ? [['reason' => 'paused']] : []),
            ...$this->queueBusy($stats),
            ...self::rateLimited($stats['rate_until_us'], null, $now),
        ];
        $own = match (true) {
            $info['state'] === 'scheduled' => [self::notDue($info, $now)],
            $info['state'] === 'blocked' && $info['waits'] => $this->waitsFor($info, $now),
            $info['state'] === 'blocked' => $this->blockedByKey($info, $stats),
            $reasons !== [] => [],
            default => $this->unclaimed($info, $stats, $now),
        };
        $reasons = [...$reasons, ...$own];
        return $reasons === [] ? [] : [...$reasons, ...self::deadline($info, $now)];
    }

    private function queueBusy(array $stats): array
    {
        $most = $stats['limits']['concurrency'];
        if ($most === null || $stats['leased'] < $most) {
            return [];
        }
        return [['reason' => 'queue_busy', 'concurrency' => $most, 'running' => $this->leased(null)]];
    }

    private static function rateLimited(?int $until, ?string $key, int $now): array
    {
        if ($until === null) {
            return [];
        }
        $wait = self::millis($until - $now);
        return [['reason' => 'rate_limited', 'key' => $key, 'until_us' => $until, 'wait_ms' => $wait]];
    }

    private static function notDue(array $info, int $now): array
    {
        if (($info['not_before_us'] ?? 0) > $info['due_us']) {
            return self::rateLimited($info['not_before_us'], $info['key'], $now)[0];
        }
        return [
            'reason' => 'not_due',
            'due_us' => $info['due_us'],
            'wait_ms' => self::millis($info['due_us'] - $now),
            'attempts' => $info['attempt'],
            'max_attempts' => $info['max_attempts'],
            'error' => $info['error'],
        ];
    }

    private function waitsFor(array $info, int $now): array
    {
        $waits = $this->store->waits($this->queue, $info['id']);
        if ($waits === null) {
            return [];
        }
        $isWaiting = $waits['open'] || $waits['left'] > 0;
        $fields = array_intersect_key($waits, array_flip(['left', 'dead', 'first', 'if_dead', 'open']));
        return [
            ...($isWaiting ? [['reason' => 'waits_for'] + $fields] : []),
            ...($info['due_us'] > $now ? [self::notDue($info, $now)] : []),
        ];
    }

    private function blockedByKey(array $info, array $stats): array
    {
        $key = $info['key'];
        if ($key === null) {
            return [];
        }
        $perKey = $stats['limits']['per_key'];
        $most = $perKey['fifo'] ? 1 : $perKey['concurrency'];
        if ($most !== null) {
            $running = $this->leased($key);
            if (count($running) >= min($most, Contract::WHY_RUNNING)) {
                return [['reason' => 'key_busy', 'key' => $key, 'running' => $running]];
            }
        }
        return [['reason' => 'in_line', 'key' => $key, 'first' => $this->firstOfGroup($key, $info['priority'])]];
    }

    /** ID of the first task of a key group; null if it is not among the first due tasks. */
    private function firstOfGroup(string $key, int $priority): ?string
    {
        foreach ($this->store->top($this->queue, Contract::WHY_AHEAD) as $task) {
            if ($task['key'] === $key && $task['priority'] === $priority) {
                return $task['id'];
            }
        }
        return null;
    }

    private function unclaimed(array $info, array $stats, int $now): array
    {
        $ids = array_column($this->store->top($this->queue, Contract::WHY_AHEAD), 'id');
        $place = array_search($info['id'], $ids, true);
        if ($place === false && count($ids) < Contract::WHY_AHEAD) {
            return [];
        }
        return [[
            'reason' => 'waiting',
            'ahead' => $place === false ? null : $place,
            'leased' => $stats['leased'],
            'due_for_ms' => self::millis($now - ($info['not_before_us'] ?? $info['due_us'])),
            'last_claim_us' => $stats['last_claim_us'],
        ]];
    }

    /** Running tasks, at most ten: of a key, or of the queue. */
    private function leased(?string $key): array
    {
        $leases = Caller::key(Contract::QUEUE_KEYS, $this->queue, Contract::LEASES_KEY);
        $most = $key === null ? Contract::WHY_RUNNING : self::LISTED;
        $members = $this->caller->send($leases, ['ZRANGE', $leases, 0, $most - 1]);
        if ($members === []) {
            return [];
        }
        $ids = array_map(fn (string $member) => substr($member, Contract::LEASES_HEAD_BYTES), $members);
        $infos = Records::infos($this->caller->call('queue_tasks', $this->queue, [0, ...$ids]));
        $isListed = fn (array $info) => $info['state'] === 'leased' && ($key === null || $info['key'] === $key);
        $running = array_slice(array_values(array_filter($infos, $isListed)), 0, Contract::WHY_RUNNING);
        $fields = ['id' => 1, 'worker' => 1, 'lease_until_us' => 1];
        return array_map(fn (array $info) => array_intersect_key($info, $fields), $running);
    }

    private static function deadline(array $info, int $now): array
    {
        $deadline = $info['deadline_us'];
        return $deadline === null
            ? []
            : [['reason' => 'deadline', 'deadline_us' => $deadline, 'left_ms' => self::millis($deadline - $now)]];
    }

    private static function millis(int $micros): int
    {
        return intdiv(max(0, $micros), 1_000);
    }
}
