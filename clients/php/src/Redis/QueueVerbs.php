<?php

declare(strict_types=1);

namespace Rushgate\Redis;

use Rushgate\Contract;
use Rushgate\Exception\Dead;
use Rushgate\Exception\NotFound;
use Rushgate\Exception\QueueFull;
use Rushgate\Exception\Refused;
use Rushgate\Exception\RushgateException;
use Rushgate\Internal\Clock;
use Rushgate\Internal\Recurrence;
use Rushgate\Internal\Text;
use Rushgate\NewTask;
use Rushgate\Payload;
use Rushgate\Ticket;

/**
 * Queues over Redis.
 *
 * @internal
 */
trait QueueVerbs
{
    /** @var array<string, true> queues that were added to the directory */
    private array $listed = [];

    public function enqueue(string $queue, array $tasks): array
    {
        $this->list($queue);
        $arguments = [];
        foreach ($tasks as $task) {
            $op = $arguments === [] ? self::op() : '';
            array_push($arguments, $op, $task->id, self::terms($task), $task->payload->toBody());
        }
        [$answers] = $this->caller->call('queue_enqueue', $queue, $arguments, 'queue_replay');
        return self::enqueued($answers);
    }

    private static function terms(NewTask $task): string
    {
        $moment = fn (int|float|null $after, ?int $at) => $at ?? '+' . Clock::toMicros($after ?? 0);
        $hasDeadline = $task->deadline !== null || $task->deadlineUs !== null;
        $dependencies = $task->after !== [] || $task->heldOpen || $task->partOf !== null;
        return implode(' ', [
            $moment($task->delay, $task->dueUs),
            $task->priority,
            array_search($task->onDuplicate, Contract::ON_DUPLICATE, true),
            Clock::toMicros($task->maxWait ?? 0),
            $task->maxAttempts,
        ])
            . ($hasDeadline ? '<' . $moment($task->deadline, $task->deadlineUs) : '')
            . ($task->uniqueFor === null ? '' : '!' . Clock::toMicros($task->uniqueFor))
            . ($task->key === null ? '' : " $task->key")
            . ($dependencies ? self::dependencies($task) : '');
    }

    private static function dependencies(NewTask $task): string
    {
        return "\n" . array_search($task->ifDead, Contract::IF_DEAD, true) . (int) $task->heldOpen
            . ($task->partOf === null ? '' : " $task->partOf")
            . implode('', array_map(fn (string $id) => "\n$id", $task->after));
    }

    /** Splits the answers: an outcome and one value each, and an ID with some outcomes. */
    private static function enqueued(array $answers): array
    {
        $outcomes = [];
        while ($answers !== []) {
            $outcome = Contract::ENQUEUED[array_shift($answers)];
            $value = array_shift($answers);
            $outcomes[] = ['outcome' => $outcome] + match ($outcome) {
                'added', 'kept', 'replaced' => ['revision' => $value],
                'full', 'dropped' => ['bound' => (int) $value],
                'displaced' => ['revision' => $value, 'dropped' => array_shift($answers)],
                'recent' => ['until_us' => (int) $value],
                'refused' => ['why' => Contract::UNMET[$value], 'task' => array_shift($answers)],
            };
        }
        return $outcomes;
    }

    /** Adds the queue to the directory of queues. */
    private function list(string $queue): void
    {
        if (!isset($this->listed[$queue])) {
            $this->caller->send(Contract::QUEUE_DIRECTORY, ['ZADD', Contract::QUEUE_DIRECTORY, 0, $queue]);
            $this->listed[$queue] = true;
        }
    }

    public function claim(string $queue, int $n, float $lease, float $wait, string $worker, ?\Closure $stopped): array
    {
        $until = Clock::now() + $wait;
        $isRegistered = false;
        try {
            while (true) {
                $arguments = [self::op(), $n, Clock::toMicros($lease), $worker];
                [$answer] = $this->caller->call('queue_claim', $queue, $arguments);
                $nextDue = array_shift($answer);
                $wakeUps = array_shift($answer);
                $left = $until - Clock::now();
                if ($answer !== [] || $left <= 0 || ($stopped !== null && $stopped())) {
                    return Records::tasks($answer);
                }
                $inbox = $this->inbox()->open();
                [$missed] = $this->caller->call('queue_listen', $queue, [$inbox->hex(), $wakeUps]);
                if ($missed !== 0) {
                    continue;
                }
                $isRegistered = true;
                // A signal during the calls above does not end the wait below.
                if ($stopped !== null && $stopped()) {
                    return [];
                }
                $sleep = min($nextDue === '' ? $left : (int) $nextDue / 1e6, Contract::CLAIM_SLEEP);
                $inbox->wait(max(0.001, min($left, $sleep)));
                $isRegistered = !$inbox->takeReady($queue);
            }
        } finally {
            if ($isRegistered) {
                $this->stopListening($queue);
            }
        }
    }

