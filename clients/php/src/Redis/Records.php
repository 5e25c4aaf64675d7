<?php

declare(strict_types=1);

namespace Rushgate\Redis;

use Rushgate\Contract;
use Rushgate\Exception\ServerFault;
use Rushgate\Internal\Recurrence;
use Rushgate\Payload;
use Rushgate\Ticket;

/**
 * Decodes packed records into the fields of the HTTP API.
 *
 * @internal
 */
final class Records
{
    /**
     * Decodes ID, record and run of each task.
     *
     * @param list<string> $fields
     * @return list<array<string, mixed>>
     */
    public static function tasks(array $fields): array
    {
        return array_map(fn (array $row) => self::row(...$row)['task'], array_chunk($fields, 3));
    }

    /**
     * Decodes the answer of `queue_tasks`.
     *
     * @param list<string|int> $fields
     * @return list<array<string, mixed>>
     */
    public static function infos(array $fields): array
    {
        $now = array_shift($fields);
        $info = function (array $row) use ($now): array {
            [$id, $record, $run, $moment] = $row;
            return $record === '' ? self::finished($id, $run) : self::info($id, $record, $run, $moment, $now);
        };
        return array_map($info, array_chunk($fields, 4));
    }

    private static function info(string $id, string $record, string $run, string|int $moment, int $now): array
    {
        $row = self::row($id, $record, $run);
        $notBefore = match (true) {
            $row['leased'], $moment === '' => null,
            isset($row['task']['key']) => (int) $moment,
            default => $row['task']['due_us'],
        };
        $state = match (true) {
            $row['leased'] => 'leased',
            $notBefore === null => 'blocked',
            $notBefore <= $now => 'ready',
            default => 'scheduled',
        };
        return self::withInfo($row, $state) + ['not_before_us' => $notBefore];
    }

    private static function finished(string $id, string $kept): array
    {
        $packed = new Packed($kept);
        ['finished' => $at, 'how' => $how] = $packed->numbers(Contract::FINISHED_LAYOUT);
        $result = $packed->sized(Contract::RESULT_LENGTH_BYTES);
        $run = $packed->sized(Contract::RUN_LENGTH_BYTES);
        $finished = ['at_us' => $at, 'how' => Contract::TASK_END[$how]];
        if ($result !== '') {
            $finished['result'] = Payload::fromBody($result);
        }
        return self::withInfo(self::row($id, $packed->rest(), $run), 'done') + ['finished' => $finished];
    }

    private static function withInfo(array $row, string $state): array
    {
        return $row['task'] + [
            'state' => $state,
            'waits' => $row['waits'] && $state !== 'done',
            'cancelled' => $row['cancelled'] && $state !== 'done',
            'replaced' => $row['replaced'] && $state !== 'done',
            'lease_until_us' => $state === 'leased' ? $row['lease_until'] : null,
            'worker' => $row['leased'] ? $row['worker'] : null,
            'progress' => $state === 'leased' ? $row['progress'] : null,
            'error' => $row['error'],
            'past' => $row['past'],
        ];
    }

    /** A record and its run: the fields of the task, and those of the run. */
    private static function row(string $id, string $record, string $run): array
    {
        $packed = new Packed($record);
        $fixed = $packed->numbers(Contract::RECORD_LAYOUT);
        $flags = $fixed['priority'];
        $due = $flags & Contract::PRIORITY_AT_ONCE ? $fixed['first'] : $packed->number(Contract::DUE_BYTES);
        $deadline = $flags & Contract::PRIORITY_DEADLINE ? $packed->number(Contract::DEADLINE_BYTES) : null;
        $key = $flags & Contract::PRIORITY_KEYED ? $packed->sized(Contract::KEY_LENGTH_BYTES) : null;
        $content = Payload::fromBody($packed->rest());
        $run = self::run($run, $due);
        $revision = $fixed['revision'] + $fixed['turn'];
        $claim = $run['leased'] ? $run['claim'] : 0;
        $task = [
            'id' => $id,
            'ticket' => Ticket::format($revision, $claim, $run['due'], $id),
            'content' => $content,
            'revision' => $revision,
            'fence' => $claim ?: null,
            // Claims are numbered by the time.
            'claimed_us' => $claim ?: null,
            'due_us' => $run['due'],
            'priority' => $flags % Contract::PRIORITY_KEYED,
            'attempt' => $run['attempts'],
            'max_attempts' => $fixed['max_attempts'],
            'key' => $key,
            'deadline_us' => $deadline,
        ];
        return ['task' => $task, 'waits' => (bool) ($flags & Contract::PRIORITY_WAITS)] + $run;
    }

