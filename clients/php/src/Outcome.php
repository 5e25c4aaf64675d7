<?php

declare(strict_types=1);

namespace Rushgate;

/** What a handler returns to end its task in another way than by a result or an exception. */
final class Outcome
{
    private function __construct(
        /** @internal `discard`, `retry`, `give_up` or `release` */
        public readonly string $verb,
        /** @internal */
        public readonly string $error = '',
        /** @internal delay in seconds; null for that of the backoff */
        public readonly int|float|null $delay = null,
    ) {
    }

    /** Ends the task without work, because there is nothing to do. */
    public static function discard(): self
    {
        return new self('discard');
    }

    /** Fails the attempt. The task is due again after $delay seconds. Default: the worker's backoff. */
    public static function retry(string $error, int|float|null $delay = null): self
    {
        return new self('retry', $error, $delay);
    }

    /** Fails the task for good: it becomes a dead letter. */
    public static function giveUp(string $error): self
    {
        return new self('give_up', $error);
    }

    /** Returns the task to the queue, due after $delay seconds. The attempt does not count. */
    public static function release(int|float $delay = 0): self
    {
        return new self('release', '', $delay);
    }
}
