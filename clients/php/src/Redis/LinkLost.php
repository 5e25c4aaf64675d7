<?php

declare(strict_types=1);

namespace Rushgate\Redis;

/**
 * A connection failed.
 *
 * @internal
 */
final class LinkLost extends \RuntimeException
{
    public function __construct(
        string $message,
        /** True if the server may have executed the command. */
        public readonly bool $mayHaveRun,
    ) {
        parent::__construct($message);
    }
}
