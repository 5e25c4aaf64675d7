<?php

declare(strict_types=1);

namespace Rushgate\Tests;

use Rushgate\Backoff;
use Rushgate\Client;
use Rushgate\Exception\InvalidArgument;
use Rushgate\Internal\Presence;
use Rushgate\NewTask;
use Rushgate\Outcome;
use Rushgate\Payload;
use Rushgate\Task;
use Rushgate\Worker;

final class WorkerTest extends TestCase
{
    private static function atOnce(): Backoff
    {
        return new Backoff(base: 0);
    }

    public function testHandlersAreSelectedByKindAndTheirResultsAreKept(): void
    {
        $queue = self::queue();
        $queue->limit(self::RETENTION);
        $queue->enqueue('sum', [1, 2, 3], kind: 'sum');
        $queue->enqueue('other', 'x', kind: 'strange');
        $queue->enqueue('plain', 'y');
        $seen = [];
        $report = (new Worker($queue, [
            'sum' => fn (Task $task) => array_sum($task->value()),
            '*' => function (Task $task) use (&$seen): void {
                $seen[] = $task->id;
            },
        ], prefetch: 10))->run(drain: true);
        self::assertSame([3, 3], [$report->claimed, $report->done]);
        self::assertSame(['other', 'plain'], $seen);
        self::assertSame(6, $queue->wait('sum', 1)->result->value());
    }

    public function testAWorkerFiresEachOccurrenceOfAScheduleOnceAlsoWhileItWorks(): void
    {
        [$queue, $seen] = [self::queue(), []];
        $queue->saveSchedule('beat', ['n' => 1], every: 1, kind: 'pulse');
        $worker = new Worker($queue, ['*' => function (Task $task) use (&$seen, &$worker, $queue): void {
            $seen[] = $task;
            if (count($seen) === 1) {
                self::eventually(fn () => $queue->stats()['ready'] >= 2, 'schedules fire while a handler runs');
            }
            count($seen) < 3 || $worker->stop();
        }]);
        $worker->run();
        $moments = array_map(fn (Task $task) => strtotime(explode('@', $task->id)[1]), $seen);
        self::assertSame([1, 1], [$moments[1] - $moments[0], $moments[2] - $moments[1]]);
        foreach ($seen as $task) {
            self::assertSame(['beat', 'pulse', ['n' => 1]], [explode('@', $task->id)[0], $task->kind(), $task->value()]);
        }
    }

    public function testAWorkerNoticesANewScheduleWithinSecondsAlsoWithALongLease(): void
    {
        [$queue, $saved] = [self::queue(), null];
        $queue->enqueue('first');
        $worker = new Worker($queue, ['*' => function (Task $task) use (&$saved, &$worker, $queue): void {
            if ($task->id === 'first') {
                $queue->saveSchedule('beat', every: 1);
                $saved = microtime(true);
            } else {
                $worker->stop();
            }
        }], lease: 60);
        $worker->run();
        self::assertLessThan(10, microtime(true) - $saved);
    }

    public function testAScheduleThatCannotBeReadStaysAndStopsNoOther(): void
    {
        if (!preg_match('~^redis://[\w.]+:\d+$~D', self::url())) {
            self::markTestSkipped('the test writes to one Redis server');
        }
        [$queue, $seen, $log] = [self::queue(), [], tempnam(sys_get_temp_dir(), 'rushgate')];
        $queue->saveSchedule('beat', every: 1);
        // As later versions or other programs might write them, and due. They are as long as what they replace.
        $key = "rg:{q:$queue->name}:";
        $record = Servers::call(self::url(), 'HGET', "{$key}schedules", 'beat');
        $broken = ['cut-off' => substr($record, 0, 3)];
        foreach (['{"cron":"0 X * "', '{"cron":5       ', '{"cron":"","zone', '{"zone":"UTC"   ', '{"every_ms":0   ', '{"every_ms":"1" '] as $recurrence) {
            $broken['broken-' . count($broken)] = str_replace('{"every_ms":1000', $recurrence, $record);
        }
        foreach ($broken as $id => $record) {
            Servers::call(self::url(), 'HSET', "{$key}schedules", $id, $record);
            Servers::call(self::url(), 'ZADD', "{$key}schedule_moments", '1', $id);
        }
        $before = ini_set('error_log', $log);
        $worker = new Worker($queue, ['*' => function (Task $task) use (&$seen, &$worker): void {
            $seen[] = explode('@', $task->id)[0];
            count($seen) < 3 || $worker->stop();
        }]);
        $worker->run();
        ini_set('error_log', $before);
        self::assertSame(['beat', 'beat', 'beat'], $seen);
        self::assertSame(count($broken), Servers::call(self::url(), 'ZCOUNT', "{$key}schedule_moments", '1', '1'));
        // A server on the same store would keep logging them.
        Servers::call(self::url(), 'DEL', "{$key}schedules", "{$key}schedule_ids", "{$key}schedule_moments");
        preg_match_all('~cannot fire the schedule (\S+) of the queue~', file_get_contents($log), $logged);
        self::assertEqualsCanonicalizing(array_keys($broken), $logged[1]);
        unlink($log);
    }

