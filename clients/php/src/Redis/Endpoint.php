<?php

declare(strict_types=1);

namespace Rushgate\Redis;

use Rushgate\Options;

/**
 * Address and credentials of one server.
 *
 * @internal
 */
final class Endpoint
{
    public function __construct(
        /** Host name, IP address or path of a Unix socket. */
        public readonly string $host,
        public readonly int $port,
        public readonly bool $tls = false,
        public readonly ?string $user = null,
        public readonly ?string $password = null,
        public readonly int $database = 0,
    ) {
    }

    /** The same credentials at another address. */
    public function at(string $host, int $port): self
    {
        return new self($host, $port, $this->tls, $this->user, $this->password, $this->database);
    }

    /** The same address without credentials and database. */
    public function withoutLogin(): self
    {
        return new self($this->host, $this->port, $this->tls);
    }

    public function name(): string
    {
        return "$this->host:$this->port";
    }

    public function isSocket(): bool
    {
        return str_starts_with($this->host, '/');
    }

    /** Commands that begin a connection. */
    public function greeting(): array
    {
        $commands = [];
        if ($this->password !== null) {
            $commands[] = ['AUTH', ...($this->user === null ? [] : [$this->user]), $this->password];
        }
        if ($this->database !== 0) {
            $commands[] = ['SELECT', $this->database];
        }
        return $commands;
    }

    /** TLS settings of a stream. */
    public function tlsOptions(Options $options): array
    {
        $ca = $options->caFile === null ? [] : ['cafile' => $options->caFile];
        return ['peer_name' => $this->host, 'verify_peer' => true, 'verify_peer_name' => true] + $ca;
    }

    /** Opens a connection with the driver of the options. */
    public function open(Options $options): Link
    {
        $driver = $options->driver;
        if ($driver === 'auto') {
            $driver = extension_loaded('redis') ? 'phpredis' : 'stream';
        }
        $link = match ($driver) {
            'phpredis' => new PhpRedisLink($this, $options),
            'predis' => new PredisLink($this, $options),
            'stream' => new StreamLink($this, $options),
        };
        foreach ($this->greeting() as $command) {
            $link->call($command);
        }
        return $link;
    }
}
