<?php

declare(strict_types=1);

namespace Rushgate;

/** A worker of a queue, busy or idle. Moments are µs since 1970 on the store's clock. */
final class WorkerInfo
{
    /**
     * @internal
     * @param string $name name under which it claims
     * @param string $version program and version
     * @param int $running how many tasks of the queue it ran at its latest announcement
     * @param int $sinceUs its first announcement
     * @param int $seenUs its latest announcement
     * @param int $leaseUntilUs until when it is listed, unless it announces itself again
     * @param string $mode `work`, `quiet` or `stop`
     */
    public function __construct(
        public readonly string $id,
        public readonly string $name,
        public readonly string $version,
        public readonly int $concurrency,
        public readonly int $running,
        public readonly int $sinceUs,
        public readonly int $seenUs,
        public readonly int $leaseUntilUs,
        public readonly string $mode,
    ) {
    }

    /**
     * @internal
     * @param array<string, mixed> $fields
     */
    public static function fromFields(array $fields): self
    {
        return new self(
            $fields['id'],
            $fields['name'],
            $fields['version'],
            $fields['concurrency'],
            $fields['running'],
            $fields['since_us'],
            $fields['seen_us'],
            $fields['lease_until_us'],
            $fields['mode'],
        );
    }
}
