<?php

declare(strict_types=1);

namespace Rushgate\Tests;

use Rushgate\Client;
use Rushgate\Exception\InvalidArgument;
use Rushgate\Exception\LockLost;
use Rushgate\Exception\RushgateException;
use Rushgate\Exception\Unavailable;
use Rushgate\NewTask;
use Rushgate\Options;
use Rushgate\Payload;
use Rushgate\Worker;

final class SafetyTest extends TestCase
{
    public function testProcessesShareALockAndLoseNoIncrement(): void
    {
        [$name, $file] = [self::name('lock'), tempnam(sys_get_temp_dir(), 'rushgate')];
        file_put_contents($file, '0');
        $children = [];
        for ($child = 0; $child < 4; $child++) {
            $children[] = self::fork(function () use ($name, $file): void {
                $client = self::client();
                for ($time = 0; $time < 25; $time++) {
                    $client->lock($name, fn () => file_put_contents($file, (string) (1 + (int) file_get_contents($file))));
                }
            });
        }
        array_map(self::join(...), $children);
        self::assertSame('100', file_get_contents($file));
        unlink($file);
    }

    public function testAForkHasItsOwnIdentityAndConnections(): void
    {
        [$client, $name] = [self::client(), self::name('lock')];
        $queue = $client->queue(self::name('queue'));
        $lock = $client->acquire($name, 1);
        $queue->enqueue('parent:first');
        self::assertCount(1, $queue->claim(1, 30));
        self::assertSame([], $queue->claim(1, 30, 0.1));
        $children = [];
        for ($child = 0; $child < 3; $child++) {
            $children[] = self::fork(function () use ($lock, $queue, $child): void {
                self::assertFalse($lock->isHeld());
                self::assertFalse($lock->release());
                self::refused(LockLost::class, $lock->check(...));
                for ($number = 0; $number < 20; $number++) {
                    // An outcome of another process would be `kept` or belong to another task.
                    self::assertSame('added', $queue->enqueue("$child:$number")->outcome);
                }
            });
        }
        for ($number = 0; $number < 20; $number++) {
            self::assertSame('added', $queue->enqueue("parent:$number")->outcome);
        }
        array_map(self::join(...), $children);
        self::assertSame(80, $queue->stats()['ready']);
        $lock->check();
        self::assertTrue($lock->release());
    }

    public function testAnExtensionToAnEarlierEndCountsWithoutAnAnswer(): void
    {
        $proxy = Proxy::of(self::url());
        if ($proxy === null) {
            self::markTestSkipped('the proxy stands before one server');
        }
        $client = Client::connect($proxy->url, self::options(retryFor: 0.2));
        $lock = $client->acquire(self::name('lock'), lease: 30, renew: false);
        $proxy->stop();
        self::refused(RushgateException::class, fn () => $lock->extend(0.5));
        self::assertLessThanOrEqual(0.5, $lock->timeLeft());
        self::eventually(fn () => $lock->timeLeft() === 0.0, 'the lease ends');
        self::refused(LockLost::class, $lock->check(...));
    }

    public function testAFailedExtensionIsRepeatedBeforeTheOldLeaseEnds(): void
    {
        $proxy = Proxy::of(self::url());
        if ($proxy === null) {
            self::markTestSkipped('the proxy stands before one server');
        }
        $client = Client::connect($proxy->url, self::options(retryFor: 0.2));
        $lock = $client->acquire(self::name('lock'), lease: 6);
        $proxy->pause();
        self::refused(RushgateException::class, fn () => $lock->extend(600));
        $proxy->resume();
        // A third of the new lease would be after the end of the old one.
        self::eventually(fn () => $lock->timeLeft() > 500, 'the lease is extended');
        self::assertTrue($lock->release());
        $proxy->stop();
    }

