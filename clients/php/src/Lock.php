<?php

declare(strict_types=1);

namespace Rushgate;

use Rushgate\Exception\LockLost;
use Rushgate\Exception\RushgateException;
use Rushgate\Internal\Alarm;
use Rushgate\Internal\Checks;
use Rushgate\Internal\Clock;
use Rushgate\Transport\Grant;
use Rushgate\Transport\Transport;

/**
 * A lock that was acquired. It belongs to the process that acquired it, not to its forks.
 *
 * A lock that renews itself is released when its object is destroyed. Any other stays until its lease ends.
 */
final class Lock
{
    /** The lease counts as ended this much earlier, because clocks differ in speed. */
    private const MARGIN = 0.01;

    /** Fencing token: grows with each grant of the lock. The protected resource must refuse lower ones. */
    public readonly int $fence;
    private readonly string $token;
    private readonly int $process;
    private float $until;
    private float $renewAt;
    private bool $isOver = false;
    private ?int $timer = null;
    private ?\Closure $renewal = null;

    /**
     * @internal
     * @param ?\Closure(Lock): void $onLost
     */
    public function __construct(
        private readonly Transport $store,
        public readonly string $name,
        Grant $grant,
        private float $lease,
        private readonly ?\Closure $onLost,
        private readonly bool $renews,
    ) {
        [$this->fence, $this->token, $this->process] = [$grant->fence, $grant->token, getmypid()];
        if ($renews && Alarm::isAvailable()) {
            $this->renewal = self::renewal($this, $store->twin());
        }
        $this->take($grant);
    }

    public function __destruct()
    {
        if ($this->renews) {
            $this->releaseQuietly();
        }
    }

    /** Sets the next renewal, also in case this one fails: after a third of the time for which the lock is certainly held. */
    private function scheduleRenewal(): void
    {
        $wait = $this->timeLeft() / 3;
        $this->renewAt = Clock::now() + $wait;
        if ($this->renewal !== null && !$this->isOver) {
            Alarm::cancel($this->timer);
            $this->timer = Alarm::after($wait, $this->renewal);
        }
    }

    /** Renews on a connection of its own, because the program may be in the middle of a call. */
    private static function renewal(self $lock, Transport $twin): \Closure
    {
        // The timer does not keep an object alive that the program has dropped.
        $reference = \WeakReference::create($lock);
        return static fn () => $reference->get()?->renew($twin);
    }

    private function renew(Transport $store): void
    {
        $this->scheduleRenewal();
        try {
            $this->take($store->extendLock($this->name, $this->token, $this->lease));
        } catch (LockLost) {
            $this->lose();
        } catch (RushgateException) {
            // The store cannot be reached. The lock is held until its lease ends.
            if (Clock::now() >= $this->until) {
                $this->lose();
            }
        }
    }

    private function take(Grant $grant): void
    {
        $this->until = $grant->until - self::MARGIN * $this->lease;
        $this->scheduleRenewal();
    }

    /**
     * Throws if the lock is not held any more. Call it before each step that the lock protects.
     *
     * Without automatic renewal by SIGALRM, it also extends the lease once a third of it has passed.
     *
     * @throws LockLost if the lease has ended or the lock was force-released
     */
    public function check(): void
    {
        if ($this->isHere() && !$this->isOver) {
            if (Clock::now() >= $this->until || $this->store->isRevoked($this->token)) {
                $this->lose();
            } elseif ($this->renews && Clock::now() >= $this->renewAt) {
                $this->renew($this->store);
            }
        }
        if (!$this->isHere() || $this->isOver) {
            throw $this->lost();
        }
    }

    /**
     * Extends the lease. Later renewals keep its new length.
     *
     * @param int|float|null $lease lease in seconds from now, which may end earlier. Default: the present length
     * @throws LockLost if the lock is not held any more
     */
    public function extend(int|float|null $lease = null): void
    {
        $lease = Checks::lease($lease ?? $this->lease);
        if (!$this->isHere() || $this->isOver) {
            throw $this->lost();
        }
        $this->lease = $lease;
        // Without an answer, the lease ends at the old or the new time.
        $this->until = min($this->until, Clock::now() + $lease * (1 - self::MARGIN));
        $this->scheduleRenewal();
        try {
            $this->take($this->store->extendLock($this->name, $this->token, $lease));
        } catch (LockLost $lost) {
            $this->lose();
            throw $lost;
        }
    }

    /** Asks the store whether the lock is held now. */
    public function isHeld(): bool
    {
        return $this->isHere() && !$this->isOver && $this->store->holdsLock($this->name, $this->token, $this->fence);
    }

    /** Time in seconds until the lease ends, on this process's clock. */
    public function timeLeft(): float
    {
        return $this->isOver ? 0.0 : max(0.0, $this->until - Clock::now());
    }

    /** Releases the lock. False if it was lost before or is not of this process. */
    public function release(): bool
    {
        if (!$this->isHere() || $this->isOver) {
            return false;
        }
        $this->end();
        return $this->store->releaseLock($this->name, $this->token);
    }

    /**
     * Releases the lock. If the store cannot be reached, the lock is free when its lease ends.
     *
     * @internal
     */
    public function releaseQuietly(): void
    {
        try {
            $this->release();
        } catch (RushgateException) {
        }
    }

    private function isHere(): bool
    {
        return $this->process === getmypid();
    }

    private function lost(): LockLost
    {
        return new LockLost("the lock `$this->name` is not held any more", 'not_held');
    }

    private function lose(): void
    {
        if (!$this->isOver) {
            $this->end();
            $this->onLost === null || ($this->onLost)($this);
        }
    }

    private function end(): void
    {
        $this->isOver = true;
        Alarm::cancel($this->timer);
    }
}
