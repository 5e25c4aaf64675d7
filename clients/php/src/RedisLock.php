<?php

declare(strict_types=1);

namespace Rushgate;

use Rushgate\Exception\LockBusy;
use Rushgate\Exception\LockLost;

/**
 * The article's lock, with the same methods and defaults.
 *
 * One process holds the lock at a time. Waiters are served in FIFO order. Only the holder can release or extend it.
 */
final class RedisLock
{
    private readonly Client $client;
    /** @var array<int, array<string, Lock>> locks by process and name. A fork does not hold the locks of its parent */
    private array $held = [];

    /**
     * @param \Redis|\RedisCluster|Client $redis a connection whose address and credentials are used for connections of
     *     its own, or a client
     * @param mixed $auth credentials of a `RedisCluster`, which does not expose its own: a password, or user and password
     */
    public function __construct(\Redis|\RedisCluster|Client $redis, mixed $auth = null)
    {
        $this->client = $redis instanceof Client ? $redis : Client::connect(Redis\Url::of($redis, $auth));
    }

    /**
     * Acquires a lock.
     *
     * @param int|float $timeout maximum wait in seconds; 0 to try once
     * @param int|float $expire lease in seconds; {@see expire} extends it
     * @param int $waitIntervalUs ignored: a release wakes the next waiter
     * @return bool false if the lock was not free within the timeout
     */
    public function lock($name, $timeout = 0, $expire = 15, $waitIntervalUs = 100000): bool
    {
        if ($name === null || $name === '') {
            return false;
        }
        try {
            $this->held[getmypid()][$name] = $this->client->acquire((string) $name, $timeout, $expire, renew: false);
            return true;
        } catch (LockBusy) {
            return false;
        }
    }

    /** Releases a lock. False if it was lost before: another client may have held it since. */
    public function unlock($name): bool
    {
        $lock = $this->held($name);
        unset($this->held[getmypid()][$name]);
        return $lock !== null && $lock->release();
    }

    /** Releases all locks of this object. False if any of them was lost before. */
    public function unlockAll(): bool
    {
        $released = array_map($this->unlock(...), array_keys($this->held[getmypid()] ?? []));
        return !in_array(false, $released, true);
    }

    /** Extends the lease to $expire seconds from now. False if the lock was lost before. */
    public function expire($name, $expire): bool
    {
        try {
            $lock = $this->held($name);
            $lock?->extend($expire);
            return $lock !== null;
        } catch (LockLost) {
            return false;
        }
    }

    /** True if this object holds the lock now. */
    public function isLocking($name): bool
    {
        return $this->held($name)?->isHeld() ?? false;
    }

    /** Fencing token: grows with each grant of the lock. Null if this object does not hold the lock. */
    public function fence($name): ?int
    {
        return $this->held($name)?->fence;
    }

    private function held($name): ?Lock
    {
        return $this->held[getmypid()][$name] ?? null;
    }
}