    public function testFailuresAreRetriedAndDieWithTheirTrace(): void
    {
        $queue = self::queue();
        $queue->enqueue('a', maxAttempts: 3);
        $attempts = [];
        $report = (new Worker($queue, ['*' => function (Task $task) use (&$attempts): void {
            $attempts[] = $task->attempt;
            throw new \DomainException('no luck');
        }], backoff: self::atOnce()))->run(drain: true);
        self::assertSame([1, 2, 3], $attempts);
        self::assertSame([2, 1], [$report->retried, $report->dead]);
        $error = $queue->dead()[0]->error;
        self::assertStringContainsString('DomainException: no luck', $error);
        self::assertStringContainsString('WorkerTest.php', $error);
        self::assertLessThanOrEqual(2_000, strlen($error));
    }

    public function testOutcomesDiscardGiveUpAndRelease(): void
    {
        $queue = self::queue();
        $queue->limit(self::RETENTION);
        $ids = ['discard', 'give-up', 'release', 'retry'];
        $queue->enqueueAll(array_map(fn (string $id) => new NewTask($id), $ids));
        $report = (new Worker($queue, ['*' => fn (Task $task) => match ($task->id) {
            'discard' => Outcome::discard(),
            'give-up' => Outcome::giveUp('never'),
            'release' => Outcome::release(60),
            'retry' => Outcome::retry('later', 60),
        }]))->run(drain: true);
        self::assertSame([1, 1, 1, 1], [$report->discarded, $report->dead, $report->released, $report->retried]);
        self::assertSame('discarded', $queue->find('discard')->how);
        self::assertSame('never', $queue->dead()[0]->error);
        self::assertSame(2, $queue->stats()['scheduled']);
    }

    public function testATaskWithoutHandlerOrWithABadPayloadIsNotLost(): void
    {
        $queue = self::queue();
        $queue->enqueue('kind', kind: 'unknown', maxAttempts: 1);
        $queue->enqueue('bad', Payload::bytes('{', 'application/json'), kind: 'known', maxAttempts: 1);
        $queue->enqueue('large', kind: 'large', maxAttempts: 5);
        $report = (new Worker($queue, [
            'known' => fn (Task $task) => $task->value(),
            'large' => fn () => str_repeat('a', 70_000),
        ], backoff: self::atOnce()))->run(drain: true);
        self::assertSame([1, 3], [$report->unknown, $report->dead]);
        $errors = array_column($queue->dead(), 'error', 'id');
        self::assertStringContainsString('no handler for the kind `unknown`', $errors['kind']);
        self::assertStringContainsString('Undecodable', $errors['bad']);
        self::assertStringContainsString('size of the result', $errors['large']);
    }

    public function testAHandlerIsStoppedAtItsTimeout(): void
    {
        $queue = self::queue();
        $queue->enqueue('slow', maxAttempts: 1);
        $report = (new Worker($queue, ['*' => self::spin(...)], timeout: 1))->run(drain: true);
        self::assertSame(1, $report->timedOut);
        self::assertSame('the handler took longer than 1 s', $queue->dead()[0]->error);
    }

