<?php

declare(strict_types=1);

namespace Rushgate\Tests;

use Rushgate\Exception\LockBusy;
use Rushgate\Exception\LockLost;
use Rushgate\Lock;

final class LocksTest extends TestCase
{
    public function testALockHasOneHolderAndAGrowingFence(): void
    {
        [$ann, $bob, $name] = [self::client(), self::client(), self::name('lock')];
        $lock = $ann->acquire($name);
        self::assertTrue($lock->isHeld());
        $busy = self::refused(LockBusy::class, fn () => $bob->acquire($name));
        self::assertSame('lock_busy', $busy->errorCode);
        self::assertNotNull($busy->retryAfter());
        self::assertTrue($lock->release());
        self::assertFalse($lock->release());
        self::assertFalse($lock->isHeld());
        $next = $bob->acquire($name);
        self::assertGreaterThan($lock->fence, $next->fence);
        self::assertTrue($next->release());
    }

    public function testAFunctionRunsUnderTheLockAndReleasesIt(): void
    {
        [$client, $name] = [self::client(), self::name('lock')];
        self::assertSame('done', $client->lock($name, function (Lock $lock): string {
            self::assertTrue($lock->isHeld());
            return 'done';
        }));
        self::refused(\DomainException::class, fn () => $client->lock($name, fn () => throw new \DomainException()));
        self::assertTrue($client->acquire($name)->release());
    }

    public function testAWaitThatTimesOutLeavesNoPlaceInTheWaitQueue(): void
    {
        [$ann, $bob, $name] = [self::client(), self::client(), self::name('lock')];
        $lock = $ann->acquire($name);
        self::refused(LockBusy::class, fn () => $bob->acquire($name, 0.3));
        self::assertTrue($lock->release());
        self::assertTrue($bob->acquire($name)->release());
    }

    public function testAReleaseWakesTheWaiter(): void
    {
        [$client, $name] = [self::client(), self::name('lock')];
        $lock = $client->acquire($name);
        $child = self::fork(function ($report) use ($name): void {
            $client = self::client();
            fwrite($report, "ready\n");
            $lock = $client->acquire($name, 30);
            fwrite($report, microtime(true) . "\n");
            $lock->release();
        }, $pipe);
        self::line($pipe);
        $this->waitForWaiters($name, 1);
        $released = microtime(true);
        self::assertTrue($lock->release());
        self::assertLessThan(0.5, (float) self::line($pipe) - $released, 'no polling interval passes');
        self::join($child);
    }

    public function testWaitersAreServedInTheirOrder(): void
    {
        [$client, $name] = [self::client(), self::name('lock')];
        $lock = $client->acquire($name);
        $children = [];
        foreach ([1, 2, 3] as $number) {
            $children[] = self::fork(function ($report) use ($name): void {
                $lock = self::client()->acquire($name, 30);
                fwrite($report, "$lock->fence\n");
                $lock->release();
            }, $pipe);
            $pipes[] = $pipe;
            $this->waitForWaiters($name, $number);
        }
        $lock->release();
        $fences = array_map(fn ($pipe) => (int) self::line($pipe), $pipes);
        $sorted = $fences;
        sort($sorted);
        self::assertSame($sorted, $fences);
        array_map(self::join(...), $children);
    }

    /** A client that would have to wait at this position tells the length of the wait queue. */
    private function waitForWaiters(string $name, int $count): void
    {
        $client = self::client();
        self::eventually(function () use ($client, $name, $count): bool {
            $busy = self::refused(LockBusy::class, fn () => $client->acquire($name));
            return $busy->details['waiters'] === $count;
        }, "$count clients wait for the lock");
    }

    public function testALostLockThrowsAndCallsBackOnce(): void
    {
        [$client, $name, $lost] = [self::client(), self::name('lock'), []];
        $lock = $client->acquire($name, lease: 0.2, onLost: function (Lock $lock) use (&$lost): void {
            $lost[] = $lock->name;
        }, renew: false);
        $lock->check();
        $next = self::client()->acquire($name, 5);
        self::refused(LockLost::class, $lock->check(...));
        self::refused(LockLost::class, $lock->check(...));
        self::refused(LockLost::class, $lock->extend(...));
        self::assertSame([$name], $lost);
        self::assertFalse($lock->release());
        self::assertTrue($next->release());
    }