    /**
     * Ends the registration as a listener, which would swallow the wake-up of a worker that is free. The server skips
     * inboxes without a subscription.
     */
    private function stopListening(string $queue): void
    {
        $this->inbox()->drain();
        $isWoken = $this->inbox()->takeReady($queue);
        $this->inbox = null;
        if ($isWoken) {
            try {
                $this->caller->call('queue_ring', $queue);
            } catch (RushgateException) {
                // The other workers look again after some seconds.
            }
        }
    }

    public function top(string $queue, int $n): array
    {
        return Records::tasks($this->caller->call('queue_top', $queue, [$n]));
    }

    public function pop(string $queue, int $n): array
    {
        return Records::tasks($this->caller->call('queue_pop', $queue, [self::op(), $n]));
    }

    public function complete(string $queue, array $tickets, ?Payload $result, bool $discarded): array
    {
        $isPlain = $result === null && !$discarded;
        $more = $isPlain ? [] : [(int) $discarded, $result?->toBody() ?? ''];
        $arguments = [];
        foreach ($tickets as $text) {
            $ticket = Ticket::parse($text);
            $op = $arguments === [] ? self::op() : '';
            array_push($arguments, $op, $ticket->id, $ticket->claim, ...$more);
        }
        [$outcomes] = $this->caller->call($isPlain ? 'queue_complete' : 'queue_finish', $queue, $arguments);
        return array_map(fn (int $outcome) => Contract::COMPLETED[$outcome], $outcomes);
    }

    public function retry(string $queue, string $ticket, string $error, float $delay, bool $giveUp): string
    {
        $ticket = Ticket::parse($ticket);
        [$outcome] = $this->caller->call('queue_retry', $queue, [
            self::op(),
            $ticket->id,
            $ticket->claim,
            Clock::toMicros($delay),
            (int) $giveUp,
            Text::cut($error, Contract::ERROR_BYTES),
        ]);
        return Contract::RETRIED[$outcome];
    }

    public function release(string $queue, array $tickets, float $delay): array
    {
        $arguments = [self::op()];
        foreach (array_map(Ticket::parse(...), $tickets) as $ticket) {
            array_push($arguments, $ticket->id, $ticket->claim, Clock::toMicros($delay));
        }
        $outcomes = $this->caller->call('queue_release', $queue, $arguments);
        return array_map(fn (int $outcome) => Contract::TASK_RELEASED[$outcome], $outcomes);
    }

    public function extend(string $queue, array $tickets, float $lease, ?int $percent, ?string $note): array
    {
        $isNoted = (int) ($percent !== null || $note !== null);
        $arguments = [Clock::toMicros($lease)];
        foreach (array_map(Ticket::parse(...), $tickets) as $ticket) {
            array_push($arguments, $ticket->id, $ticket->claim, $isNoted, (string) $percent, (string) $note);
        }
        $outcomes = $this->caller->call('queue_extend', $queue, $arguments);
        return array_map(fn (int $outcome) => Contract::TASK_EXTENDED[$outcome], $outcomes);
    }

    public function cancel(string $queue, string $task): string
    {
        [$outcome] = $this->caller->call('queue_cancel', $queue, [self::op(), $task]);
        return Contract::CANCELED[$outcome];
    }

    public function reschedule(string $queue, string $task, float $delay, ?int $dueUs): array
    {
        $due = $dueUs === null ? [Clock::toMicros($delay), 1] : [$dueUs, 0];
        [$outcome, $time] = $this->caller->call('queue_reschedule', $queue, [self::op(), $task, ...$due]);
        $outcome = Contract::RESCHEDULED[$outcome];
        return ['outcome' => $outcome, $outcome === 'too_late' ? 'deadline_us' : 'due_us' => $time];
    }

    public function dequeue(string $queue, string $ticket): string
    {
        $ticket = Ticket::parse($ticket);
        $arguments = [self::op(), $ticket->id, $ticket->revision, $ticket->claim];
        [$outcome] = $this->caller->call('queue_dequeue', $queue, $arguments);
        return Contract::DEQUEUED[$outcome];
    }

