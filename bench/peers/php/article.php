<?php
// The article's lock and queue, rewritten from its description: the commands to Redis, their order and their arguments
// are the article's, and so are its faults.
//   1. SETNX and EXPIRE are two steps; in between, the key has no time to live.
//   2. EXPIRE receives a timestamp, now + $expire, instead of a duration: about 50 years.
//   3. A waiter that sees no time to live takes the lock with SET, which sets none, so the next waiter does the same.
//   4. unlock deletes the key, even if another client holds the lock.
//   5. Waiters poll every 100 ms, and pop() does not wait at all.

class ArticleLock
{
    private array $held = [];

    public function __construct(private Redis $redis)
    {
    }

    public function lock($name, $timeout = 0, $expire = 15, $waitUs = 100000)
    {
        if ($name == null) {
            return false;
        }
        $now = time();
        $giveUpAt = $now + $timeout;
        $until = $now + $expire;
        $key = "Lock:$name";
        for (;;) {
            if ($this->redis->setnx($key, $until) != false) {
                $this->redis->expire($key, $until);
                $this->held[$name] = $until;
                return true;
            }
            if ($this->redis->ttl($key) < 0) {
                $this->redis->set($key, $until);
                $this->held[$name] = $until;
                return true;
            }
            if ($timeout <= 0 || $giveUpAt < microtime(true)) {
                return false;
            }
            usleep($waitUs);
        }
    }

    public function unlock($name)
    {
        if ($this->isLocking($name) && $this->redis->del("Lock:$name")) {
            unset($this->held[$name]);
            return true;
        }
        return false;
    }

    public function isLocking($name)
    {
        if (!isset($this->held[$name])) {
            return false;
        }
        return $this->held[$name] = (string) $this->redis->get("Lock:$name");
    }
}

class ArticleQueue
{
    private ArticleLock $lock;

    public function __construct(private Redis $redis)
    {
        $this->lock = new ArticleLock($redis);
    }

    public function enqueue($name, $id, $timeout = 10, $after = 0)
    {
        if (empty($name) || empty($id) || $timeout <= 0 || !$this->lock->lock("Queue:$name", $timeout)) {
            return false;
        }
        $score = microtime(true) + $after;
        foreach ((array) $id as $item) {
            if ($this->redis->zScore("Queue:$name", $item) === false) {
                $this->redis->zAdd("Queue:$name", $score, $item);
            }
        }
        $this->lock->unlock("Queue:$name");
        return true;
    }

    public function pop($name, $count = 1)
    {
        if (empty($name) || $count <= 0) {
            return [];
        }
        if (!$this->lock->lock("Queue:$name")) {
            return false;
        }
        $out = [];
        $range = ['withscores' => true, 'limit' => [0, $count]];
        $due = $this->redis->zRangeByScore("Queue:$name", '-inf', (string) microtime(true), $range);
        foreach ($due as $id => $score) {
            $out[] = ['id' => $id, 'score' => $score];
            $this->redis->zRem("Queue:$name", $id);
        }
        $this->lock->unlock("Queue:$name");
        return $out;
    }
}
