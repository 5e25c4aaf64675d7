<?php

declare(strict_types=1);

namespace Rushgate;

/** Counters of a worker from start to end. */
final class WorkerReport implements \JsonSerializable
{
    /** Tasks claimed. */
    public int $claimed = 0;
    /** Tasks done, including those that were canceled while they ran. */
    public int $done = 0;
    /** Tasks that their handler discarded. */
    public int $discarded = 0;
    /** Attempts that failed and will be retried. */
    public int $retried = 0;
    /** Tasks that became dead letters. */
    public int $dead = 0;
    /** Tasks returned to the queue without counting an attempt. */
    public int $released = 0;
    /** Tasks that were canceled while they ran. */
    public int $cancelled = 0;
    /** Tasks whose lease ended during the work. */
    public int $lost = 0;
    /** Handlers that exceeded the timeout or the deadline; also counted as failed attempts. */
    public int $timedOut = 0;
    /** Tasks of a kind without a handler; also counted as failed attempts. */
    public int $unknown = 0;
    /** Outcomes that the store did not accept. Their tasks become available again when the leases expire. */
    public int $unanswered = 0;
    /** Claims that failed because the store was unreachable or full, and were repeated. */
    public int $outages = 0;

    /** @param array<string, int> $counters */
    public function add(array $counters): void
    {
        foreach ($counters as $name => $count) {
            $this->$name += $count;
        }
    }

    /** @return array<string, int> */
    public function jsonSerialize(): array
    {
        return get_object_vars($this);
    }
}
