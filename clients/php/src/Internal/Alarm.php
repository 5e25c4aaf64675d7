<?php

declare(strict_types=1);

namespace Rushgate\Internal;

/**
 * Timers on SIGALRM, with a resolution of 1 s. They run between two operations of the program.
 *
 * Timers belong to the process that set them: a fork has none.
 *
 * @internal
 */
final class Alarm
{
    /** @var array<int, array{at: float, every: ?float, run: \Closure}> */
    private static array $timers = [];
    private static int $process = 0;
    private static int $latest = 0;

    /** True if the program can have timers: the extension pcntl is loaded, and PHP runs on the command line. */
    public static function isAvailable(): bool
    {
        return PHP_SAPI === 'cli' && function_exists('pcntl_alarm');
    }

    /** Runs $run every $seconds. Returns an ID for {@see cancel}. */
    public static function every(float $seconds, \Closure $run): int
    {
        return self::add($seconds, $seconds, $run);
    }

    /** Runs $run once, after $seconds. */
    public static function after(float $seconds, \Closure $run): int
    {
        return self::add($seconds, null, $run);
    }

    public static function cancel(?int $id): void
    {
        if ($id !== null && self::$process === getmypid()) {
            unset(self::$timers[$id]);
        }
    }

    private static function add(float $seconds, ?float $every, \Closure $run): int
    {
        if (self::$process !== getmypid()) {
            [self::$process, self::$timers] = [getmypid(), []];
            pcntl_async_signals(true);
            pcntl_signal(SIGALRM, self::ring(...));
        }
        self::$timers[++self::$latest] = ['at' => Clock::now() + $seconds, 'every' => $every, 'run' => $run];
        self::arm();
        return self::$latest;
    }

    private static function ring(): void
    {
        $now = Clock::now();
        try {
            foreach (self::$timers as $id => ['at' => $at, 'every' => $every, 'run' => $run]) {
                if ($at > $now || !isset(self::$timers[$id])) {
                    continue;
                }
                if ($every === null) {
                    unset(self::$timers[$id]);
                } else {
                    self::$timers[$id]['at'] = $now + $every;
                }
                $run();
            }
        } finally {
            self::arm();
        }
    }

    private static function arm(): void
    {
        if (self::$timers !== []) {
            pcntl_alarm(max(1, (int) ceil(min(array_column(self::$timers, 'at')) - Clock::now())));
        }
    }
}