    public function testAHandlerIsStoppedAtTheDeadlineOfItsTask(): void
    {
        $queue = self::queue();
        $queue->enqueue('late', deadline: 1);
        $report = (new Worker($queue, ['*' => self::spin(...)]))->run(drain: true);
        self::assertSame([1, 1], [$report->timedOut, $report->dead]);
        self::assertStringContainsString('deadline', $queue->dead()[0]->error);
    }

    /** A handler that is busy for 20 s. */
    private static function spin(): void
    {
        $until = microtime(true) + 20;
        while (microtime(true) < $until) {
            usleep(10_000);
        }
    }

    public function testALeaseIsExtendedWhileTheHandlerRuns(): void
    {
        $queue = self::queue();
        $queue->enqueue('long');
        $report = (new Worker($queue, ['*' => function (): void {
            $until = microtime(true) + 4.5;
            while (microtime(true) < $until) {
                usleep(10_000);
            }
        }], lease: 3))->run(drain: true);
        self::assertSame([1, 1, 0], [$report->claimed, $report->done, $report->lost]);
    }

    public function testACanceledTaskEndsAfterTheGrace(): void
    {
        $queue = self::queue();
        $queue->limit(self::RETENTION);
        $queue->enqueue('endless');
        $report = (new Worker($queue, ['*' => function (Task $task) use ($queue): void {
            $queue->cancel($task->id);
            self::spin();
        }], lease: 3, grace: 1))->run(drain: true);
        self::assertSame([1, 1], [$report->cancelled, $report->done]);
        self::assertSame(0, $queue->stats()['ready'] + $queue->stats()['dead']);
    }

    public function testAStopLetsTheRunningTaskFinishAndReleasesTheRest(): void
    {
        $queue = self::queue();
        $queue->enqueueAll(array_map(fn (int $n) => new NewTask("task:$n"), range(1, 3)));
        $worker = self::fork(function ($report) use ($queue): void {
            $worker = new Worker($queue, ['*' => function (Task $task) use ($report): void {
                fwrite($report, "$task->id\n");
                usleep(200_000);
                usleep(200_000);
            }], prefetch: 3);
            fwrite($report, json_encode($worker->run()) . "\n");
        }, $pipe);
        self::assertSame('task:1', self::line($pipe));
        posix_kill($worker, SIGTERM);
        $report = json_decode(self::line($pipe), true);
        self::assertSame([3, 1, 2], [$report['claimed'], $report['done'], $report['released']]);
        self::join($worker);
        self::assertSame([2, 0], [$queue->stats()['ready'], $queue->stats()['leased']]);
        self::assertSame(1, $queue->claim()[0]->attempt);
    }

    public function testAStopEndsAHandlerThatExceedsTheGrace(): void
    {
        $queue = self::queue();
        $queue->enqueue('endless');
        $worker = self::fork(function ($report) use ($queue): void {
            $worker = new Worker($queue, ['*' => function () use ($report): void {
                fwrite($report, "started\n");
                while (true) {
                    usleep(10_000);
                }
            }], grace: 1);
            fwrite($report, json_encode($worker->run()) . "\n");
        }, $pipe);
        self::line($pipe);
        posix_kill($worker, SIGTERM);
        self::assertSame(1, json_decode(self::line($pipe), true)['released']);
        self::join($worker);
        self::assertSame(1, $queue->stats()['ready']);
    }

    public function testAnIdleWorkerIsWokenAndStoppedAtOnce(): void
    {
        $queue = self::queue();
        $worker = self::fork(function ($report) use ($queue): void {
            $worker = new Worker($queue, ['*' => function (Task $task) use ($report): void {
                fwrite($report, "$task->id\n");
            }]);
            fwrite($report, json_encode($worker->run()) . "\n");
        }, $pipe);
        $queue->enqueue('a');
        self::assertSame('a', self::line($pipe));
        $stopped = microtime(true);
        posix_kill($worker, SIGTERM);
        self::assertSame(1, json_decode(self::line($pipe), true)['done']);
        self::assertLessThan(3, microtime(true) - $stopped);
        self::join($worker);
    }