    private static function run(string $run, int $due): array
    {
        if ($run === '') {
            return [
                'leased' => false, 'cancelled' => false, 'replaced' => false, 'claim' => 0, 'attempts' => 0,
                'due' => $due, 'lease_until' => 0, 'worker' => null, 'progress' => null, 'past' => [], 'error' => null,
            ];
        }
        $packed = new Packed($run);
        $fixed = $packed->numbers(Contract::RUN_LAYOUT);
        $has = fn (int $flag) => (bool) ($fixed['flags'] & $flag);
        return [
            'leased' => $has(Contract::RUN_LEASED),
            'cancelled' => $has(Contract::RUN_CANCELED),
            'replaced' => $has(Contract::RUN_REPLACED),
            'claim' => $fixed['claim'] + $fixed['turn'],
            'attempts' => $fixed['attempts'],
            'due' => $fixed['due'],
            'lease_until' => $fixed['lease_until'],
            'worker' => $packed->sized(Contract::WORKER_LENGTH_BYTES),
            'progress' => $has(Contract::RUN_PROGRESS) ? self::progress($packed) : null,
            'past' => $has(Contract::RUN_PAST) ? self::past($packed) : [],
            'error' => $has(Contract::RUN_FAILED) ? $packed->rest() : null,
        ];
    }

    private static function progress(Packed $packed): array
    {
        $length = $packed->number(Contract::NOTE_LENGTH_BYTES);
        $percent = $packed->number(Contract::PERCENT_BYTES);
        $note = $packed->take($length);
        return ($percent <= Contract::PERCENT['max'] ? ['percent' => $percent] : []) + ['note' => $note];
    }

    private static function past(Packed $from): array
    {
        $packed = new Packed($from->sized(Contract::PAST_LENGTH_BYTES));
        $past = [];
        while (!$packed->isEmpty()) {
            $fixed = $packed->numbers(Contract::PAST_LAYOUT);
            $past[] = [
                'attempt' => $fixed['attempt'],
                'began_us' => $fixed['began'],
                'ended_us' => $fixed['ended'],
                'how' => Contract::PAST_END[$fixed['how']],
                'worker' => $packed->sized(Contract::WORKER_LENGTH_BYTES),
                'error' => $packed->sized(Contract::PAST_ERROR_LENGTH_BYTES),
            ];
        }
        return $past;
    }

    /**
     * Decodes ID and dead letter of each entry.
     *
     * @param list<string> $fields
     * @return list<array<string, mixed>>
     */
    public static function deadLetters(array $fields): array
    {
        return array_map(fn (array $row) => self::deadLetter(...$row), array_chunk($fields, 2));
    }

    private static function deadLetter(string $id, string $letter): array
    {
        $packed = new Packed($letter);
        $fixed = $packed->numbers(Contract::DEAD_LETTER_LAYOUT);
        $flags = $fixed['priority'];
        $error = $packed->sized(Contract::DEAD_LETTER_ERROR_LENGTH_BYTES);
        $past = $flags & Contract::PRIORITY_PAST ? self::past($packed) : [];
        $key = $flags & Contract::PRIORITY_KEYED ? $packed->sized(Contract::KEY_LENGTH_BYTES) : null;
        return [
            'id' => $id,
            'content' => Payload::fromBody($packed->rest()),
            'priority' => $flags % Contract::PRIORITY_KEYED,
            'attempts' => $fixed['attempts'],
            'max_attempts' => $fixed['max_attempts'],
            'error' => $error,
            'died_us' => $fixed['died'],
            'key' => $key,
            'past' => $past,
        ];
    }