    public function testTheStateOfALockHasItsHolderAndItsWaitersInOrder(): void
    {
        [$client, $name] = [self::client(), self::name('lock')];
        self::assertSame(['holder' => null, 'waiters' => []], $client->lockState($name));
        $lock = $client->acquire($name, lease: 20, renew: false);
        $holder = $client->lockState($name)['holder'];
        self::assertSame($lock->fence, $holder['fence']);
        self::assertSame([gethostname(), 'php'], [$holder['host'], $holder['label']]);
        self::assertEqualsWithDelta(20_000_000, $holder['lease_until_us'] - $holder['since_us'], 1_000);
        $waiters = [];
        foreach ([1, 2] as $position) {
            $waiters[] = self::fork(fn () => self::client()->acquire($name, wait: 30)->release());
            self::eventually(fn () => count($client->lockState($name)['waiters']) === $position, 'the waiter is listed');
        }
        $state = $client->lockState($name);
        self::assertSame([1, 2], array_column($state['waiters'], 'position'));
        self::assertLessThan($state['waiters'][1]['since_us'], $state['waiters'][0]['since_us']);
        self::assertEqualsWithDelta(
            30_000_000,
            $state['waiters'][0]['wait_until_us'] - $state['waiters'][0]['since_us'],
            1_000_000,
        );
        self::isHttp() || self::assertSame($waiters, array_column($state['waiters'], 'pid'));
        self::assertSame($holder, $client->forceRelease($name));
        array_map(self::join(...), $waiters);
        self::assertNull($client->forceRelease($name));
    }

    public function testAForcedReleaseIsNoticed(): void
    {
        [$client, $name] = [self::client(), self::name('lock')];
        $lock = $client->acquire($name, 1);
        $lock->check();
        self::client()->forceRelease($name);
        self::assertFalse($lock->isHeld());
        if (!self::isHttp()) {
            // Over HTTP there is no notification.
            self::eventually(function () use ($lock): bool {
                try {
                    $lock->check();
                    return false;
                } catch (LockLost) {
                    return true;
                }
            }, 'the notification arrives');
        }
        self::refused(LockLost::class, $lock->extend(...));
        self::refused(LockLost::class, fn () => $client->lock($name, fn () => self::client()->forceRelease($name)));
    }

    public function testASignalRenewsTheLeaseWhileTheProgramWorks(): void
    {
        [$client, $name] = [self::client(), self::name('lock')];
        $lock = $client->acquire($name, lease: 3);
        $until = microtime(true) + 4;
        while (microtime(true) < $until) {
            usleep(50_000);
        }
        self::assertTrue($lock->isHeld());
        $lock->check();
        self::assertTrue($lock->release());
    }

    public function testASignalNoticesTheLossWhileTheProgramWorks(): void
    {
        [$client, $name, $lost] = [self::client(), self::name('lock'), false];
        $lock = $client->acquire($name, lease: 3, onLost: function () use (&$lost): void {
            $lost = true;
        });
        self::client()->forceRelease($name);
        self::eventually(function () use (&$lost): bool {
            return $lost;
        }, 'the renewal finds the loss');
        self::refused(LockLost::class, $lock->check(...));
    }

    public function testCheckRenewsALeaseTooShortForSignals(): void
    {
        [$client, $name] = [self::client(), self::name('lock')];
        $lock = $client->acquire($name, lease: 0.9);
        $until = microtime(true) + 1.8;
        while (microtime(true) < $until) {
            $lock->check();
            usleep(20_000);
        }
        self::assertTrue($lock->isHeld());
        $lock->extend(30);
        self::assertGreaterThan(25, $lock->timeLeft());
        self::assertTrue($lock->release());
    }

    public function testRenewalsKeepTheLeaseOfAnExtension(): void
    {
        [$client, $name] = [self::client(), self::name('lock')];
        $lock = $client->acquire($name, lease: 60);
        $lock->extend(3);
        $until = microtime(true) + 4;
        while (microtime(true) < $until) {
            usleep(50_000);
        }
        self::assertTrue($lock->isHeld());
        self::assertLessThanOrEqual(3, $lock->timeLeft());
        self::assertTrue($lock->release());
    }

    public function testAnObjectThatIsDroppedReleasesItsLock(): void
    {
        [$client, $name] = [self::client(), self::name('lock')];
        $lock = $client->acquire($name);
        $lock = null;
        self::assertTrue($client->acquire($name)->release());
    }

    public function testAnInterruptedWaitLeavesNoPlaceInTheWaitQueue(): void
    {
        [$client, $name] = [self::client(), self::name('lock')];
        $lock = self::client()->acquire($name, renew: false);
        pcntl_async_signals(true);
        pcntl_signal(SIGUSR1, fn () => throw new \RangeException('interrupted'));
        $parent = getmypid();
        $child = self::fork(function () use ($name, $parent): void {
            $this->waitForWaiters($name, 1);
            posix_kill($parent, SIGUSR1);
        });
        self::refused(\RangeException::class, fn () => $client->acquire($name, 20));
        pcntl_signal(SIGUSR1, SIG_DFL);
        self::join($child);
        self::assertTrue($lock->release());
        self::eventually(function () use ($client, $name): bool {
            try {
                return $client->acquire($name)->release();
            } catch (LockBusy) {
                return false;
            }
        }, 'the lock is free');
    }
}
