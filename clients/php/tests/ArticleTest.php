<?php

declare(strict_types=1);

namespace Rushgate\Tests;

use Rushgate\Client;
use Rushgate\Exception\InvalidArgument;
use Rushgate\RedisLock;
use Rushgate\RedisQueue;

/** The article's two classes, method by method. */
final class ArticleTest extends TestCase
{
    private static function connection(): \Redis|Client
    {
        if (!preg_match('~^redis://([\w.]+):(\d+)$~D', self::url(), $parts)) {
            return self::client();
        }
        $redis = new \Redis();
        $redis->connect($parts[1], (int) $parts[2]);
        return $redis;
    }

    public function testALockIsHeldByOneAtATimeAndReleasedByItsHolderAlone(): void
    {
        [$ann, $bob, $name] = [new RedisLock(self::connection()), new RedisLock(self::connection()), self::name('lock')];
        self::assertTrue($ann->lock($name));
        self::assertFalse($bob->lock($name));
        self::assertFalse($bob->lock($name, 0.05));
        self::assertFalse($bob->unlock($name));
        self::assertSame([true, false], [$ann->isLocking($name), $bob->isLocking($name)]);
        self::assertTrue($ann->expire($name, 30));
        self::assertFalse($bob->expire($name, 30));
        $fence = $ann->fence($name);
        self::assertTrue($ann->unlock($name));
        self::assertTrue($bob->lock($name));
        self::assertGreaterThan($fence, $bob->fence($name));
        self::assertTrue($bob->unlockAll());
        self::assertFalse($ann->lock(''));
    }

    public function testALeaseExpires(): void
    {
        [$ann, $bob, $name] = [new RedisLock(self::connection()), new RedisLock(self::connection()), self::name('lock')];
        self::assertTrue($ann->lock($name, 0, 0.05));
        self::assertTrue($bob->lock($name, 5));
        self::assertFalse($ann->expire($name, 15));
        self::assertFalse($ann->unlock($name));
        self::assertTrue($bob->unlock($name));
    }

    public function testUnlockAllReleasesWhatThisObjectHoldsAndNothingElse(): void
    {
        [$ann, $bob] = [new RedisLock(self::connection()), new RedisLock(self::connection())];
        $names = [self::name('1'), self::name('2'), self::name('3')];
        self::assertSame([true, true, true], [$ann->lock($names[0]), $ann->lock($names[1]), $bob->lock($names[2])]);
        self::assertTrue($ann->unlockAll());
        self::assertSame([true, true, false], [$bob->lock($names[0]), $bob->lock($names[1]), $ann->lock($names[2])]);
        self::assertTrue($bob->unlockAll());
    }

    public function testATaskOfADeadWorkerComesAgainAndItsLostClaimChangesNothing(): void
    {
        [$queue, $name] = [new RedisQueue(self::connection()), self::name('queue')];
        self::assertTrue($queue->enqueue($name, 'a'));
        [$lost] = $queue->claim($name, 1, 0.05);
        [$task] = $queue->claim($name, 1, 30, 10);
        self::assertSame(['a', 2], [$task['id'], $task['attempt']]);
        self::assertFalse($queue->complete($name, $lost));
        self::assertTrue($queue->complete($name, $task));
    }

    public function testAScoreThatNoMethodReturnedIsRefused(): void
    {
        [$queue, $name] = [new RedisQueue(self::connection()), self::name('queue')];
        foreach (['', 'soon', '1', '1.', '1.2.3', '1.0'] as $score) {
            self::refused(InvalidArgument::class, fn () => $queue->dequeue($name, 'a', $score));
            self::refused(InvalidArgument::class, fn () => $queue->complete($name, ['id' => 'a', 'score' => $score]));
            self::refused(InvalidArgument::class, fn () => $queue->retry($name, ['id' => 'a', 'score' => $score], 'no luck'));
        }
    }

    public function testARecordIsKeptReplacedReadAndRemoved(): void
    {
        [$queue, $name] = [new RedisQueue(self::connection()), self::name('queue')];
        self::assertTrue($queue->enqueue($name, ['a', 'b'], payload: 'first'));
        self::assertTrue($queue->enqueue($name, 'a', payload: 'second'));
        self::assertSame(['a' => 'first', 'b' => 'first'], array_column($queue->top($name, 5), 'payload', 'id'));
        self::assertTrue($queue->enqueue($name, 'b', onDuplicate: RedisQueue::REPLACE, payload: ['third']));
        $payloads = array_column($queue->top($name, 5), 'payload', 'id');
        self::assertSame(['third'], $payloads['b']);
        $scores = array_column($queue->top($name, 5), 'score', 'id');
        self::assertTrue($queue->enqueue($name, 'a', onDuplicate: RedisQueue::REPLACE));
        self::assertFalse($queue->dequeue($name, 'a', $scores['a']));
        self::assertTrue($queue->dequeue($name, 'b', $scores['b']));
        self::assertSame('a', $queue->pop($name)['id']);
        self::assertFalse($queue->pop($name));
        self::assertFalse($queue->enqueue('', 'a'));
        self::assertFalse($queue->enqueue($name, '', 10));
        self::assertFalse($queue->enqueue($name, 'a', 0));
    }

    public function testATaskIsClaimedRetriedAndCompleted(): void
    {
        [$queue, $name] = [new RedisQueue(self::connection()), self::name('queue')];
        self::assertFalse($queue->top($name));
        self::assertSame([], $queue->pop($name, 5));
        self::assertTrue($queue->enqueue($name, [7], 10, 0.1, kind: 'mail:welcome'));
        [$task] = $queue->claim($name, 1, 30, 10);
        self::assertSame(['7', 1, 'mail:welcome'], [$task['id'], $task['attempt'], $task['kind']]);
        self::assertTrue($queue->retry($name, $task, 'no luck'));
        [$task] = $queue->claim($name);
        self::assertTrue($queue->complete($name, $task));
        self::assertFalse($queue->complete($name, $task));
        self::refused(InvalidArgument::class, fn () => $queue->dequeue($name, 'a', '1.0'));
    }
}