    /**
     * Decodes ID and end of each finished dependency.
     *
     * @param list<string> $fields
     * @return list<array<string, mixed>>
     */
    public static function waited(array $fields): array
    {
        $entry = function (array $row): array {
            $packed = new Packed($row[1]);
            $fixed = $packed->numbers(Contract::FINISHED_LAYOUT);
            $end = Contract::TASK_END[$fixed['how']];
            $rest = $packed->rest();
            return ['id' => $row[0], 'end' => $end, 'at_us' => $fixed['finished']] + match (true) {
                $end === 'dead' => ['error' => $rest],
                $rest === '' => [],
                default => ['result' => Payload::fromBody($rest)],
            };
        };
        return array_map($entry, array_chunk($fields, 2));
    }

    /**
     * Decodes ID and record of each schedule.
     *
     * @param list<string> $fields
     * @return list<array<string, mixed>>
     */
    public static function schedules(array $fields): array
    {
        return array_map(fn (array $row) => self::withUpcoming(self::schedule(...$row)), array_chunk($fields, 2));
    }

    private static function withUpcoming(array $schedule): array
    {
        $next = $schedule['paused'] ? null : $schedule['next_us'];
        $upcoming = $next === null ? [] : Recurrence::upcoming($schedule['recurrence'], $next);
        return $schedule + ['upcoming_us' => $upcoming];
    }

    /** @return array<string, mixed> */
    public static function schedule(string $id, string $record): array
    {
        $packed = new Packed($record);
        $fixed = $packed->numbers(Contract::SCHEDULE_LAYOUT);
        return [
            'id' => $id,
            'recurrence' => json_decode($packed->sized(Contract::RECURRENCE_LENGTH_BYTES), true),
            'content' => Payload::fromBody($packed->rest()),
            'priority' => $fixed['priority'],
            'max_attempts' => $fixed['max_attempts'],
            'paused' => $fixed['paused'] === 1,
            'revision' => $fixed['revision'],
            'next_us' => $fixed['next'] ?: null,
            'previous_us' => $fixed['previous'] ?: null,
        ];
    }

    /**
     * Decodes ID and record of each worker.
     *
     * @param list<string> $fields
     * @return list<array<string, mixed>>
     */
    public static function workers(array $fields): array
    {
        return array_map(fn (array $row) => self::worker(...$row), array_chunk($fields, 2));
    }

    private static function worker(string $id, string $record): array
    {
        $packed = new Packed($record);
        $fixed = $packed->numbers(Contract::WORKER_LAYOUT);
        return [
            'id' => $id,
            'name' => $packed->sized(Contract::NAME_LENGTH_BYTES),
            'version' => $packed->rest(),
            'concurrency' => $fixed['concurrency'],
            'running' => $fixed['running'],
            'since_us' => $fixed['since'],
            'seen_us' => $fixed['seen'],
            'lease_until_us' => $fixed['lease_until'],
            'mode' => self::workerMode($fixed['mode']),
        ];
    }

    public static function workerMode(int $number): string
    {
        return Contract::WORKER_MODE[$number]
            ?? throw new ServerFault("the store answered the unknown mode $number of a worker", 'bug');
    }

    /**
     * Decodes the answer of `queue_stats`.
     *
     * @param list<string|int> $fields
     * @return array<string, mixed>
     */
    public static function stats(array $fields): array
    {
        $number = fn (mixed $field) => in_array($field, ['', null, '-', 0], true) ? null : (int) $field;
        [$ready, $scheduled, $leased, $blocked, $dead, $done, $dropped, $lag, $rateUntil, $claim, $paused] = $fields;
        return [
            'ready' => $ready, 'scheduled' => $scheduled, 'leased' => $leased, 'blocked' => $blocked, 'dead' => $dead,
            'done' => $done, 'dropped' => $dropped, 'lag_ms' => intdiv((int) $lag, 1_000),
            'rate_until_us' => $number($rateUntil), 'last_claim_us' => $number($claim), 'paused' => $paused === 1,
            'limits' => self::limits($fields[12], $fields[11] === '' ? null : (int) $fields[11]),
        ];
    }