    public function testForksShareTheTasksAndEachTaskRunsOnce(): void
    {
        $queue = self::queue();
        $done = self::queue();
        $queue->enqueueAll(array_map(fn (int $n) => new NewTask("task:$n"), range(1, 60)));
        $report = (new Worker($queue, ['*' => function (Task $task) use ($done): void {
            $done->enqueue($task->id, getmypid());
        }], prefetch: 5, forks: 3))->run(drain: true);
        self::assertSame([60, 60], [$report->claimed, $report->done]);
        self::assertSame(60, $done->stats()['ready']);
        $processes = array_unique(array_map(fn (Task $task) => $task->value(), $done->claim(100, 30)));
        self::assertNotContains(getmypid(), $processes);
    }

    /**
     * The queue's tasks, `long` first, on a worker in a process of its own, which announces itself often.
     *
     * @return array{resource, resource, resource} process, standard input and output
     */
    private static function announcing(string $queue, bool $hasTimers): array
    {
        $settings = $hasTimers ? [] : ['-d', 'disable_functions=pcntl_alarm'];
        $command = [PHP_BINARY, ...$settings, __DIR__ . '/announcing', $queue];
        $process = proc_open($command, [['pipe', 'r'], ['pipe', 'w'], STDERR], $pipes);
        return [$process, ...$pipes];
    }

    /** @return array<string, array{bool}> */
    public function timers(): array
    {
        return ['with timers' => [true], 'without timers' => [false]];
    }

    /** @dataProvider timers */
    public function testAnOperatorSeesQuietsAndStopsAWorker(bool $hasTimers): void
    {
        $queue = self::queue();
        $queue->enqueueAll([new NewTask('long', priority: 0), new NewTask('b'), new NewTask('c')]);
        [$process, $in, $out] = self::announcing($queue->name, $hasTimers);
        self::assertSame('long', self::line($out));
        [$seen] = $queue->workers();
        self::assertSame(['shop', 1, 'work'], [$seen->name, $seen->concurrency, $seen->mode]);
        $version = \Composer\InstalledVersions::getPrettyVersion('rushgate/rushgate');
        self::assertSame("rushgate-php $version", $seen->version);
        self::assertMatchesRegularExpression('/^[0-9a-f]{16}$/', $seen->id);
        self::assertEqualsWithDelta(30_000_000, $seen->leaseUntilUs - $seen->seenUs, 1_000_000);
        // After two more announcements, the worker has the answer of the first.
        $announcements = function (int $n) use ($queue): void {
            for ([$seen] = $queue->workers(); $n > 0; $n--) {
                $isLater = fn () => $queue->workers()[0]->seenUs > $seen->seenUs;
                self::eventually($isLater, 'the worker announces itself');
                [$seen] = $queue->workers();
            }
        };
        if ($hasTimers) {
            $announcements(1);
            self::assertSame(1, $queue->workers()[0]->running);
        }
        self::assertTrue($queue->setWorker($seen->id, 'quiet'));
        $hasTimers && $announcements(2);
        fwrite($in, "end\n");
        self::eventually(fn () => $queue->stats()['ready'] === 2, 'a quiet worker returns tasks that it has not started');
        $announcements(2);
        self::assertSame([2, 'quiet', 0], [$queue->stats()['ready'], $queue->workers()[0]->mode, $queue->workers()[0]->running]);
        self::assertTrue($queue->setWorker($seen->id, 'work'));
        self::assertSame(['b', 'c'], [self::line($out), self::line($out)]);
        self::assertTrue($queue->setWorker($seen->id, 'stop'));
        $report = json_decode(self::line($out), true);
        self::assertSame([5, 3, 2], [$report['claimed'], $report['done'], $report['released']]);
        proc_close($process);
        self::assertSame([], $queue->workers());
        self::assertFalse($queue->setWorker($seen->id, 'work'));
        self::refused(InvalidArgument::class, fn () => $queue->setWorker($seen->id, 'sleep'));
    }