    public function clearUnique(string $queue, string $task): ?int
    {
        [$until] = $this->caller->call('queue_clear_unique', $queue, [self::op(), $task]);
        return (int) $until ?: null;
    }

    public function closeBatch(string $queue, string $task): array
    {
        $answer = $this->caller->call('queue_close_batch', $queue, [self::op(), $task]);
        return ['outcome' => Contract::CLOSED[$answer[0]], 'left' => $answer[1] ?? 0];
    }

    public function task(string $queue, string $task): ?array
    {
        return Records::infos($this->caller->call('queue_tasks', $queue, [0, $task]))[0] ?? null;
    }

    public function waitForTask(string $queue, string $task, float $wait): array
    {
        if ($this->stats($queue)['limits']['retention'] === null) {
            throw new Refused('the queue has no retention, so clients cannot wait for its tasks', 'nothing_kept');
        }
        $until = Clock::now() + $wait;
        while (true) {
            $inbox = $this->inbox()->open();
            $isLive = $this->caller->call('queue_watch', $queue, [$inbox->hex(), $task]) === 1;
            $info = $this->task($queue, $task);
            if ($info === null) {
                throw $this->ending($queue, $task);
            }
            $left = $until - Clock::now();
            if ($info['state'] === 'done' || $left <= 0) {
                return $info;
            }
            if ($isLive) {
                $inbox->wait(min($left, Contract::RESULT_SLEEP));
            }
        }
    }

    private function ending(string $queue, string $task): Dead|NotFound
    {
        $letter = Records::deadLetters($this->caller->call('queue_dead_letter', $queue, [$task]))[0] ?? null;
        if ($letter === null) {
            return new NotFound("there is no task `$task`", 'not_found');
        }
        ['attempts' => $attempts, 'error' => $error, 'died_us' => $died] = $letter;
        $details = ['error' => $error, 'attempts' => $attempts, 'died_us' => $died];
        return new Dead("the task is dead after $attempts attempts: $error", 'dead', $details);
    }

    public function waits(string $queue, string $task): ?array
    {
        $answer = $this->caller->call('queue_waits', $queue, [$task]);
        if ($answer === []) {
            return null;
        }
        [$open, $ifDead, $left, $over, $dead] = $answer;
        $other = fn (array $row) => ['id' => $row[0]] + ($row[1] === 1 ? ['error' => $row[2]] : []);
        return [
            'open' => $open === 1,
            'if_dead' => Contract::IF_DEAD[$ifDead],
            'left' => $left,
            'over' => $over,
            'dead' => $dead,
            'first' => array_map($other, array_chunk(array_slice($answer, 5), 3)),
        ];
    }

    public function dependents(string $queue, string $task, int $n): array
    {
        return $this->caller->call('queue_dependents', $queue, [$task, $n]);
    }

    public function waited(string $queue, string $task, string $after, int $limit): array
    {
        return Records::waited($this->caller->call('queue_waited', $queue, [$task, $after, $limit]));
    }

    public function why(string $queue, string $task): array
    {
        return (new Why($this, $this->caller, $queue))->reasons($task);
    }

    public function stats(string $queue): array
    {
        return Records::stats($this->caller->call('queue_stats', $queue));
    }

    public function pause(string $queue, bool $paused): void
    {
        $this->list($queue);
        $this->caller->call('queue_pause', $queue, [(int) $paused]);
    }

    public function limit(string $queue, array $limits): void
    {
        $this->list($queue);
        $rate = fn (?array $rate) => $rate === null ? ['', ''] : [$rate['n'], $rate['per_ms'] * 1_000];
        $perKey = $limits['per_key'] ?? [];
        $retention = $limits['retention'] ?? null;
        $this->caller->call('queue_limit', $queue, [
            $limits['bound'] ?? '',
            $limits['concurrency'] ?? '',
            ...$rate($limits['rate'] ?? null),
            $perKey['concurrency'] ?? '',
            ...$rate($perKey['rate'] ?? null),
            (int) ($perKey['fifo'] ?? false),
            $retention === null ? '' : $retention['age_ms'] * 1_000,
            $retention['count'] ?? '',
            array_search($limits['overflow'] ?? 'refuse', Contract::OVERFLOW, true),
            $limits['events'] ?? '',
        ]);
    }

    public function dead(string $queue, string $after, int $limit): array
    {
        $limit = min($limit, Contract::BATCH['max']);
        return Records::deadLetters($this->caller->call('queue_dead', $queue, [$after, $limit]));
    }

