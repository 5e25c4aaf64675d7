<?php

declare(strict_types=1);

namespace Rushgate;

/** A live or retained task and its state. Moments are µs since 1970 on the store's clock. */
final class TaskInfo
{
    /**
     * @internal
     * @param string $state `scheduled`, `ready`, `leased`, `blocked` or `done`
     * @param bool $waits true if it waits for other tasks or for its batch to be closed
     * @param ?string $error why its last attempt failed
     * @param ?int $percent progress in percent
     * @param ?string $note progress as text
     * @param ?string $how with `done`: `done`, `discarded`, `cancelled` or `dropped`
     * @param list<array<string, mixed>> $past its latest runs without success, as in the HTTP API
     */
    public function __construct(
        public readonly Task $task,
        public readonly string $state,
        public readonly bool $waits,
        public readonly bool $cancelled,
        public readonly bool $replaced,
        public readonly ?int $notBeforeUs,
        public readonly ?int $leaseUntilUs,
        public readonly ?string $worker,
        public readonly ?string $error,
        public readonly ?int $percent,
        public readonly ?string $note,
        public readonly ?string $how,
        public readonly ?int $finishedUs,
        public readonly ?Payload $result,
        public readonly array $past,
    ) {
    }

    /**
     * @internal
     * @param array<string, mixed> $fields
     */
    public static function fromFields(Queue $queue, array $fields): self
    {
        return new self(
            Task::fromFields($queue, $fields),
            $fields['state'],
            $fields['waits'],
            $fields['cancelled'],
            $fields['replaced'],
            $fields['not_before_us'] ?? null,
            $fields['lease_until_us'] ?? null,
            $fields['worker'] ?? null,
            $fields['error'] ?? null,
            $fields['progress']['percent'] ?? null,
            $fields['progress']['note'] ?? null,
            $fields['finished']['how'] ?? null,
            $fields['finished']['at_us'] ?? null,
            $fields['finished']['result'] ?? null,
            $fields['past'],
        );
    }

    /** True if the task has finished. */
    public function isDone(): bool
    {
        return $this->state === 'done';
    }
}
