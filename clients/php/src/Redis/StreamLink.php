<?php

declare(strict_types=1);

namespace Rushgate\Redis;

use Rushgate\Internal\Clock;
use Rushgate\Options;

/**
 * A connection over a PHP stream, which can also receive messages.
 *
 * @internal
 */
final class StreamLink implements Link
{
    /** @var resource|null null after a failure */
    private $stream;

    public function __construct(Endpoint $at, Options $options)
    {
        $address = match (true) {
            $at->isSocket() => "unix://$at->host",
            $at->tls => "tls://$at->host:$at->port",
            default => "tcp://$at->host:$at->port",
        };
        $context = stream_context_create(['ssl' => $at->tlsOptions($options), 'socket' => ['tcp_nodelay' => true]]);
        $stream = @stream_socket_client(
            $address,
            $number,
            $why,
            $options->connectTimeout,
            STREAM_CLIENT_CONNECT,
            $context,
        );
        if ($stream === false) {
            throw new LinkLost("cannot connect to {$at->name()}: $why", false);
        }
        $timeout = Clock::toMicros($options->answerTimeout);
        stream_set_timeout($stream, intdiv($timeout, 1_000_000), $timeout % 1_000_000);
        $this->stream = $stream;
    }

    public function call(array $words): mixed
    {
        $this->send($words);
        return $this->receive();
    }

    /**
     * Sends a command without waiting for its answer.
     *
     * @param non-empty-list<string|int> $words
     */
    public function send(array $words): void
    {
        $request = '*' . count($words) . "\r\n";
        foreach ($words as $word) {
            $request .= '$' . strlen((string) $word) . "\r\n$word\r\n";
        }
        $this->exclusively(fn () => $this->write($request));
    }

    /** Reads one answer or message. */
    public function receive(): mixed
    {
        return $this->exclusively($this->read(...));
    }

    /** True if {@see receive} would not wait within $seconds, also after a failure. False also if a signal arrives. */
    public function isReadable(float $seconds): bool
    {
        if ($this->stream === null) {
            return true;
        }
        [$read, $none] = [[$this->stream], []];
        $micros = max(0, Clock::toMicros($seconds));
        // A signal interrupts the call with a warning.
        return (bool) @stream_select($read, $none, $none, intdiv($micros, 1_000_000), $micros % 1_000_000);
    }

    /** Closes the stream if $work fails or a signal handler throws, because an answer may be left in it. */
    private function exclusively(\Closure $work): mixed
    {
        if ($this->stream === null) {
            throw new LinkLost('the connection is closed', false);
        }
        try {
            return $work();
        } catch (ServerError $refusal) {
            throw $refusal;
        } catch (\Throwable $failure) {
            $this->stream = null;
            throw $failure;
        }
    }

    private function write(string $bytes): void
    {
        while ($bytes !== '') {
            $written = @fwrite($this->stream, $bytes);
            if ($written === false || $written === 0) {
                throw new LinkLost('the connection was lost', true);
            }
            $bytes = substr($bytes, $written);
        }
    }

    private function read(): mixed
    {
        $line = @fgets($this->stream);
        if ($line === false || !str_ends_with($line, "\r\n")) {
            throw new LinkLost('the connection was lost, or no answer arrived in time', true);
        }
        $rest = substr($line, 1, -2);
        return match ($line[0]) {
            '+' => $rest,
            '-' => throw new ServerError($rest),
            ':' => (int) $rest,
            '$' => $rest === '-1' ? null : substr($this->take((int) $rest + 2), 0, -2),
            '*' => $rest === '-1' ? null : $this->readList((int) $rest),
            default => throw new LinkLost('the server does not speak the Redis protocol', true),
        };
    }

    private function readList(int $length): array
    {
        $list = [];
        while (count($list) < $length) {
            $list[] = $this->read();
        }
        return $list;
    }

    private function take(int $length): string
    {
        $bytes = '';
        while (strlen($bytes) < $length) {
            $part = @fread($this->stream, $length - strlen($bytes));
            if ($part === false || $part === '') {
                throw new LinkLost('the connection was lost, or no answer arrived in time', true);
            }
            $bytes .= $part;
        }
        return $bytes;
    }
}
