<?php

declare(strict_types=1);

namespace Rushgate\Tests;

use Rushgate\Exception\Dead;
use Rushgate\Exception\InvalidArgument;
use Rushgate\Exception\NotFound;
use Rushgate\Exception\QueueFull;
use Rushgate\Exception\Refused;
use Rushgate\Exception\Stale;
use Rushgate\Exception\Undecodable;
use Rushgate\Exception\Unmet;
use Rushgate\NewTask;
use Rushgate\Payload;

final class QueuesTest extends TestCase
{
    private const PARENT = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';

    public function testATaskIsClaimedAndCompletedOnce(): void
    {
        $queue = self::queue();
        self::assertSame('added', $queue->enqueue('a', ['to' => 'ann'], kind: 'mail:welcome')->outcome);
        [$task] = $queue->claim(5, 30);
        self::assertSame(['a', 'mail:welcome', ['to' => 'ann']], [$task->id, $task->kind(), $task->value()]);
        self::assertSame([1, 20, 5], [$task->attempt, $task->maxAttempts, $task->priority]);
        self::assertSame([], $queue->claim());
        self::assertSame('done', $task->complete());
        self::refused(Stale::class, $task->complete(...));
        self::assertNull($queue->find('a'));
    }

    /** @dataProvider payloads */
    public function testAPayloadKeepsItsValueAndType(mixed $payload, mixed $value, string $type): void
    {
        $queue = self::queue();
        $queue->enqueue('a', $payload, kind: 'b/c', traceparent: self::PARENT);
        [$task] = $queue->claim();
        self::assertSame($value, $task->value());
        self::assertSame($type, $task->payload->contentType);
        self::assertSame(['b/c', self::PARENT], [$task->payload->kind, $task->payload->traceparent]);
        $task->complete();
    }

    public function payloads(): iterable
    {
        $array = ['n' => 1, 'list' => [1.5, 'für', null]];
        yield 'array' => [$array, $array, 'application/json'];
        yield 'string' => ['text', 'text', 'application/json'];
        yield 'bytes' => [Payload::bytes("\xff\0"), "\xff\0", 'application/octet-stream'];
        yield 'nothing' => [null, '', 'application/octet-stream'];
        yield 'text' => [Payload::bytes('für', 'text/plain;charset=utf-8'), 'für', 'text/plain;charset=utf-8'];
    }

    public function testManyTasksAreEnqueuedInOneStepAndClaimedInTheirOrder(): void
    {
        $queue = self::queue();
        $tasks = array_map(fn (int $n) => new NewTask("task:$n", $n), range(1, 300));
        self::assertSame(['added' => 300], array_count_values(array_column($queue->enqueueAll($tasks), 'outcome')));
        $claimed = $queue->claim(300, 30);
        self::assertSame(range(1, 300), array_map(fn ($task) => $task->value(), $claimed));
        self::assertSame(['done' => 300], array_count_values($queue->completeAll($claimed)));
    }

    public function testADuplicateIsKeptReplacedOrDebounced(): void
    {
        $queue = self::queue();
        $queue->enqueue('a', 1, delay: 60);
        $kept = $queue->enqueue('a', 2);
        self::assertSame('kept', $kept->outcome);
        self::assertTrue($kept->isLive());
        self::assertSame('replaced', $queue->enqueue('a', 3, onDuplicate: 'earliest')->outcome);
        self::assertSame([1], array_map(fn ($task) => $task->value(), $queue->top(5)));
        self::assertSame('replaced', $queue->enqueue('a', 4, onDuplicate: 'replace')->outcome);
        self::assertSame('replaced', $queue->enqueue('a', 5, delay: 60, onDuplicate: 'debounce', maxWait: 0)->outcome);
        [$task] = $queue->claim(1, 30);
        self::assertSame(5, $task->value());
        $queue->enqueue('a', 6, onDuplicate: 'replace');
        self::assertSame('requeued', $task->complete());
        self::assertSame(6, $queue->claim()[0]->value());
    }

