<?php

declare(strict_types=1);

namespace Rushgate;

use Rushgate\Internal\Checks;

/** Retry delays of failed tasks: exponential, capped, with full jitter. Times are in seconds. */
final class Backoff
{
    /**
     * @param int|float $base delay after the first failure. Default: 1
     * @param int|float $factor multiplier for each further failure: 1 or more. Default: 2
     * @param int|float $max longest delay: at most 400 days. Default: 3,600
     * @param bool $jitter draws each delay from 0 to that value, so that tasks that failed together do not retry
     *     together. Default: true
     */
    public function __construct(
        private readonly int|float $base = 1,
        private readonly int|float $factor = 2,
        private readonly int|float $max = 3_600,
        private readonly bool $jitter = true,
    ) {
        Checks::delay('the base of the backoff', $base);
        Checks::delay('the longest delay', $max);
        Checks::range('the factor of the backoff', (int) min($factor, 1_000), 1, 1_000);
    }

    /** Delay after an attempt, in seconds. */
    public function delay(int $attempt): float
    {
        $longest = min((float) $this->max, $this->base * $this->factor ** ($attempt - 1));
        return $this->jitter ? $longest * random_int(0, 1_000_000) / 1e6 : $longest;
    }
}
