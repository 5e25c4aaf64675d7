<?php

declare(strict_types=1);

namespace Rushgate\Redis;

use Rushgate\Contract;
use Rushgate\Exception\LockBusy;
use Rushgate\Exception\LockLost;
use Rushgate\Exception\RushgateException;
use Rushgate\Internal\Clock;
use Rushgate\Transport\Grant;

/**
 * Locks over Redis.
 *
 * @internal
 */
trait LockVerbs
{
    public function acquire(string $lock, float $lease, float $wait, string $label): Grant
    {
        $token = Identity::ofProcess()->token();
        if ($wait > 0) {
            $this->inbox()->open();
        }
        try {
            return $this->acquireWith($token, $lock, $lease, $wait, $label);
        } catch (\Throwable $failure) {
            $this->leave($lock, $token);
            throw $failure;
        }
    }

    private function acquireWith(string $token, string $lock, float $lease, float $wait, string $label): Grant
    {
        $until = Clock::now() + $wait;
        $inbox = $this->inbox?->id ?? str_repeat("\0", Contract::INBOX_BYTES);
        $owner = Identity::owner($label);
        while (true) {
            $sent = Clock::now();
            $left = max(0.0, $until - $sent);
            $arguments = [$token, Clock::toMicros($lease), Clock::toMicros($left), 0, $inbox, $owner];
            [$answer] = $this->caller->call('lock_acquire', $lock, $arguments, 'lock_confirm');
            [$outcome, $number, $time] = $answer;
            $outcome = Contract::ACQUIRED[$outcome];
            if ($outcome === 'granted') {
                return new Grant(bin2hex($token), $number, $sent + $answer[3] / 1e6);
            }
            if ($outcome === 'busy' || $left <= 0) {
                throw self::busy($answer);
            }
            $longest = min($time / 1e6, $number * Contract::POSITION_SLEEP, Contract::LOCK_SLEEP);
            $this->inbox()->wait(min($left, max($longest, 0.001)));
        }
    }

    private static function busy(array $answer): LockBusy
    {
        [$outcome, $number, $time] = $answer;
        $details = Contract::ACQUIRED[$outcome] === 'busy'
            ? ['retry_after_ms' => intdiv($number, 1_000), 'waiters' => $time]
            : ['retry_after_ms' => intdiv($time, 1_000), 'position' => $number];
        return new LockBusy('another client holds the lock', 'lock_busy', $details);
    }

    /** Leaves the wait queue, or releases a grant whose answer was lost. Failures are ignored: the lease ends anyway. */
    private function leave(string $lock, string $token): void
    {
        try {
            $this->caller->call('lock_leave', $lock, [$token]);
        } catch (RushgateException) {
        }
    }

    public function extendLock(string $lock, string $token, float $lease): Grant
    {
        $sent = Clock::now();
        $answer = $this->caller->call('lock_extend', $lock, [hex2bin($token), Clock::toMicros($lease)]);
        if ($answer === []) {
            throw new LockLost("the lock `$lock` is not held any more", 'not_held');
        }
        return new Grant($token, $answer[0], $sent + $answer[2] / 1e6);
    }

    public function releaseLock(string $lock, string $token): bool
    {
        [$outcome] = $this->caller->call('lock_release', $lock, [hex2bin($token)]);
        return Contract::RELEASED[$outcome] === 'released';
    }

    public function lock(string $lock): array
    {
        [$holder, $waiters] = $this->caller->call('lock_show', $lock);
        return ['holder' => Records::holder($holder), 'waiters' => Records::waiters($waiters)];
    }

    public function forceRelease(string $lock): ?array
    {
        return Records::holder($this->caller->call('lock_force_release', $lock));
    }

    public function holdsLock(string $lock, string $token, int $fence): bool
    {
        return $this->caller->call('lock_held', $lock, [hex2bin($token)]) !== [];
    }

    public function isRevoked(string $token): bool
    {
        $this->inbox?->drain();
        return $this->inbox?->isRevoked(hex2bin($token)) ?? false;
    }
}