    public function testPrioritiesDelaysKeysAndDueTimesHaveTheirEffect(): void
    {
        $queue = self::queue();
        $queue->enqueue('last', priority: 9);
        $queue->enqueue('first', priority: 0);
        $queue->enqueue('past', dueUs: 1, key: 'tenant-7');
        $queue->enqueue('later', delay: 3600);
        $claimed = $queue->claim(10, 30);
        self::assertSame(['first', 'past', 'last'], array_column($claimed, 'id'));
        self::assertSame([null, 'tenant-7', null], array_column($claimed, 'key'));
        self::assertSame('scheduled', $queue->find('later')->state);
    }

    public function testAWaitingClaimIsWokenByATask(): void
    {
        $queue = self::queue();
        $child = self::fork(function ($report) use ($queue): void {
            fwrite($report, "ready\n");
            $tasks = $queue->claim(1, 30, 20);
            fwrite($report, $tasks[0]->id . ' ' . microtime(true) . "\n");
            $tasks[0]->complete();
        }, $pipe);
        self::line($pipe);
        // The claim waits after it has found the queue empty. No answer tells when that is.
        usleep(300_000);
        $enqueued = microtime(true);
        $queue->enqueue('a');
        [$id, $at] = explode(' ', self::line($pipe));
        self::assertSame('a', $id);
        self::assertLessThan(1.0, (float) $at - $enqueued, 'no polling interval passes');
        self::join($child);
    }

    public function testAWaitThatHasEndedTakesNoWakeUpFromOthers(): void
    {
        $queue = self::queue();
        self::assertSame([], $queue->claim(1, 30, 0.2));
        $child = self::fork(function ($report) use ($queue): void {
            fwrite($report, "ready\n");
            $queue->claim(1, 30, 20)[0]->complete();
            fwrite($report, microtime(true) . "\n");
        }, $pipe);
        self::line($pipe);
        // The claim waits after it has found the queue empty. No answer tells when that is.
        usleep(300_000);
        $enqueued = microtime(true);
        $queue->enqueue('a');
        self::assertLessThan(1.0, (float) self::line($pipe) - $enqueued, 'the free worker is woken');
        self::join($child);
    }

    public function testADelayedTaskEndsAWaitWhenItIsDue(): void
    {
        $queue = self::queue();
        $queue->enqueue('a', delay: 0.3);
        self::assertSame([], $queue->claim());
        self::assertSame('a', $queue->claim(1, 30, 20)[0]->id);
    }

    public function testARetriedTaskComesAgainAndDiesAfterItsLastAttempt(): void
    {
        $queue = self::queue();
        $queue->enqueue('a', 'payload', maxAttempts: 2, key: 'k');
        self::assertSame('scheduled', $queue->claim()[0]->retry('first'));
        self::assertSame('first', $queue->find('a')->error);
        self::assertSame('dead', $queue->claim()[0]->retry('second'));
        [$letter] = $queue->dead();
        self::assertSame(['a', 2, 'second', 'k'], [$letter->id, $letter->attempts, $letter->error, $letter->key]);
        self::assertSame('payload', $letter->payload->value());
        self::assertSame(['requeued' => 1, 'kept' => 0], $queue->requeueDead(['a']));
        self::assertSame('dead', $queue->claim()[0]->retry('third', giveUp: true));
        self::assertSame(1, $queue->deleteDead());
        self::assertSame([], $queue->dead());
    }

    public function testAReleasedTaskKeepsItsAttemptsAndAnExpiredLeaseCounts(): void
    {
        $queue = self::queue();
        $queue->enqueue('a');
        self::assertSame('waiting', $queue->claim()[0]->release());
        [$task] = $queue->claim(1, 0.05);
        self::assertSame(1, $task->attempt);
        [$again] = $queue->claim(1, 30, 10);
        self::assertSame(['a', 2], [$again->id, $again->attempt]);
        self::refused(Stale::class, $task->complete(...));
        self::refused(Stale::class, $task->extend(...));
        self::assertSame('done', $again->complete());
    }

