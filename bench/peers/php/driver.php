<?php
// php driver.php article lock|put|work|sale KEY=VALUE…   Callers are processes, as behind a web server.
require __DIR__ . '/article.php';
error_reporting(E_ALL & ~E_DEPRECATED);

$verb = $argv[2];
$said = ['first' => 0, 'bulk' => 0, 'callers' => 1, 'gap_ms' => 0, 'hold_ms' => 0, 'think_ms' => 0, 'hot' => 0];
foreach (array_slice($argv, 3) as $word) {
    [$key, $value] = explode('=', $word, 2);
    $said[$key] = (int) $value;
}

function connect(): Redis
{
    $at = parse_url(getenv('PEERS_URL') ?: 'redis://127.0.0.1:6379');
    $redis = new Redis();
    $redis->connect($at['host'], $at['port'], 10);
    return $redis;
}

/** Nanoseconds of CLOCK_MONOTONIC, shared by all processes of the machine. */
function now(): int
{
    return hrtime(true);
}

/** Sleeps for $micros; returns at once for less than 1 µs. */
function pause(float $micros): void
{
    if ($micros >= 1) {
        usleep((int) $micros);
    }
}

/** Appends records of four numbers each. */
function write(string $records): void
{
    file_put_contents((getenv('PEERS_OUT') ?: '.') . '/' . getmypid(), $records, FILE_APPEND);
}

function record(int ...$numbers): string
{
    return pack('P4', ...$numbers);
}

/** Runs $caller in $callers processes that start at the same time, and writes the records that each returns. */
function together(int $callers, callable $caller): void
{
    $start = now() + 300_000_000 + $callers * 4_000_000;
    for ($n = 0; $n < $callers; $n++) {
        if (pcntl_fork() === 0) {
            $redis = connect();
            pause(($start - now()) / 1000);
            write($caller($n, $redis));
            exit;
        }
    }
    while (pcntl_wait($status) > 0) {
    }
}

function lock(array $said): void
{
    together($said['callers'], function ($n, $redis) use ($said) {
        $lock = new ArticleLock($redis);
        $records = '';
        $until = now() + $said['seconds'] * 1_000_000_000;
        for ($cycle = 0; now() < $until; $cycle++) {
            $name = $said['hot'] ? 'hot' : "lock:$n:$cycle";
            $asked = now();
            if (!$lock->lock($name, 10)) {
                continue;
            }
            $got = now();
            pause($said['hold_ms'] * 1000);
            $leaving = now();
            $lock->unlock($name);
            $records .= $said['hot'] ? record($n, $asked, $got, $leaving) : record($n, $asked, now(), 0);
            pause($said['think_ms'] * 1000);
        }
        return $records;
    });
}

function put(array $said): void
{
    ['first' => $first, 'n' => $count, 'bulk' => $bulk] = $said;
    $last = $first + $count;
    if ($bulk > 0) {
        $queue = new ArticleQueue(connect());
        for ($start = $first; $start < $last; $start += $bulk) {
            $numbers = range($start, min($start + $bulk, $last) - 1);
            $asked = now();
            if ($queue->enqueue('bench', array_map(fn ($i) => "task:$i", $numbers))) {
                write(record($start, $asked, now(), count($numbers)));
            }
        }
        return;
    }
    together($said['callers'], function ($n, $redis) use ($said, $first, $last) {
        $queue = new ArticleQueue($redis);
        $records = '';
        $began = now();
        for ($i = $first + $n; $i < $last; $i += $said['callers']) {
            pause(($began + $said['gap_ms'] * ($i - $first) * 1_000_000 - now()) / 1000);
            $asked = now();
            if ($queue->enqueue('bench', "task:$i")) {
                $records .= record($i, $asked, now(), 1);
            }
        }
        return $records;
    });
}

/** Works until the process is killed. The article has no such loop; the pauses are ours. */
function work(array $said): void
{
    $queue = new ArticleQueue(connect());
    for (;;) {
        $tasks = $queue->pop('bench', $said['batch']);
        if (!$tasks) {
            usleep(1000);
            continue;
        }
        $records = '';
        foreach ($tasks as $task) {
            $records .= record((int) substr($task['id'], 5), now(), 0, 0);
        }
        write($records);
    }
}

/** Acquires the lock, reads the stock, and sells a unit if one is left. */
function sale(array $said): void
{
    connect()->set('sale:stock', $said['units']);
    together($said['callers'], function ($n, $redis) use ($said) {
        $lock = new ArticleLock($redis);
        $records = '';
        $until = now() + $said['seconds'] * 1_000_000_000;
        for ($buyer = $n; $buyer < $said['n'] && now() < $until; $buyer += $said['callers']) {
            $asked = now();
            if (!$lock->lock('sale', 10)) {
                continue;
            }
            $stock = (int) $redis->get('sale:stock');
            $sold = $stock > 0 && !$redis->sIsMember('sale:buyers', $buyer);
            if ($sold) {
                $redis->set('sale:stock', $stock - 1);
                $redis->sAdd('sale:buyers', $buyer);
            }
            $lock->unlock('sale');
            $records .= record($buyer, $asked, now(), (int) $sold);
        }
        return $records;
    });
}

$verb($said);