    public function testADrainingWorkerThatIsQuietedEnds(): void
    {
        $queue = self::queue();
        $queue->enqueueAll([new NewTask('a'), new NewTask('b')]);
        [$each, Presence::$each] = [Presence::$each, 0.05];
        $report = (new Worker($queue, ['*' => function () use ($queue): void {
            [$seen] = $queue->workers();
            $queue->setWorker($seen->id, 'quiet');
            // The second announcement from here is sent after the answer of the first.
            for ($n = 0; $n < 2; $n++) {
                [$last] = $queue->workers();
                self::eventually(fn () => $queue->workers()[0]->seenUs > $last->seenUs, 'the worker announces itself');
            }
        }]))->run(drain: true);
        Presence::$each = $each;
        self::assertSame([1, 1, 0], [$report->claimed, $report->done, $report->released]);
        self::assertSame(1, $queue->stats()['ready']);
    }

    public function testAServerWithoutAnnouncementsStopsNoWorkerAndIsLoggedOnce(): void
    {
        // As an older server answers: it has no such function, and no such route.
        $proxy = str_starts_with(self::url(), 'rediss')
            ? null
            : Proxy::of(self::url(), ['queue_announce' => 'queue_unknownn', '/workers/' => '/unknown/']);
        if ($proxy === null) {
            self::markTestSkipped('the proxy reads the requests to one server');
        }
        $queue = Client::connect($proxy->url, self::options())->queue(self::name('queue'));
        $queue->enqueue('a');
        [$each, Presence::$each, $log] = [Presence::$each, 0.05, tempnam(sys_get_temp_dir(), 'rushgate')];
        $before = ini_set('error_log', $log);
        $report = (new Worker($queue, ['*' => function () use ($proxy): void {
            self::eventually(fn () => $proxy->replaced() >= 3, 'the worker announces itself again');
        }]))->run(drain: true);
        ini_set('error_log', $before);
        Presence::$each = $each;
        $proxy->stop();
        self::assertSame([1, 1, 0], [$report->claimed, $report->done, $report->outages]);
        $logged = file_get_contents($log);
        self::assertSame(1, substr_count($logged, "cannot announce the worker to the queue $queue->name"));
        str_starts_with($proxy->url, 'http') || self::assertStringContainsString('or older than this package', $logged);
        unlink($log);
    }

    public function testLostRepliesRunNoTaskTwice(): void
    {
        $proxy = Proxy::of(self::url());
        $client = $proxy === null ? self::client() : Client::connect($proxy->url, self::options());
        $queue = $client->queue(self::name('queue'));
        $queue->enqueueAll(array_map(fn (int $n) => new NewTask("task:$n"), range(1, 5)));
        $runs = [];
        $report = (new Worker($queue, ['*' => function (Task $task) use (&$runs, $proxy): void {
            $runs[] = $task->id;
            // The completion is sent twice.
            $proxy === null ? Servers::killConnections(self::url()) : $proxy->loseNextReply();
        }]))->run(drain: true);
        $proxy?->stop();
        self::assertSame(['task:1', 'task:2', 'task:3', 'task:4', 'task:5'], $runs);
        self::assertSame([5, 5, 0], [$report->claimed, $report->done, $report->lost]);
    }

    public function testATimeoutInTheMiddleOfACallLeavesTheClientUsable(): void
    {
        $client = self::client();
        $queue = $client->queue(self::name('queue'));
        $other = $client->queue(self::name('queue'));
        $queue->enqueue('busy', maxAttempts: 1);
        $count = 0;
        $report = (new Worker($queue, ['*' => function () use ($other, &$count): void {
            while (true) {
                $other->enqueue('task:' . ++$count);
            }
        }], timeout: 1))->run(drain: true);
        self::assertSame([1, 1], [$report->timedOut, $report->dead]);
        self::assertSame('added', $other->enqueue('last')->outcome);
        // The call that was interrupted may have been executed.
        self::assertContains($other->stats()['ready'], [$count, $count + 1]);
    }

    public function testTheBackoffGrowsToItsMaximum(): void
    {
        $backoff = new Backoff(base: 1, factor: 2, max: 10, jitter: false);
        self::assertSame([1.0, 2.0, 4.0, 8.0, 10.0], array_map($backoff->delay(...), range(1, 5)));
        self::assertSame(10.0, $backoff->delay(1_000));
        for ($draw = 0; $draw < 50; $draw++) {
            $delay = (new Backoff())->delay(3);
            self::assertTrue($delay >= 0 && $delay <= 4);
        }
    }
}