    public function testProgressAndCancellationMeetInTheHeartbeat(): void
    {
        $queue = self::queue();
        $queue->enqueue('a');
        [$task] = $queue->claim();
        self::assertTrue($task->extend(30, 40, 'halfway'));
        $info = $queue->find('a');
        self::assertSame(['leased', 40, 'halfway'], [$info->state, $info->percent, $info->note]);
        self::assertSame('marked', $queue->cancel('a'));
        self::assertFalse($task->extend());
        self::assertSame('done', $task->complete());
        $queue->enqueue('b');
        self::assertSame('removed', $queue->cancel('b'));
        self::refused(NotFound::class, fn () => $queue->cancel('b'));
    }

    public function testAWaitingTaskIsRescheduled(): void
    {
        $queue = self::queue();
        $queue->enqueue('a', delay: 600, deadline: 3_600);
        $due = $queue->reschedule('a', 60);
        $task = $queue->find('a')->task;
        self::assertSame($due, $task->dueUs);
        self::assertEqualsWithDelta(3_540e6, $task->deadlineUs - $due, 60e6);
        $late = self::refused(InvalidArgument::class, fn () => $queue->reschedule('a', 7_200));
        self::assertSame($task->deadlineUs, $late->details['deadline_us']);
        self::assertSame($due + 1_000_001, $queue->reschedule('a', dueUs: $due + 1_000_001));
        self::assertSame($due + 1_000_001, $queue->find('a')->task->dueUs);
        self::assertSame([], $queue->claim());
        $queue->reschedule('a');
        [$claimed] = $queue->claim();
        self::assertSame(1, $claimed->attempt);
        $leased = self::refused(Refused::class, fn () => $queue->reschedule('a'));
        self::assertSame('leased', $leased->errorCode);
        $claimed->complete();
        self::refused(NotFound::class, fn () => $queue->reschedule('a'));
        foreach ([[-1], [34_560_001], [null, -1], [1, 1]] as $bad) {
            self::refused(InvalidArgument::class, fn () => $queue->reschedule('a', ...$bad));
        }
    }

    public function testATaskSaysWhenItWasClaimed(): void
    {
        $queue = self::queue();
        $queue->enqueue('a');
        self::assertNull($queue->find('a')->task->claimedUs);
        [$task] = $queue->claim();
        self::assertSame($task->fence, $task->claimedUs);
        self::assertSame($task->claimedUs, $queue->find('a')->task->claimedUs);
        self::assertEqualsWithDelta(microtime(true), $task->claimedUs / 1e6, 60);
    }

    public function testTheTasksThatWaitForATaskAreListed(): void
    {
        $queue = self::queue();
        self::assertSame([], $queue->dependents('a'));
        $queue->enqueueAll([
            new NewTask('a'), new NewTask('z', after: ['a'], ifDead: 'fail'), new NewTask('y', after: ['a'], ifDead: 'fail'),
            new NewTask('x', after: ['a'], ifDead: 'wait'),
        ]);
        self::assertSame(['x', 'z', 'y'], $queue->dependents('a'));
        self::assertSame(['x', 'z'], $queue->dependents('a', 2));
        foreach ([['a b'], ['a', 0], ['a', 1_001]] as $bad) {
            self::refused(InvalidArgument::class, fn () => $queue->dependents(...$bad));
        }
    }

    public function testAResultIsWaitedFor(): void
    {
        $queue = self::queue();
        self::refused(Refused::class, fn () => $queue->wait('a', 0.1));
        $queue->limit(self::RETENTION);
        $queue->enqueue('a');
        self::assertNull($queue->wait('a', 0.1));
        $child = self::fork(function () use ($queue): void {
            $queue->claim()[0]->complete(['sum' => 6]);
        });
        $info = $queue->wait('a', 20);
        self::assertSame(['done', ['sum' => 6]], [$info->how, $info->result->value()]);
        self::join($child);
        $queue->enqueue('b');
        $queue->claim()[0]->retry('no luck', giveUp: true);
        $dead = self::refused(Dead::class, fn () => $queue->wait('b', 5));
        self::assertSame('no luck', $dead->details['error']);
        self::refused(NotFound::class, fn () => $queue->wait('c', 0.1));
    }

