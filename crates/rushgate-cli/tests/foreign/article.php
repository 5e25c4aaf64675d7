<?php

declare(strict_types=1);

// Tests of the article's two classes, method by method: `article.php PORT`. Each case is named after what it shows.

require __DIR__ . '/../../../../examples/php/RedisLock.php';
require __DIR__ . '/../../../../examples/php/RedisQueue.php';
set_error_handler(fn ($level, $what, $file, $line) => throw new ErrorException($what, 0, $level, $file, $line));

function redis(): Redis
{
    $redis = new Redis();
    $redis->connect('127.0.0.1', (int) $GLOBALS['argv'][1]);
    return $redis;
}

function same(mixed $is, mixed $should): void
{
    if ($is !== $should) {
        throw new RuntimeException('it is ' . var_export($is, true) . ', and should be ' . var_export($should, true));
    }
}

$scenes = [
    'a lock is held by one at a time, and released by its holder alone' => function (): void {
        [$ann, $bob] = [new RedisLock(redis()), new RedisLock(redis())];
        same($ann->lock('order'), true);
        same($bob->lock('order'), false);
        same($bob->unlock('order'), false);
        same([$ann->isLocking('order'), $bob->isLocking('order')], [true, false]);
        $fence = $ann->fence('order');
        same($ann->unlock('order'), true);
        same($ann->isLocking('order'), false);
        same($bob->lock('order'), true);
        same($bob->fence('order') > $fence, true);
        same($bob->unlock('order'), true);
    },
    'a wait that is over leaves no place in line' => function (): void {
        [$ann, $bob] = [new RedisLock(redis()), new RedisLock(redis())];
        same($ann->lock('order'), true);
        same($bob->lock('order', 0.05), false);
        same($ann->unlock('order'), true);
        same($bob->lock('order'), true);
        same($bob->unlock('order'), true);
    },
    'a wait that is interrupted leaves no place in line' => function (): void {
        [$ann, $bob] = [new RedisLock(redis()), new RedisLock(redis())];
        same($ann->lock('order'), true);
        pcntl_async_signals(true);
        pcntl_signal(SIGUSR1, fn () => throw new RangeException('interrupted'));
        $child = pcntl_fork();
        if ($child === 0) {
            for ($redis = redis(); !$redis->exists('rg:{l:order}:line');) {
                usleep(1_000);
            }
            posix_kill(posix_getppid(), SIGUSR1);
            posix_kill(getmypid(), SIGKILL);
        }
        try {
            $bob->lock('order', 60);
            throw new LogicException('it should be interrupted');
        } catch (RangeException | ErrorException) {
        }
        pcntl_waitpid($child, $status);
        same($ann->unlock('order'), true);
        same($bob->lock('order'), true);
        same($bob->unlock('order'), true);
    },
    'a lease expires, and its former holder cannot extend it' => function (): void {
        [$ann, $bob] = [new RedisLock(redis()), new RedisLock(redis())];
        same($ann->lock('order', 0, 0.05), true);
        same($bob->lock('order', 5), true);
        same($ann->expire('order', 15), false);
        same($ann->unlock('order'), false);
        same($bob->expire('order', 15), true);
        same($bob->isLocking('order'), true);
        same($bob->unlockAll(), true);
    },
    'unlockAll gives up what this object holds and nothing else' => function (): void {
        [$ann, $bob] = [new RedisLock(redis()), new RedisLock(redis())];
        same([$ann->lock(1), $ann->lock('2'), $bob->lock('three')], [true, true, true]);
        same($ann->unlockAll(), true);
        same([$bob->lock('1'), $bob->lock(2), $ann->lock('three')], [true, true, false]);
        same($bob->unlockAll(), true);
    },
    'nothing has no lock and no queue' => function (): void {
        same((new RedisLock(redis()))->lock(''), false);
        $queue = new RedisQueue(redis());
        same([$queue->enqueue('', 'a'), $queue->enqueue('mail', ''), $queue->enqueue('mail', 'a', 0)], [false, false, false]);
    },
    'a second record is kept, or replaces, as asked' => function (): void {
        $queue = new RedisQueue(redis());
        same($queue->enqueue('mail', ['a', 'b'], payload: 'first'), true);
        same($queue->enqueue('mail', 'a', payload: 'second'), true);
        same(array_column($queue->top('mail', 5), 'payload', 'id'), ['a' => 'first', 'b' => 'first']);
        same($queue->enqueue('mail', 'b', onDuplicate: RedisQueue::REPLACE, payload: ['third']), true);
        same(array_column($queue->top('mail', 5), 'payload', 'id'), ['a' => 'first', 'b' => ['third']]);
        same(count($queue->pop('mail', 5)), 2);
    },
    'a delay is waited for' => function (): void {
        $queue = new RedisQueue(redis());
        same($queue->enqueue('later', 'tomorrow', 10, 86_400), true);
        same([$queue->top('later'), $queue->pop('later'), $queue->pop('later', 5)], [false, false, []]);
        same($queue->enqueue('later', [7], 10, 0.1), true);
        same($queue->claim('later', 1, 30, 10)[0]['id'], '7');
    },
    'dequeue removes only what was read' => function (): void {
        $queue = new RedisQueue(redis());
        same($queue->enqueue('todo', 'a'), true);
        $read = $queue->top('todo');
        same($queue->enqueue('todo', 'a', onDuplicate: RedisQueue::REPLACE), true);
        same($queue->dequeue('todo', 'a', $read['score']), false);
        same($queue->dequeue('todo', 'a', $queue->top('todo')['score']), true);
        same($queue->top('todo'), false);
    },
    'a score that no method gave is refused' => function (): void {
        $queue = new RedisQueue(redis());
        foreach (['', 'soon', '1', '1.', '1.2.3', null, 1.5, ['1.0']] as $score) {
            $calls = [
                fn () => $queue->dequeue('todo', 'a', $score),
                fn () => $queue->complete('todo', ['id' => 'a', 'score' => $score]),
                fn () => $queue->retry('todo', ['id' => 'a', 'score' => $score], 'no luck'),
            ];
            foreach ($calls as $call) {
                try {
                    $call();
                    same('accepted', 'refused');
                } catch (InvalidArgumentException $refusal) {
                    same(str_contains($refusal->getMessage(), 'must be one that top, pop or claim gave'), true);
                }
            }
        }
    },
    'a task whose worker is gone comes again, and the lost claim changes nothing' => function (): void {
        $queue = new RedisQueue(redis());
        same($queue->enqueue('jobs', 'a'), true);
        [$lost] = $queue->claim('jobs', 1, 0.05);
        [$task] = $queue->claim('jobs', 1, 30, 10);
        same([$task['id'], $task['attempt']], ['a', 2]);
        same($queue->complete('jobs', $lost), false);
        same($queue->retry('jobs', $task, 'no luck', 0), true);
        [$task] = $queue->claim('jobs');
        same([$queue->complete('jobs', $task), $queue->claim('jobs')], [true, []]);
    },
    'what is outside its limits is refused at once, and changes nothing' => function (): void {
        $queue = new RedisQueue($redis = redis());
        $keys = $redis->dbSize();
        try {
            $queue->enqueue('mail', 'a b');
            same('accepted', 'refused');
        } catch (RuntimeException $refusal) {
            same(str_contains($refusal->getMessage(), 'INVALID ARGV[2], the id, is `a b`'), true);
        }
        same($redis->dbSize(), $keys);
    },
    'after a lost connection the client reconnects, and the call takes effect once' => function (): void {
        $queue = new RedisQueue(redis());
        same($queue->enqueue('mail', ['a', 'b']), true);
        redis()->rawCommand('CLIENT', 'KILL', 'TYPE', 'normal');
        same($queue->pop('mail')['id'], 'a');
        redis()->rawCommand('CLIENT', 'KILL', 'TYPE', 'normal');
        same(array_column($queue->pop('mail', 5), 'id'), ['b']);
    },
    'a wait continues after its notifications were lost' => function (): void {
        $queue = new RedisQueue(redis());
        same($queue->claim('mail', 1, 30, 0.05), []);
        redis()->rawCommand('CLIENT', 'KILL', 'TYPE', 'pubsub');
        same($queue->enqueue('mail', 'a', 10, 0.1), true);
        same($queue->claim('mail', 1, 30, 10)[0]['id'], 'a');
    },
];
foreach ($scenes as $what => $scene) {
    $scene();
    echo "ok $what\n";
}
