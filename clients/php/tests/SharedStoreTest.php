<?php

declare(strict_types=1);

namespace Rushgate\Tests;

use Rushgate\Client;
use Rushgate\Exception\LockBusy;
use Rushgate\Payload;

/** The same store over HTTP and over Redis. */
final class SharedStoreTest extends TestCase
{
    private Client $http;
    private Client $redis;

    protected function setUp(): void
    {
        if (self::url() !== getenv('RUSHGATE_TEST_HTTP_REDIS')) {
            $this->markTestSkipped('needs the HTTP server on Redis');
        }
        $this->http = self::client();
        $this->redis = Client::connect(getenv('RUSHGATE_TEST_REDIS'));
    }

    public function testALockIsHeldByOneOfThem(): void
    {
        $name = self::name('lock');
        $lock = $this->http->acquire($name);
        self::refused(LockBusy::class, fn () => $this->redis->acquire($name));
        $lock->release();
        $next = $this->redis->acquire($name);
        self::assertGreaterThan($lock->fence, $next->fence);
        self::refused(LockBusy::class, fn () => $this->http->acquire($name));
    }

    public function testATaskIsTheSameOnBothWays(): void
    {
        $name = self::name('queue');
        $payload = Payload::bytes("\xff\0", 'image/png');
        $this->http->queue($name)->enqueue('a', $payload, kind: 'b:c', key: 'k', priority: 3, deadline: 60);
        [$overHttp, $overRedis] = [$this->http->queue($name)->top()[0], $this->redis->queue($name)->top()[0]];
        foreach (['id', 'ticket', 'revision', 'dueUs', 'priority', 'maxAttempts', 'key', 'deadlineUs', 'payload'] as $field) {
            self::assertEquals($overHttp->$field, $overRedis->$field, $field);
        }
        [$task] = $this->redis->queue($name)->claim();
        self::assertSame('done', $this->http->queue($name)->complete($task->ticket));
    }

    public function testStatsAndReasonsAreTheSameOnBothWays(): void
    {
        $name = self::name('queue');
        [$http, $redis] = [$this->http->queue($name), $this->redis->queue($name)];
        $limits = ['bound' => 9, 'concurrency' => 1, 'per_key' => ['concurrency' => 1], 'events' => 5] + self::RETENTION;
        $http->limit($limits);
        $redis->enqueue('a', key: 'k');
        $redis->enqueue('b', key: 'k');
        $redis->enqueue('later', delay: 60);
        $redis->claim(1, 60, 0, 'ann');
        self::assertEquals($http->stats(), $redis->stats());
        foreach (['a', 'b', 'later', 'none'] as $id) {
            self::assertSame(array_column($http->why($id), 'reason'), array_column($redis->why($id), 'reason'));
        }
        self::assertEquals($http->find('a')->task->payload, $redis->find('a')->task->payload);
        self::assertSame($http->find('a')->worker, $redis->find('a')->worker);
        $redis->saveSchedule('nightly', ['n' => 1], cron: '30 3 * * *', zone: 'Europe/Berlin');
        self::assertSame('unchanged', $http->saveSchedule('nightly', ['n' => 1], cron: '30 3 * * *', zone: 'Europe/Berlin'));
    }

    public function testASaleWithALedgerIsDecidedByBothWays(): void
    {
        $id = self::name('sale');
        $this->http->sale($id)->create(['phone' => ['units' => 3, 'per_buyer' => 2]], ledger: true);
        $this->http->sale($id)->open();
        $hold = $this->redis->sale($id)->reserve('ann', 'click', ['phone' => 2]);
        $again = $this->http->sale($id)->reserve('ann', 'click', ['phone' => 2]);
        self::assertSame([$hold->id, true], [$again->id, $again->replayed]);
        self::assertSame($hold->receipt, $again->receipt);
        self::assertSame('confirmed', $this->redis->sale($id)->confirm($hold, 20)->state);
        self::assertSame('confirmed', $this->http->sale($id)->find($hold)->state);
        $other = $this->http->sale($id)->reserve('bob', 'click', ['phone' => 1]);
        self::assertSame('cancelled', $this->redis->sale($id)->cancel($other, 20)->state);
        $states = [$this->http->sale($id)->state(), $this->redis->sale($id)->state()];
        self::assertEquals($states[0]['skus'], $states[1]['skus']);
        self::assertSame($states[0]['ledger'], $states[1]['ledger']);
        self::assertSame($hold->id, $this->redis->sale($id)->restore($again->receipt)->id);
    }
}
