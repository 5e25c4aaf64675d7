<?php

declare(strict_types=1);

namespace Rushgate\Internal;

use Rushgate\Client;
use Rushgate\Contract;
use Rushgate\Exception\RushgateException;
use Rushgate\Exception\Unavailable;
use Rushgate\Transport\Transport;

/**
 * Announces a worker to its queue, and keeps what an operator asks of it.
 *
 * A failure never stops the worker. An outage shows in its claims. A refusal, such as that of a library without the
 * function, is logged once.
 *
 * @internal
 */
final class Presence
{
    /** Seconds between announcements. */
    public static float $each = Contract::DEFAULT_ANNOUNCE;
    /** How long a worker is listed after its latest announcement, in seconds. */
    private const LISTED = 30;

    private readonly string $id;
    private float $next = 0;
    private bool $isRefused = false;

    /** @param Transport $store has connections of its own, because an alarm may ring in the middle of a call */
    public function __construct(
        private readonly Transport $store,
        private readonly string $queue,
        private readonly string $name,
    ) {
        $this->id = bin2hex(random_bytes(8));
    }

    /** Seconds until the next announcement is due. */
    public function timeLeft(): float
    {
        return max(0, $this->next - Clock::now());
    }

    /** Returns what an operator asks of the worker: `work`, `quiet` or `stop`; null if that is unknown. */
    public function announce(int $running): ?string
    {
        $this->next = Clock::now() + self::$each;
        try {
            return $this->store->announce($this->queue, $this->id, [
                'name' => $this->name,
                'version' => 'rushgate-php ' . Client::VERSION,
                'concurrency' => 1,
                'running' => $running,
                'lease_ms' => self::LISTED * 1_000,
            ]);
        } catch (Unavailable) {
            return null;
        } catch (RushgateException $refused) {
            $this->isRefused || error_log("cannot announce the worker to the queue $this->queue: {$refused->getMessage()}");
            $this->isRefused = true;
            return null;
        }
    }

    /** Says that the worker has ended. If that fails, it is listed a while longer. */
    public function leave(): void
    {
        try {
            $this->store->endWorker($this->queue, $this->id);
        } catch (RushgateException) {
            // Its record expires.
        }
    }
}
