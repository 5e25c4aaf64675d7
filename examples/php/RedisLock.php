<?php

declare(strict_types=1);

require_once __DIR__ . '/Rushgate.php';

/**
 * The article's lock: the same methods and defaults, on Rushgate's functions.
 *
 * It holds for one process at a time, shared with Rushgate programs in every language. Waiting is a place in line,
 * first come first served; nobody releases or lengthens what is another's.
 */
final class RedisLock
{
    private const ACQUIRED = [1 => 'granted', 'in_line', 'busy'];
    private const RELEASED = ['lost', 'released'];

    private readonly Rushgate $rushgate;
    /**
     * @var array<int, array<string, array{token: string, fence: int}>> what this object was granted, by process and name:
     *     a lock stays with the process that took it, not with its forks
     */
    private array $held = [];

    public function __construct(Redis|RedisCluster $redis, mixed $auth = null)
    {
        $this->rushgate = new Rushgate($redis, $auth);
    }

    /**
     * Takes a lock.
     *
     * @param int|float $timeout how long to wait in line, in seconds; 0 to try once
     * @param int|float $expire how long to hold it at most, in seconds, unless `expire` lengthens it
     * @param int $waitIntervalUs the longest sleep between two looks at the line, in µs. The place in line is kept
     *     meanwhile, and the release wakes this process at once: it is what a lost wake-up costs
     * @return bool false if others had it all the time
     */
    public function lock($name, $timeout = 0, $expire = 15, $waitIntervalUs = 100000): bool
    {
        if ($name === null || $name === '') {
            return false;
        }
        $token = $this->rushgate->token();
        $inbox = $timeout > 0 ? $this->rushgate->inbox() : null;
        $until = Rushgate::now() + $timeout;
        try {
            do {
                $left = max(0, $until - Rushgate::now());
                [$outcome, $number, $checkAfter] = $this->ask($name, $token, $expire, $left, $inbox?->id ?? str_repeat("\0", 8));
                if (Rushgate::meaning(self::ACQUIRED, $outcome) === 'granted') {
                    $this->held[getmypid()][$name] = ['token' => $token, 'fence' => $number];
                    return true;
                }
                if ($left > 0) {
                    $inbox?->wait(min($left, max($checkAfter, 1_000) / 1e6, $waitIntervalUs / 1e6));
                }
            } while ($left > 0);
        } catch (Throwable $interruption) {
            try {
                // Leaving also releases a grant whose answer did not arrive.
                $this->leave($name, $token, 1);
            } catch (Throwable) {
            }
            throw $interruption;
        }
        if ($timeout > 0) {
            $this->leave($name, $token);
        }
        return false;
    }

    private function leave($name, string $token, float $patience = 5): void
    {
        $this->rushgate->call('lock_leave', self::keys($name), [$token, Rushgate::CLAIM_WINDOW_US], $patience);
    }

    /** A name may be a number, as in the article. */
    private static function keys($name): array
    {
        return Rushgate::lockKeys((string) $name);
    }

    /** [1, fence, lease until, lease left], [2, position, check after] or [3, retry after, waiters]. */
    private function ask($name, string $token, float $expire, float $wait, string $inbox): array
    {
        return $this->rushgate->call('lock_acquire', self::keys($name), [
            $token, Rushgate::us($expire), Rushgate::us($wait), 0, Rushgate::CLAIM_WINDOW_US, $inbox, $this->rushgate->owner(),
        ])[0];
    }

    /** Gives a lock up. False if it was not held any more: then another may have had it since. */
    public function unlock($name): bool
    {
        if (!$held = $this->held($name)) {
            return false;
        }
        unset($this->held[getmypid()][$name]);
        $arguments = [$held['token'], Rushgate::CLAIM_WINDOW_US];
        [$outcome] = $this->rushgate->call('lock_release', self::keys($name), $arguments);
        return Rushgate::meaning(self::RELEASED, $outcome) === 'released';
    }

    /** Gives up all that this object holds. False if one of them was not held any more. */
    public function unlockAll(): bool
    {
        $released = array_map(fn ($name) => $this->unlock($name), array_keys($this->held[getmypid()] ?? []));
        return !in_array(false, $released, true);
    }

    /** Starts the lease anew, for so many seconds from now. False if it was not held any more. */
    public function expire($name, $expire): bool
    {
        if (!$held = $this->held($name)) {
            return false;
        }
        $arguments = [$held['token'], Rushgate::us($expire)];
        return $this->rushgate->call('lock_extend', self::keys($name), $arguments) !== [];
    }

    /** Whether this object holds the lock now. */
    public function isLocking($name): bool
    {
        $held = $this->held($name);
        return $held && $this->rushgate->call('lock_held', self::keys($name), [$held['token']]) !== [];
    }

    /**
     * A number that is greater with each grant of this lock: whatever it protects should refuse a smaller one. Null if
     * the lock was not taken.
     */
    public function fence($name): ?int
    {
        return $this->held($name)['fence'] ?? null;
    }

    /** What this process was granted. */
    private function held($name): ?array
    {
        return $this->held[getmypid()][$name] ?? null;
    }
}
