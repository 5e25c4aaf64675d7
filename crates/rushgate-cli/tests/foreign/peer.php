<?php

declare(strict_types=1);

// One role in a scenario of tests/foreign.rs, in PHP: `peer.php PORT ROLE ARGUMENT…`.

foreach (['RedisLock', 'RedisQueue', 'RedisSale'] as $class) {
    require __DIR__ . "/../../../../examples/php/$class.php";
}
set_error_handler(fn ($level, $what, $file, $line) => throw new ErrorException($what, 0, $level, $file, $line));

function must(bool $fact, string $what): void
{
    $fact || throw new RuntimeException("it should be: $what");
}

$redis = new Redis();
$redis->connect('127.0.0.1', (int) $argv[1]);
$parts = [
    'count' => function (string $name, string $times) use ($redis): void {
        $lock = new RedisLock($redis);
        for ($time = 0; $time < (int) $times; $time++) {
            must($lock->lock($name, 60), 'granted in time');
            $redis->set('counter', (int) $redis->get('counter') + 1);
            $redis->rPush('fences', $lock->fence($name));
            must($lock->unlock($name), 'held until now');
        }
    },
    // The parent has a client id, a subscription, a lock, a queue and a connection before it forks.
    'fork' => function (string $children, string $times) use ($redis, &$parts): void {
        [$lock, $queue] = [new RedisLock($redis), new RedisQueue($redis)];
        must($lock->lock('parent'), 'free');
        must(!(new RedisLock($redis))->lock('parent', 0.05), 'held');
        must($queue->claim('jobs', wait: 0.05) === [], 'nothing to do');
        $use = function (string $name) use ($queue, $times, &$parts): void {
            for ($number = 0; $number < (int) $times; $number++) {
                must($queue->enqueue('jobs', "$name:$number"), 'room');
            }
            $parts['count']('counter', $times);
        };
        $pids = [];
        for ($child = 0; $child < (int) $children; $child++) {
            $pids[] = $pid = pcntl_fork();
            if ($pid === 0) {
                must(!$lock->isLocking('parent') && $lock->fence('parent') === null, 'it is the parent\'s');
                must(!$lock->unlock('parent') && !$lock->expire('parent', 30) && $lock->unlockAll(), 'it is the parent\'s');
                $use("child-$child");
                exit(0);
            }
        }
        $use('parent');
        foreach ($pids as $pid) {
            pcntl_waitpid($pid, $status);
            must($status === 0, "a child that ends well, not $status");
        }
        must($lock->unlock('parent'), 'held until now');
    },
    'kinds' => function (string $name) use ($redis): void {
        $queue = new RedisQueue($redis);
        must($queue->enqueue('in', $name, payload: ['from' => $name], kind: 'mail:welcome'), 'room');
        foreach ([['mail:thanks', 'application/json', ['to' => $name]], [null, 'text/plain', 'für dich']] as $told) {
            [$task] = $queue->claim("back-$name", 1, 30, 60);
            must([$task['kind'], $task['contentType'], $task['payload']] === $told, json_encode($told));
            must($queue->complete("back-$name", $task), 'ours until now');
        }
        $queue->enqueue("back-$name", 'bytes', payload: "\xff", kind: 'b/c');
        [$task] = $queue->claim("back-$name");
        must([$task['kind'], $task['contentType'], $task['payload']] === ['b/c', 'application/octet-stream', "\xff"], 'bytes');
        try {
            $queue->enqueue("back-$name", 'wrong', kind: 'two words');
            throw new LogicException('it should be refused');
        } catch (InvalidArgumentException $why) {
            must(str_contains($why->getMessage(), 'two words'), $why->getMessage());
        }
    },
    'work' => function (string $name) use ($redis): void {
        $queue = new RedisQueue($redis);
        do {
            [$task] = $queue->claim($name, 1, 30, 60);
            $redis->hIncrBy('done', $task['id'], 1);
            must($queue->complete($name, $task), 'ours until now');
        } while (!str_starts_with($task['id'], 'stop:'));
    },
    'relay' => function (string $from, string $to, string $tasks) use ($redis): void {
        $queue = new RedisQueue($redis);
        for ($time = 0; $time < (int) $tasks; $time++) {
            [$task] = $queue->claim($from, 1, 30, 60);
            $payload = [...$task['payload'], 'php'];
            must($queue->enqueue($to, $task['id'], payload: $payload, uniqueFor: 60), 'room');
            must($queue->complete($from, $task), 'ours until now');
        }
    },
    'buy' => function (string $id, string $name) use ($redis): void {
        $sale = new RedisSale($redis, $id);
        $told = ['confirmed' => [], 'cancelled' => [], 'units' => []];
        for ($buyer = 0; ; $buyer++) {
            $hold = $sale->reserve("$name-$buyer", 'click', ['phone' => 1]);
            if ($hold['outcome'] === 'sold_out') {
                break;
            } elseif ($hold['outcome'] === 'all_held') {
                usleep(2_000);
                continue;
            }
            must($hold['outcome'] === 'reserved', $hold['outcome']);
            must(count($hold['units']) === 1 && $hold['units'][0][0] === 'phone' && $hold['state'] === 'held', 'one phone');
            $again = $sale->reserve("$name-$buyer", 'click', ['phone' => 1]);
            must($again['outcome'] === 'replayed' && $again['reservation'] === $hold['reservation'], 'the same again');
            [$verb, $end] = $buyer % 5 === 4 ? ['cancel', 'cancelled'] : ['confirm', 'confirmed'];
            must($sale->$verb($hold['reservation']) === 'pending', 'left to the ledger');
            $told[$end][] = $hold['reservation'];
            if ($end === 'confirmed') {
                $told['units'][] = $hold['units'][0][1];
            }
        }
        echo '» ', json_encode($told), "\n";
    },
    'meet' => function (string $id, string $name, string $hold) use ($redis): void {
        $sale = new RedisSale($redis, $id);
        ['outcome' => $outcome, 'retryAtUs' => $retryAtUs] = $sale->reserve($name, 'click', ['phone' => 1]);
        $told = ['reserve' => $outcome, 'retry_at_us' => $retryAtUs];
        echo '» ', json_encode($told + ['confirm' => $sale->confirm($hold), 'cancel' => $sale->cancel($hold)]), "\n";
    },
];
// All processes start at once.
$redis->rPush('ready', 'php');
$redis->blPop('go', 50);
$parts[$argv[2]](...array_slice($argv, 3));
