<?php

declare(strict_types=1);

namespace Rushgate;

/** Outcome of enqueueing one task. */
final class Enqueued
{
    /**
     * @param string $outcome `added`, `kept`, `replaced`, `displaced` (added, and the oldest waiting task was dropped),
     *     `dropped` (the queue is full and drops new tasks), `recent` (the ID is in its uniqueness window), `full` or
     *     `refused` (see `why`)
     * @param ?int $revision revision of the live task
     * @param ?int $bound capacity of the queue, with `dropped` and `full`
     * @param ?int $untilUs end of the uniqueness window, with `recent`
     * @param ?string $other ID of the dropped task with `displaced`; of the dependency or batch with `refused`
     * @param ?string $why with `refused`: `unknown`, `not_open` or `taken`
     */
    public function __construct(
        public readonly string $outcome,
        public readonly ?int $revision = null,
        public readonly ?int $bound = null,
        public readonly ?int $untilUs = null,
        public readonly ?string $other = null,
        public readonly ?string $why = null,
    ) {
    }

    /** True if the ID has a live task now. */
    public function isLive(): bool
    {
        return $this->revision !== null;
    }
}