    public function testAFullQueueRefusesOrDrops(): void
    {
        $queue = self::queue();
        $queue->limit(['bound' => 1]);
        $queue->enqueue('a');
        $full = self::refused(QueueFull::class, fn () => $queue->enqueue('b'));
        self::assertSame(1, $full->details['bound']);
        $queue->limit(['bound' => 1, 'overflow' => 'drop_new']);
        self::assertSame('dropped', $queue->enqueue('b')->outcome);
        $queue->limit(['bound' => 1, 'overflow' => 'drop_oldest']);
        $displaced = $queue->enqueue('c');
        self::assertSame(['displaced', 'a'], [$displaced->outcome, $displaced->other]);
    }

    public function testAnIdIsUniqueForItsWindow(): void
    {
        $queue = self::queue();
        $queue->enqueue('a', uniqueFor: 60);
        $queue->claim()[0]->complete();
        $recent = $queue->enqueue('a', uniqueFor: 60);
        self::assertSame('recent', $recent->outcome);
        self::assertSame($recent->untilUs, $queue->clearUnique('a'));
        self::assertNull($queue->clearUnique('a'));
        self::assertSame('added', $queue->enqueue('a')->outcome);
    }

    public function testATaskThatMissesItsDeadlineBecomesADeadLetter(): void
    {
        $queue = self::queue();
        $queue->enqueue('a', deadline: 0.05);
        self::eventually(fn () => count($queue->dead()) === 1, 'the deadline passes');
        self::assertSame([], $queue->claim());
    }

    public function testATaskWaitsForOthersAndGetsTheirResults(): void
    {
        $queue = self::queue();
        $queue->limit(self::RETENTION);
        $unmet = self::refused(Unmet::class, fn () => $queue->enqueue('sum', after: ['none']));
        self::assertSame(['none', 'unknown'], [$unmet->details['task'], $unmet->details['why']]);
        $queue->enqueue('one');
        $queue->enqueue('sum', after: ['one'], ifDead: 'fail');
        self::assertSame([true, 'blocked'], [$queue->find('sum')->waits, $queue->find('sum')->state]);
        self::assertSame([1, 'fail'], [$queue->waits('sum')['left'], $queue->waits('sum')['if_dead']]);
        $queue->claim()[0]->complete(7);
        [$sum] = $queue->claim();
        self::assertSame('sum', $sum->id);
        [$one] = $queue->waited('sum');
        self::assertSame(['one', 'done', 7], [$one['id'], $one['end'], $one['result']->value()]);
        $sum->complete();
    }

    public function testABatchRunsItsCallbackAfterItsMembers(): void
    {
        $queue = self::queue();
        $queue->enqueue('callback', heldOpen: true);
        $queue->enqueue('member:1', partOf: 'callback');
        $queue->enqueue('member:2', partOf: 'callback');
        self::assertSame(2, $queue->closeBatch('callback'));
        $refused = self::refused(Refused::class, fn () => $queue->closeBatch('callback'));
        self::assertSame('not_open', $refused->errorCode);
        self::refused(NotFound::class, fn () => $queue->closeBatch('none'));
        $queue->completeAll($queue->claim(10, 30));
        self::assertSame(['callback'], array_column($queue->claim(10, 30), 'id'));
    }

    public function testSchedulesAreSavedListedAndDeleted(): void
    {
        $queue = self::queue();
        $save = fn (mixed ...$options) => $queue->saveSchedule('nightly', ['n' => 1], ...$options);
        self::assertSame('added', $save(cron: '30 3 * * *', zone: 'Europe/Berlin', kind: 'report'));
        self::assertSame('unchanged', $save(cron: '30 3 * * *', zone: 'Europe/Berlin', kind: 'report'));
        self::assertSame('changed', $save(every: 60, missed: 'all'));
        [$schedule] = $queue->schedules();
        self::assertSame('nightly', $schedule['id']);
        self::assertSame(['every_ms' => 60_000, 'missed' => 'all'], $schedule['recurrence']);
        self::assertSame(0, $schedule['next_us'] % 60_000_000);
        self::assertSame(['n' => 1], $schedule['content']->value());
        $next = $schedule['next_us'];
        self::assertSame(array_map(fn (int $minutes) => $next + $minutes * 60_000_000, range(0, 4)), $schedule['upcoming_us']);
        $save(every: 60, missed: 'all', paused: true);
        self::assertSame([], $queue->schedules()[0]['upcoming_us']);
        self::assertTrue($queue->deleteSchedule('nightly'));
        self::assertFalse($queue->deleteSchedule('nightly'));
        self::assertSame([], $queue->schedules());
    }

