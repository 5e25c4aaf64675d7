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
    // Every name twice, as decomposed and as composed characters.
    'spell' => function (string $name) use ($redis): void {
        if (!extension_loaded('intl')) {
            $calls = [
                fn () => new RedisSale($redis, "soir\u{e9}e"),
                fn () => (new RedisLock($redis))->lock("port\u{e9}e"),
                fn () => (new RedisQueue($redis))->enqueue("caf\u{e9}", 'a'),
                fn () => (new RedisQueue($redis))->enqueue('mail', ['a', "\u{e9}t\u{e9}"]),
            ];
            foreach ($calls as $call) {
                try {
                    $call();
                    throw new LogicException('it should be refused');
                } catch (InvalidArgumentException $why) {
                    must(str_contains($why->getMessage(), 'needs the PHP extension intl'), $why->getMessage());
                }
            }
            echo "» \"refused\"\n";
            return;
        }
        $sale = new RedisSale($redis, "soire\u{301}e");
        $first = $sale->reserve("$name-Zoe\u{308}", "cle\u{301}", ["cafe\u{301}" => 1]);
        must($first['outcome'] === 'reserved', $first['outcome']);
        $again = $sale->reserve("$name-Zo\u{eb}", "cl\u{e9}", ["caf\u{e9}" => 1]);
        must($again['outcome'] === 'replayed' && $again['reservation'] === $first['reservation'], $again['outcome']);
        $other = $sale->reserve("$name-Zo\u{eb}", 'other', ["caf\u{e9}" => 1]);
        must($other['outcome'] === 'limit_reached', $other['outcome']);
        must($sale->confirm($first['reservation']) === 'pending', 'left to the ledger');

        [$lock, $second] = [new RedisLock($redis), new RedisLock($redis)];
        must($lock->lock("$name-porte\u{301}e", 0, 600) && $lock->isLocking("$name-port\u{e9}e"), 'free');
        must(!$second->lock("$name-port\u{e9}e"), 'one lock');

        $queue = new RedisQueue($redis);
        must($queue->enqueue("$name-cafe\u{301}", "e\u{301}te\u{301}"), 'room');
        must($queue->enqueue("$name-caf\u{e9}", "\u{e9}t\u{e9}"), 'room');
        $tasks = $queue->claim("$name-cafe\u{301}", 2);
        must(array_column($tasks, 'id') === ["\u{e9}t\u{e9}"], 'one task');
        must($queue->complete("$name-cafe\u{301}", $tasks[0]), 'ours until now');
    },
    'try' => function (string $id) use ($redis): void {
        try {
            $said = (new RedisSale($redis, $id))->reserve('ann', 'click', ['phone' => 1])['outcome'];
        } catch (RuntimeException $error) {
            $said = $error->getMessage();
        }
        echo '» ', json_encode($said), "\n";
    },
];
// All processes start at once.
$redis->rPush('ready', 'php');
$redis->blPop('go', 50);
$parts[$argv[2]](...array_slice($argv, 3));
