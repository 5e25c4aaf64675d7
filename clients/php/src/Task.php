<?php

declare(strict_types=1);

namespace Rushgate;

use Rushgate\Exception\Stale;
use Rushgate\Exception\Undecodable;

/** A task that was claimed or read. Moments are µs since 1970 on the store's clock. */
final class Task
{
    /**
     * @internal
     * @param ?int $fence fencing token of the claim: grows with each claim of the queue. Null if it is not claimed
     * @param ?int $claimedUs when it was claimed, exact to the duration of the claiming call. Null if it is not claimed
     * @param int $attempt number of claims so far, including this one
     */
    public function __construct(
        public readonly Queue $queue,
        public readonly string $id,
        public readonly string $ticket,
        public readonly Payload $payload,
        public readonly int $revision,
        public readonly ?int $fence,
        public readonly int $dueUs,
        public readonly int $priority,
        public readonly int $attempt,
        public readonly int $maxAttempts,
        public readonly ?string $key,
        public readonly ?int $deadlineUs,
        public readonly ?int $claimedUs,
    ) {
    }

    /**
     * @internal
     * @param array<string, mixed> $fields as in the HTTP API, with `content` in place of the payload's fields
     */
    public static function fromFields(Queue $queue, array $fields): self
    {
        return new self(
            $queue,
            $fields['id'],
            $fields['ticket'],
            $fields['content'],
            $fields['revision'],
            $fields['fence'] ?? null,
            $fields['due_us'],
            $fields['priority'],
            $fields['attempt'],
            $fields['max_attempts'],
            $fields['key'] ?? null,
            $fields['deadline_us'] ?? null,
            $fields['claimed_us'] ?? null,
        );
    }

    /**
     * The payload's value: decoded JSON, or a string.
     *
     * @throws Undecodable if the content type is JSON and the bytes are not. The task stays in the store
     */
    public function value(): mixed
    {
        return $this->payload->value();
    }

    /** Kind of work; null if it has none. */
    public function kind(): ?string
    {
        return $this->payload->kind;
    }

    /**
     * Completes the task. A result is kept if the queue has a retention.
     *
     * @param mixed $result a {@see Payload} or a JSON value, at most 64 KiB
     * @return string `done`, or `requeued` if a pending replacement took over
     * @throws Stale if the claim has ended
     */
    public function complete(mixed $result = null): string
    {
        return $this->queue->complete($this, $result);
    }

    /**
     * Fails the attempt. The task is due again after $delay seconds, or becomes a dead letter.
     *
     * @return string `scheduled`, `dead`, `requeued` (a pending replacement took over) or `cancelled`
     * @throws Stale if the claim has ended
     */
    public function retry(string $error, int|float $delay = 0, bool $giveUp = false): string
    {
        return $this->queue->retry($this, $error, $delay, $giveUp);
    }

    /**
     * Returns the task to the queue. The attempt does not count.
     *
     * @return string `waiting` or `cancelled`
     * @throws Stale if the claim has ended
     */
    public function release(int|float $delay = 0): string
    {
        return $this->queue->release($this, $delay);
    }

    /**
     * Extends the lease to $lease seconds from now, and reports progress if $percent or $note is set.
     *
     * @param ?int $percent 0 to 100
     * @param ?string $note what the task is doing: at most 200 bytes
     * @return bool false if a client asked to cancel the task: stop, and complete it
     * @throws Stale if the claim has ended: stop
     */
    public function extend(int|float $lease = 30, ?int $percent = null, ?string $note = null): bool
    {
        return $this->queue->extend($this, $lease, $percent, $note);
    }
}
