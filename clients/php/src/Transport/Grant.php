<?php

declare(strict_types=1);

namespace Rushgate\Transport;

/**
 * An acquired lock.
 *
 * @internal
 */
final class Grant
{
    public function __construct(
        /** 32 hexadecimal digits. */
        public readonly string $token,
        public readonly int $fence,
        /** End of the lease on this process's monotonic clock, in seconds. */
        public readonly float $until,
    ) {
    }
}