    public function testALostReplyIsReplayedAndChangesNothingTwice(): void
    {
        $proxy = Proxy::of(self::url());
        if ($proxy === null) {
            $this->killConnections();
            return;
        }
        $client = Client::connect($proxy->url, self::options());
        $queue = $client->queue(self::name('queue'));
        $queue->stats();
        $proxy->loseNextReply();
        self::assertSame('added', $queue->enqueue('a', ['n' => 1])->outcome);
        $proxy->loseNextReply();
        [$task] = $queue->claim(2, 30);
        self::assertSame(['a', 1], [$task->id, $task->attempt]);
        $proxy->loseNextReply();
        self::assertSame('scheduled', $task->retry('no luck', 0));
        [$task] = $queue->claim(1, 30);
        self::assertSame(2, $task->attempt);
        $proxy->loseNextReply();
        self::assertSame('done', $task->complete());
        $proxy->loseNextReply();
        $lock = $client->acquire(self::name('lock'));
        self::assertTrue($lock->isHeld());
        $proxy->loseNextReply();
        self::assertTrue($lock->release());
        self::assertSame(6, $proxy->lost());
        $proxy->stop();
    }

    /** In a deployment with several servers: ends all connections between two calls. */
    private function killConnections(): void
    {
        $client = self::client();
        $queue = $client->queue(self::name('queue'));
        foreach (range(1, 5) as $number) {
            Servers::killConnections(self::url());
            self::assertSame('added', $queue->enqueue("task:$number")->outcome);
        }
        self::assertSame(5, $queue->stats()['ready']);
        self::assertCount(5, $queue->claim(10, 30));
    }

    public function testAWaitContinuesAfterItsSubscriptionWasKilled(): void
    {
        if (self::isHttp() || str_starts_with(self::url(), 'rediss')) {
            self::markTestSkipped('the test connects to Redis without TLS');
        }
        $name = self::name('queue');
        $child = self::fork(function ($pipe) use ($name): void {
            [$task] = self::client()->queue($name)->claim(wait: 30);
            fwrite($pipe, "$task->id\n");
        }, $pipe);
        self::eventually(fn () => Servers::killSubscriptions(self::url()) > 0, 'the fork subscribes');
        self::client()->queue($name)->enqueue('a');
        self::assertSame('a', self::line($pipe));
        self::join($child);
    }

    public function testAStoreThatCannotBeReachedIsATypedErrorInTime(): void
    {
        $options = self::options(0.3, 0.5);
        $client = Client::connect(self::isHttp() ? 'http://127.0.0.1:1' : 'redis://127.0.0.1:1', $options);
        $began = microtime(true);
        $error = self::refused(Unavailable::class, fn () => $client->queue('mail')->stats());
        self::assertSame('unavailable', $error->errorCode);
        self::assertLessThan(3, microtime(true) - $began);
    }

    public function testAServerThatIsSilentIsATypedErrorInTime(): void
    {
        $silent = stream_socket_server('tcp://127.0.0.1:0');
        $address = stream_socket_get_name($silent, false);
        $options = self::options(0.3, 0.3);
        $client = Client::connect((self::isHttp() ? 'http://' : 'redis://') . $address, $options);
        $began = microtime(true);
        $error = self::refused(Unavailable::class, fn () => $client->queue('mail')->stats());
        self::assertSame('outcome_unknown', $error->errorCode);
        self::assertLessThan(5, microtime(true) - $began);
    }

    /** @dataProvider badCalls */
    public function testBadInputIsRefusedAndNothingIsSent(\Closure $call): void
    {
        // Nothing listens there, so that a call that is sent would be another error.
        $client = Client::connect(self::isHttp() ? 'http://127.0.0.1:1' : 'redis://127.0.0.1:1', self::options(0));
        $error = self::refused(InvalidArgument::class, fn () => $call($client));
        self::assertSame('invalid', $error->errorCode);
        self::assertInstanceOf(RushgateException::class, $error);
    }