    public function requeueDead(string $queue, ?array $ids): array
    {
        $arguments = [self::op(), ...self::selection($ids)];
        [$requeued, $kept] = $this->caller->call('queue_requeue_dead', $queue, $arguments);
        return ['requeued' => $requeued, 'kept' => $kept];
    }

    public function deleteDead(string $queue, ?array $ids): int
    {
        return $this->caller->call('queue_delete_dead', $queue, [self::op(), ...self::selection($ids)])[0];
    }

    private static function selection(?array $ids): array
    {
        if ($ids === null) {
            return [1];
        }
        $ids = array_values(array_unique($ids));
        sort($ids, SORT_STRING);
        return [0, ...$ids];
    }

    public function saveSchedule(string $queue, string $id, array $schedule): string
    {
        $this->list($queue);
        $recurrence = new Recurrence(array_intersect_key(
            $schedule,
            ['cron' => 1, 'zone' => 1, 'every_ms' => 1, 'missed' => 1],
        ));
        $now = $this->caller->call('queue_due_schedules', $queue, [1])[0];
        $paused = $schedule['paused'] ?? null;
        [$outcome] = $this->caller->call('queue_schedule', $queue, [
            $id,
            $recurrence->toJson(),
            $schedule['content']->toBody(),
            $schedule['priority'],
            $schedule['max_attempts'],
            $recurrence->nextAfter($now),
            $paused === null ? '' : (int) $paused,
            '',
        ]);
        $outcome = Contract::SCHEDULED[$outcome];
        if ($outcome === 'full') {
            throw new QueueFull('the queue has the maximum number of schedules', 'queue_full');
        }
        return $outcome;
    }

    public function schedules(string $queue, string $after, int $limit): array
    {
        return Records::schedules($this->caller->call('queue_schedules', $queue, [$after, $limit]));
    }

    public function deleteSchedule(string $queue, string $id): bool
    {
        return $this->caller->call('queue_unschedule', $queue, [$id]) === 1;
    }

    public function fireSchedules(string $queue, float $longest, \Closure $unreadable): ?float
    {
        do {
            $answer = $this->caller->call('queue_due_schedules', $queue, [Contract::BATCH['max']]);
            [$now, $next] = $answer;
            $fired = false;
            foreach (array_chunk(array_slice($answer, 2), 2) as [$id, $record]) {
                $revision = 0;
                try {
                    $schedule = Records::schedule($id, $record);
                    $revision = $schedule['revision'];
                    $step = self::stepOf($schedule, $now);
                } catch (\Throwable $error) {
                    // Whatever is wrong with this one, the others fire.
                    $unreadable($id, $revision, $error);
                    continue;
                }
                $this->caller->call('queue_fire', $queue, $step);
                // More occurrences may be due.
                $fired = true;
            }
        } while ($fired);
        return $next > 0 ? min($longest, max(0, $next - $now) / 1e6) : $longest;
    }

    public function announce(string $queue, string $id, array $worker): string
    {
        $this->list($queue);
        $mode = $this->caller->call('queue_announce', $queue, [
            $id,
            $worker['name'],
            $worker['version'],
            $worker['concurrency'],
            $worker['running'],
            $worker['lease_ms'] * 1_000,
        ]);
        return Records::workerMode($mode);
    }

    public function endWorker(string $queue, string $id): void
    {
        $this->caller->call('queue_announce', $queue, [$id, '', '', 1, 0, 0]);
    }

    public function workers(string $queue, string $after, int $limit): array
    {
        return Records::workers($this->caller->call('queue_workers', $queue, [$after, $limit]));
    }

    public function setWorker(string $queue, string $id, string $mode): bool
    {
        return $this->caller->call('queue_set_worker', $queue, [$id, array_search($mode, Contract::WORKER_MODE, true)]) === 1;
    }

    /** What `queue_fire` gets: a schedule and its due occurrences. */
    private static function stepOf(array $schedule, int $now): array
    {
        $most = min(max(intdiv(Recurrence::STEP_BYTES, 1 + strlen($schedule['content']->toBody())), 1), Contract::BATCH['max']);
        [$runs, $next] = (new Recurrence((array) $schedule['recurrence'] + ['missed' => 'once']))
            ->due($schedule['next_us'], $now, $most);
        $step = [$schedule['id'], $schedule['revision'], $next];
        foreach ($runs as $at) {
            // A schedule that was changed while another program fired it may list an occurrence again.
            if ($at > $schedule['previous_us']) {
                array_push($step, $schedule['id'] . '@' . Recurrence::written($at), $at);
            }
        }
        return $step;
    }
}