    public function testStatsCountTasksAndShowTheLimits(): void
    {
        $queue = self::queue();
        $queue->limit(['concurrency' => 3, 'rate' => ['n' => 5, 'per_ms' => 1_000], 'per_key' => ['fifo' => true]]);
        $queue->enqueueAll([new NewTask('a'), new NewTask('b'), new NewTask('c', delay: 60)]);
        $queue->claim();
        $stats = $queue->stats();
        self::assertSame([1, 1, 1], [$stats['ready'], $stats['leased'], $stats['scheduled']]);
        self::assertSame(3, $stats['limits']['concurrency']);
        self::assertSame(['n' => 5, 'per_ms' => 1_000], $stats['limits']['rate']);
        self::assertTrue($stats['limits']['per_key']['fifo']);
        self::assertNull($stats['limits']['retention']);
    }

    public function testWhyNamesTheReasonsInOrder(): void
    {
        $queue = self::queue();
        $why = fn (string $id) => array_column($queue->why($id), 'reason');
        self::assertSame(['unknown'], $why('none'));
        $queue->enqueue('later', delay: 60, deadline: 120);
        self::assertSame(['not_due', 'deadline'], $why('later'));
        $queue->enqueue('a', key: 'k');
        $queue->enqueue('b', key: 'k');
        self::assertSame(['waiting'], $why('a'));
        self::assertSame(0, $queue->why('a')[0]['ahead']);
        self::assertSame(['in_line'], $why('b'));
        self::assertSame('a', $queue->why('b')[0]['first']);
        $queue->pause();
        self::assertSame(['paused'], $why('a'));
        self::assertSame([], $queue->claim());
        $queue->resume();
        $queue->limit(['concurrency' => 1, 'per_key' => ['concurrency' => 1]]);
        [$task] = $queue->claim(1, 30, 0, 'ann');
        self::assertSame(['running'], $why('a'));
        self::assertSame('ann', $queue->why('a')[0]['worker']);
        self::assertSame(['queue_busy', 'key_busy'], $why('b'));
        self::assertSame('a', $queue->why('b')[1]['running'][0]['id']);
        $task->retry('no luck', giveUp: true);
        self::assertSame('no luck', $queue->why('a')[0]['error']);
        $queue->enqueue('parent', after: ['b']);
        self::assertSame(['waits_for'], $why('parent'));
        self::assertSame('b', $queue->why('parent')[0]['first'][0]['id']);
    }

    public function testAnUndecodablePayloadStaysInTheStore(): void
    {
        $queue = self::queue();
        $queue->enqueue('a', Payload::bytes('{', 'application/json'));
        [$task] = $queue->claim();
        self::refused(Undecodable::class, $task->value(...));
        self::assertSame('{', $task->payload->toBytes());
        $task->release();
        self::assertSame(1, $queue->stats()['ready']);
    }

    public function testPopAndDequeueRemoveTasks(): void
    {
        $queue = self::queue();
        $queue->enqueueAll([new NewTask('a', 1), new NewTask('b', 2)]);
        [$read] = $queue->top();
        self::assertSame('a', $read->id);
        $queue->enqueue('a', 3, onDuplicate: 'replace');
        self::assertFalse($queue->dequeue($read));
        self::assertTrue($queue->dequeue($queue->find('a')->task));
        self::assertSame(['b'], array_column($queue->pop(5), 'id'));
        self::assertSame(0, $queue->stats()['ready']);
    }
}
