<?php

declare(strict_types=1);

namespace Rushgate;

use Rushgate\Exception\InvalidArgument;
use Rushgate\Exception\LockBusy;
use Rushgate\Exception\LockLost;
use Rushgate\Http\Http;
use Rushgate\Http\HttpTransport;
use Rushgate\Internal\Checks;
use Rushgate\Redis\Caller;
use Rushgate\Redis\RedisTransport;
use Rushgate\Redis\Url;
use Rushgate\Transport\Transport;

/**
 * A store with locks, queues and sales.
 *
 * Connects at the first call. A fork can use the client of its parent: it gets connections and an identity of its own.
 */
final class Client
{
    /** Version of this package. */
    public const VERSION = '0.1.0';

    private function __construct(private readonly Transport $store, private readonly Options $options)
    {
    }

    /**
     * A client for the store at a URL.
     *
     * @param string $url `redis://`, `redis+sentinel://` or `redis+cluster://`, `rediss…` for TLS, or `http://` and
     *     `https://` of a Rushgate server
     * @throws InvalidArgument if the URL is malformed
     */
    public static function connect(string $url, ?Options $options = null): self
    {
        $options ??= new Options();
        if (preg_match('~^https?://[^/?#]+/?$~D', $url)) {
            return new self(new HttpTransport(new Http(rtrim($url, '/'), $options)), $options);
        }
        return new self(new RedisTransport(new Caller(Url::nodes($url, $options), $options)), $options);
    }

    /**
     * Acquires a lock. Waiters are served in FIFO order.
     *
     * On the command line with the extension pcntl, the lease is renewed after each third of it, by SIGALRM. Otherwise
     * {@see Lock::check} renews it.
     *
     * @param int|float $wait maximum wait in seconds: 0 to 86,400. Default: 0, which tries once
     * @param int|float $lease lease in seconds: 0.01 to 86,400. Default: 30. If the program dies, the lock is free
     *     after this time
     * @param ?\Closure(Lock): void $onLost called once when the lock is found to be lost
     * @param bool $renew whether to renew the lease automatically. Default: true
     * @throws LockBusy if the lock was not free within the wait
     */
    public function acquire(
        string $name,
        int|float $wait = 0,
        int|float $lease = 30,
        ?\Closure $onLost = null,
        bool $renew = true,
    ): Lock {
        $name = Checks::name('the lock', $name);
        $grant = $this->store->acquire($name, Checks::lease($lease), Checks::wait($wait), $this->options->label);
        return new Lock($this->store, $name, $grant, (float) $lease, $onLost, $renew);
    }

    /**
     * Runs a function under a lock, and releases the lock.
     *
     * @template T
     * @param \Closure(Lock): T $work
     * @param int|float $wait maximum wait in seconds. Default: 60
     * @return T what the function returns
     * @throws LockBusy if the lock was not free within the wait
     * @throws LockLost if the lock was lost before the function ended
     */
    public function lock(string $name, \Closure $work, int|float $wait = 60, int|float $lease = 30): mixed
    {
        $lock = $this->acquire($name, $wait, $lease);
        try {
            $result = $work($lock);
        } catch (\Throwable $failure) {
            $lock->releaseQuietly();
            throw $failure;
        }
        if (!$lock->release()) {
            throw new LockLost("the lock `$name` was lost before the function ended", 'not_held');
        }
        return $result;
    }

    /**
     * The holder of a lock and its wait queue, with the fields of the HTTP API: `holder` has `fence`, `host`, `pid`, `label`,
     * `since_us` and `lease_until_us`, or is null. Each of the `waiters` has `position`, `host`, `pid`, `label`, `since_us`
     * and `wait_until_us`. The first one is next.
     *
     * @return array{holder: ?array<string, mixed>, waiters: list<array<string, mixed>>}
     */
    public function lockState(string $name): array
    {
        return $this->store->lock(Checks::name('the lock', $name));
    }

    /**
     * Takes a lock from its holder, and grants it to the next waiter.
     *
     * @return ?array<string, mixed> the former holder, as in {@see lockState}; null if the lock was free
     */
    public function forceRelease(string $name): ?array
    {
        return $this->store->forceRelease(Checks::name('the lock', $name));
    }

    /** A queue. It need not exist. */
    public function queue(string $name): Queue
    {
        return new Queue($this->store, Checks::name('the queue', $name));
    }

    /** A sale. */
    public function sale(string $id): Sale
    {
        return new Sale($this->store, Checks::name('the sale', $id));
    }

    /** Closes the connections. The next call opens new ones. */
    public function close(): void
    {
        $this->store->close();
    }
}
