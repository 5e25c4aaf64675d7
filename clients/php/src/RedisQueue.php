<?php

declare(strict_types=1);

namespace Rushgate;

use Rushgate\Exception\Stale;

/**
 * The article's queue, with the same methods and defaults, and `claim`, `complete` and `retry`.
 *
 * Tasks are arrays with `id`, `score`, `attempt`, `contentType`, `kind` and `payload`. The score is opaque: it is the
 * task's ticket.
 */
final class RedisQueue
{
    /** What happens if the ID is live: keep the task, replace it, or take the earlier due time. */
    public const KEEP = 0, REPLACE = 1, EARLIEST = 2;

    private readonly Client $client;

    /**
     * @param \Redis|\RedisCluster|Client $redis a connection whose address and credentials are used for connections of
     *     its own, or a client
     * @param mixed $auth credentials of a `RedisCluster`, which does not expose its own: a password, or user and password
     */
    public function __construct(\Redis|\RedisCluster|Client $redis, mixed $auth = null)
    {
        $this->client = $redis instanceof Client ? $redis : Client::connect(Redis\Url::of($redis, $auth));
    }

    /**
     * Enqueues tasks.
     *
     * @param string|int|array $id one ID or several
     * @param int|float $timeout 0 enqueues nothing. The client's retry budget limits the time of a call
     * @param int|float $afterInterval delay in seconds
     * @param int $onDuplicate KEEP the live task, as the article's code does, or REPLACE it, as its text says
     * @param string|array $payload a string is stored as bytes, an array as JSON
     * @param int|float $uniqueFor uniqueness window in seconds; 0 for none
     * @return bool false if the queue is full, or no ID was given
     */
    public function enqueue(
        $name,
        $id,
        $timeout = 10,
        $afterInterval = 0,
        int $onDuplicate = self::KEEP,
        string|array $payload = '',
        int $priority = Contract::DEFAULT_PRIORITY,
        $uniqueFor = 0,
        ?string $kind = null,
    ): bool {
        if (empty($name) || empty($id) || $timeout <= 0) {
            return false;
        }
        $task = fn ($one) => new NewTask(
            (string) $one,
            is_array($payload) ? $payload : Payload::bytes($payload),
            $kind,
            delay: max($afterInterval, 0),
            priority: $priority,
            onDuplicate: Contract::ON_DUPLICATE[$onDuplicate] ?? 'keep',
            uniqueFor: $uniqueFor > 0 ? $uniqueFor : null,
        );
        $enqueued = $this->client->queue((string) $name)->enqueueAll(array_map($task, array_values((array) $id)));
        return array_intersect(array_column($enqueued, 'outcome'), ['full', 'refused']) === [];
    }

    /** Removes a task. False if it was changed since it was read, or a worker is running it. */
    public function dequeue($name, $id, $score, $timeout = 10): bool
    {
        return $this->client->queue((string) $name)->dequeue((string) $score);
    }

    /** Reads the first due tasks: one task or false if $count is 1, a list otherwise. */
    public function top($name, $count = 1): array|false
    {
        return self::read($this->client->queue((string) $name)->top($count), $count);
    }

    /**
     * Removes and returns the first due tasks: one task or false if $count is 1, a list otherwise. They are lost if
     * this process dies: prefer {@see claim}.
     */
    public function pop($name, $count = 1, $timeout = 10): array|false
    {
        return self::read($this->client->queue((string) $name)->pop($count), $count);
    }

    /**
     * Claims due tasks under a lease. Call {@see complete} or {@see retry} for each before the lease expires.
     *
     * @param int|float $lease lease in seconds
     * @param int|float $wait maximum wait for the first task, in seconds
     */
    public function claim($name, int $count = 1, int|float $lease = 30, int|float $wait = 0): array
    {
        return array_map(self::row(...), $this->client->queue((string) $name)->claim($count, $lease, $wait));
    }

    /** Completes a task. False if the claim has ended. */
    public function complete($name, array $task): bool
    {
        try {
            $this->client->queue((string) $name)->complete((string) $task['score']);
            return true;
        } catch (Stale) {
            return false;
        }
    }

    /** Fails the attempt: the task is due again after $delay seconds, or becomes a dead letter. */
    public function retry($name, array $task, string $error, int|float $delay = 0, bool $giveUp = false): bool
    {
        try {
            $this->client->queue((string) $name)->retry((string) $task['score'], $error, $delay, $giveUp);
            return true;
        } catch (Stale) {
            return false;
        }
    }

    /** @param list<Task> $tasks */
    private static function read(array $tasks, int $count): array|false
    {
        $rows = array_map(self::row(...), $tasks);
        return $count === 1 ? ($rows[0] ?? false) : $rows;
    }

    private static function row(Task $task): array
    {
        return [
            'id' => $task->id,
            'score' => $task->ticket,
            'attempt' => $task->attempt,
            'contentType' => $task->payload->contentType,
            'kind' => $task->kind(),
            'payload' => $task->value(),
        ];
    }
}
