<?php

declare(strict_types=1);

namespace Rushgate\Internal;

/**
 * Thrown into a handler to stop it. Not an Exception, so that handlers do not catch it by accident.
 *
 * @internal
 */
final class TaskInterrupted extends \Error
{
    public const TIMEOUT = 'timeout';
    public const DEADLINE = 'deadline';
    public const LOST = 'lost';
    public const STOPPED = 'stopped';
    public const CANCELLED = 'cancelled';

    public function __construct(public readonly string $reason)
    {
        parent::__construct("the worker stops the handler: $reason");
    }
}
