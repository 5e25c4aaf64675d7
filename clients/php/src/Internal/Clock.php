<?php

declare(strict_types=1);

namespace Rushgate\Internal;

/**
 * Monotonic time, and conversions between seconds and µs.
 *
 * @internal
 */
final class Clock
{
    /** Monotonic time in seconds. */
    public static function now(): float
    {
        return hrtime(true) / 1e9;
    }

    public static function toMicros(int|float $seconds): int
    {
        return (int) round($seconds * 1e6);
    }

    public static function toMillis(int|float $seconds): int
    {
        return (int) ceil(round($seconds * 1e3, 3));
    }

    public static function sleep(float $seconds): void
    {
        usleep(max(0, self::toMicros($seconds)));
    }
}