    public function badCalls(): iterable
    {
        yield 'empty lock' => [fn (Client $client) => $client->acquire('')];
        yield 'white space' => [fn (Client $client) => $client->acquire('a b')];
        yield 'brace' => [fn (Client $client) => $client->acquire('a{b')];
        yield 'dots' => [fn (Client $client) => $client->queue('..')];
        yield 'invisible character' => [fn (Client $client) => $client->acquire("a\u{200b}b")];
        yield 'invalid UTF-8' => [fn (Client $client) => $client->acquire("a\xff")];
        yield 'long name' => [fn (Client $client) => $client->queue(str_repeat('a', 201))];
        yield 'short lease' => [fn (Client $client) => $client->acquire('a', lease: 0.009)];
        yield 'endless wait' => [fn (Client $client) => $client->acquire('a', wait: INF)];
        yield 'priority' => [fn (Client $client) => $client->queue('a')->enqueue('a', priority: 10)];
        yield 'negative delay' => [fn (Client $client) => $client->queue('a')->enqueue('a', delay: -1)];
        yield 'attempts' => [fn (Client $client) => $client->queue('a')->enqueue('a', maxAttempts: 0)];
        yield 'kind' => [fn (Client $client) => $client->queue('a')->enqueue('a', kind: 'two words')];
        yield 'unknown policy' => [fn (Client $client) => $client->queue('a')->enqueue('a', onDuplicate: 'merge')];
        yield 'debounce' => [fn (Client $client) => $client->queue('a')->enqueue('a', onDuplicate: 'debounce')];
        yield 'itself' => [fn (Client $client) => $client->queue('a')->enqueue('a', after: ['a'])];
        yield 'large payload' => [fn (Client $client) => $client->queue('a')->enqueue('a', str_repeat('a', 1 << 20))];
        yield 'not JSON' => [fn (Client $client) => $client->queue('a')->enqueue('a', "\xff")];
        yield 'no tasks' => [fn (Client $client) => $client->queue('a')->enqueueAll([])];
        yield 'many tasks' => [
            fn (Client $client) => $client->queue('a')->enqueueAll(array_fill(0, 1_001, new NewTask('a'))),
        ];
        yield 'claim none' => [fn (Client $client) => $client->queue('a')->claim(0)];
        yield 'ticket' => [fn (Client $client) => $client->queue('a')->complete('1.2.3')];
        yield 'large result' => [fn (Client $client) => $client->queue('a')->complete('1.1.1.a', str_repeat('a', 70_000))];
        yield 'percentage' => [fn (Client $client) => $client->queue('a')->extend('1.1.1.a', percent: 101)];
        yield 'unknown limit' => [fn (Client $client) => $client->queue('a')->limit(['speed' => 1])];
        yield 'limit out of range' => [fn (Client $client) => $client->queue('a')->limit(['concurrency' => 0])];
        yield 'half a limit' => [fn (Client $client) => $client->queue('a')->limit(['retention' => ['count' => 1]])];
        yield 'schedule' => [fn (Client $client) => $client->queue('a')->saveSchedule('a', every: 0.5)];
        yield 'idempotency key' => [fn (Client $client) => $client->sale('a')->reserve('ann', 'two words', ['phone' => 1])];
        yield 'empty cart' => [fn (Client $client) => $client->sale('a')->reserve('ann', 'click', [])];
        yield 'quantity' => [fn (Client $client) => $client->sale('a')->reserve('ann', 'click', ['phone' => 0])];
        yield 'reservation' => [fn (Client $client) => $client->sale('a')->confirm('1')];
        yield 'stock' => [fn (Client $client) => $client->sale('a')->create(['phone' => ['units' => 0]])];
        yield 'no handler' => [fn (Client $client) => new Worker($client->queue('a'), [])];
        yield 'media type' => [fn () => Payload::bytes('', 'text')];
        yield 'driver' => [fn () => new Options(driver: 'other')];
        yield 'URL' => [fn () => Client::connect('redis://a,b')];
    }

    public function testNamesInTwoNormalizationFormsAreOneName(): void
    {
        $name = self::name('lock');
        $lock = self::client()->acquire("$name-Zoe\u{308}");
        self::refused(\Rushgate\Exception\LockBusy::class, fn () => self::client()->acquire("$name-Zo\u{eb}"));
        self::assertTrue($lock->release());
    }
}
