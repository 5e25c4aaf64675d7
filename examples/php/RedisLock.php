<?php

declare(strict_types=1);

require_once __DIR__ . '/Rushgate.php';

/**
 * The article's lock on Rushgate's functions, with the same methods and defaults.
 *
 * One process holds the lock at a time, across Rushgate programs in every language. Waiters are served in FIFO order. Only
 * the holder can release or extend the lock.
 */
final class RedisLock
{
    private const ACQUIRED = [1 => 'granted', 'in_line', 'busy'];
    private const RELEASED = ['lost', 'released'];

    private readonly Rushgate $rushgate;
    /**
     * @var array<int, array<string, array{token: string, fence: int}>> held locks by process and name. A lock belongs to
     *     the process that acquired it, not to its forks.
     */
    private array $held = [];

    public function __construct(Redis|RedisCluster $redis, mixed $auth = null)
    {
        $this->rushgate = new Rushgate($redis, $auth);
    }

    /**
     * Acquires a lock.
     *
     * @param int|float $timeout maximum wait in seconds; 0 to try once
     * @param int|float $expire lease in seconds; `expire` extends it
     * @param int $waitIntervalUs polling interval in µs, in case a notification was lost. Normally the release notifies
     *     this process at once. The position in the wait queue is kept meanwhile.
     * @return bool false if the lock was not free within the timeout
     */
    public function lock($name, $timeout = 0, $expire = 15, $waitIntervalUs = 100000): bool
    {
        if ($name === null || $name === '') {
            return false;
        }
        $name = Rushgate::nfc($name);
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
                // Leaving the wait queue also releases a grant whose answer was lost.
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
        $this->rushgate->call('lock_leave', self::keys($name), [$token], $patience);
    }

    /** Keys of a lock. The name may be a number, as in the article. */
    private static function keys($name): array
    {
        return Rushgate::lockKeys((string) $name);
    }

    /** Returns [1, fence, lease until, lease left], [2, position, check after] or [3, retry after, waiters]. */
    private function ask($name, string $token, float $expire, float $wait, string $inbox): array
    {
        return $this->rushgate->call('lock_acquire', self::keys($name), [
            $token, Rushgate::us($expire), Rushgate::us($wait), 0, $inbox, $this->rushgate->owner(),
        ])[0];
    }

    /** Releases a lock. False if it was already lost: another client may have held it since. */
    public function unlock($name): bool
    {
        if (!$held = $this->held($name)) {
            return false;
        }
        unset($this->held[getmypid()][Rushgate::nfc($name)]);
        [$outcome] = $this->rushgate->call('lock_release', self::keys($name), [$held['token']]);
        return Rushgate::meaning(self::RELEASED, $outcome) === 'released';
    }

    /** Releases all locks of this object. False if any of them was already lost. */
    public function unlockAll(): bool
    {
        $released = array_map(fn ($name) => $this->unlock($name), array_keys($this->held[getmypid()] ?? []));
        return !in_array(false, $released, true);
    }

    /** Extends the lease to $expire seconds from now. False if the lock was already lost. */
    public function expire($name, $expire): bool
    {
        if (!$held = $this->held($name)) {
            return false;
        }
        $arguments = [$held['token'], Rushgate::us($expire)];
        return $this->rushgate->call('lock_extend', self::keys($name), $arguments) !== [];
    }

    /** True if this object holds the lock now. */
    public function isLocking($name): bool
    {
        $held = $this->held($name);
        return $held && $this->rushgate->call('lock_held', self::keys($name), [$held['token']]) !== [];
    }

    /**
     * Fencing token: grows with each grant of this lock. The protected resource should reject a lower one. Null if the lock
     * was not acquired.
     */
    public function fence($name): ?int
    {
        return $this->held($name)['fence'] ?? null;
    }

    /** Token and fence of a lock held by this process. */
    private function held($name): ?array
    {
        return $this->held[getmypid()][Rushgate::nfc($name)] ?? null;
    }
}
