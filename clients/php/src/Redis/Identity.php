<?php

declare(strict_types=1);

namespace Rushgate\Redis;

use Rushgate\Contract;

/**
 * Client ID, ops and tokens of this process. A fork has its own.
 *
 * On the command line, the client ID is random and ops are a counter. A web server runs each request in a new
 * program, but in the same few processes. There the client ID is a hash of host and process ID, so that the server
 * keeps one replay cache per process, and ops are random.
 *
 * @internal
 */
final class Identity
{
    private static ?self $ofProcess = null;

    /** Client ID: 8 bytes. */
    public readonly string $client;
    private int $count = 0;

    private function __construct(private readonly int $process, private readonly bool $counts)
    {
        $this->client = $counts
            ? random_bytes(Contract::CLIENT_BYTES)
            : substr(hash('sha256', gethostname() . ":$process", true), 0, Contract::CLIENT_BYTES);
    }

    public static function ofProcess(): self
    {
        if (self::$ofProcess?->process !== getmypid()) {
            self::$ofProcess = new self(getmypid(), PHP_SAPI === 'cli');
        }
        return self::$ofProcess;
    }

    /** 8 bytes that this client never used before. */
    public function op(): string
    {
        return $this->counts ? pack('J', ++$this->count) : random_bytes(Contract::OP_BYTES);
    }

    /** Token of a new acquisition: 16 bytes. */
    public function token(): string
    {
        return $this->client . $this->op();
    }

    /** Host, process and label of a lock's owner, packed. */
    public static function owner(string $label): string
    {
        $host = substr(gethostname() ?: '', 0, Contract::LABEL_BYTES);
        return pack('NC', getmypid(), strlen($host)) . $host . $label;
    }
}