    private static function limits(string $words, ?int $bound): array
    {
        $values = $words === '' ? [...array_fill(0, 6, '-'), '0', '-', '-', '0', '-'] : explode(' ', $words);
        $number = fn (string $word) => $word === '-' ? null : (int) $word;
        [$concurrency, $n, $per, $keyConcurrency, $keyN, $keyPer] = array_map($number, $values);
        [$age, $count, , $events] = array_map($number, array_slice($values, 7));
        $rate = fn (?int $n, ?int $per) => $n === null ? null : ['n' => $n, 'per_ms' => intdiv($per, 1_000)];
        return [
            'bound' => $bound,
            'overflow' => Contract::OVERFLOW[(int) $values[9]],
            'concurrency' => $concurrency,
            'rate' => $rate($n, $per),
            'per_key' => [
                'concurrency' => $keyConcurrency, 'rate' => $rate($keyN, $keyPer), 'fifo' => $values[6] === '1',
            ],
            'retention' => $age === null ? null : ['age_ms' => intdiv($age, 1_000), 'count' => $count],
            'events' => $events,
        ];
    }

    /**
     * Decodes the holder of a lock. Null if the lock is free.
     *
     * @param list<string|int> $fields
     * @return ?array<string, mixed>
     */
    public static function holder(array $fields): ?array
    {
        if ($fields === []) {
            return null;
        }
        [, $fence, $leaseUntil, $record] = $fields;
        $packed = new Packed($record);
        $since = $packed->numbers(Contract::HOLDER_LAYOUT)['since'];
        return ['fence' => $fence] + self::owner($packed) + ['since_us' => $since, 'lease_until_us' => $leaseUntil];
    }

    /**
     * Decodes token and record of each waiter. The first one is next.
     *
     * @param list<string> $fields
     * @return list<array<string, mixed>>
     */
    public static function waiters(array $fields): array
    {
        $waiters = [];
        foreach (array_chunk($fields, 2) as [, $record]) {
            $packed = new Packed($record);
            $fixed = $packed->numbers(Contract::WAITER_LAYOUT);
            $times = ['since_us' => $fixed['since'], 'wait_until_us' => $fixed['until']];
            $waiters[$fixed['ticket']] = self::owner($packed) + $times;
        }
        ksort($waiters);
        $withPosition = fn (int $before, array $waiter) => ['position' => $before + 1] + $waiter;
        return array_map($withPosition, array_keys(array_values($waiters)), array_values($waiters));
    }

    /** Host, process and label, after an inbox. */
    private static function owner(Packed $packed): array
    {
        $packed->take(Contract::INBOX_BYTES);
        $pid = $packed->numbers(Contract::OWNER_LAYOUT)['pid'];
        return ['host' => $packed->sized(Contract::HOST_LENGTH_BYTES), 'pid' => $pid, 'label' => $packed->rest()];
    }

    /**
     * Decodes a hold.
     *
     * @param list<string> $skus names by number
     * @return array<string, mixed>
     */
    public static function hold(string $hold, string $id, array $skus): array
    {
        $packed = new Packed($hold);
        $fixed = $packed->numbers(Contract::HOLD_LAYOUT);
        $buyer = $packed->sized(Contract::BUYER_LENGTH_BYTES);
        $packed->take($fixed['lines_length']);
        $units = [];
        while (!$packed->isEmpty()) {
            ['sku' => $sku, 'first' => $first, 'last' => $last] = $packed->numbers(Contract::UNITS_LAYOUT);
            foreach (range($first, $last) as $unit) {
                $units[] = ['sku' => $skus[$sku], 'unit' => $unit];
            }
        }
        return [
            'id' => bin2hex($id),
            'buyer' => $buyer,
            'units' => $units,
            'state' => Contract::HOLD_STATE[$fixed['state']],
            'deadline_us' => $fixed['deadline'],
            'seq' => $fixed['event'],
            'generation' => $fixed['generation'],
        ];
    }

    /** @return array<string, mixed> */
    public static function sku(string $name, string $packed): array
    {
        $sku = (new Packed($packed))->numbers(Contract::SKU_LAYOUT);
        return [
            'sku' => $name,
            'total' => $sku['total'],
            'free' => $sku['total'] + $sku['returned'] - $sku['next'] - $sku['ahead'],
            'held' => $sku['held'],
            'confirmed' => $sku['confirmed'],
            'withdrawn' => $sku['withdrawn'],
            'per_buyer' => $sku['per_buyer'],
        ];
    }
}
