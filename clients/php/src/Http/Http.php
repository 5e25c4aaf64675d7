<?php

declare(strict_types=1);

namespace Rushgate\Http;

use Rushgate\Contract;
use Rushgate\Exception\ErrorCodes;
use Rushgate\Exception\InvalidArgument;
use Rushgate\Exception\OutcomeUnknown;
use Rushgate\Exception\RushgateException;
use Rushgate\Exception\ServerFault;
use Rushgate\Exception\Unavailable;
use Rushgate\Internal\Clock;
use Rushgate\Options;

/**
 * Sends requests over one connection that is kept open, and repeats them after a failure.
 *
 * Signal handlers run while an answer is awaited.
 *
 * @internal
 */
final class Http
{
    private const PAUSE_MIN = 0.02;
    private const PAUSE_MAX = 0.5;
    /** Longest time between two looks at the caller's stop condition. */
    private const LOOK = 0.5;
    /** Failures before a request was sent. */
    private const NOT_SENT = [CURLE_COULDNT_CONNECT, CURLE_COULDNT_RESOLVE_HOST, CURLE_SSL_CONNECT_ERROR];
    private const JSON_FLAGS = JSON_THROW_ON_ERROR | JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE
        | JSON_PRESERVE_ZERO_FRACTION | JSON_INVALID_UTF8_SUBSTITUTE;

    /** @var list<\CurlMultiHandle> connections of parent processes, which stay open because closing disturbs the parent */
    private static array $inherited = [];
    /** Keeps the connection. */
    private ?\CurlMultiHandle $connection = null;
    private int $process = 0;
    private int $status = 0;

    public function __construct(private readonly string $base, public readonly Options $options)
    {
        if (!extension_loaded('curl')) {
            throw new InvalidArgument('http:// and https:// URLs need the PHP extension curl', 'invalid');
        }
    }

    /** The same server over a connection of its own. */
    public function twin(?float $retryFor = null): self
    {
        return new self($this->base, $this->options->withRetryFor($retryFor));
    }

    public function close(): void
    {
        $this->connection = null;
    }

    /**
     * Sends a request and returns the decoded answer.
     *
     * @param array{string, string} $operation one of Operation
     * @param list<string> $path parameters of the path, in their order
     * @param ?array<string, mixed> $body
     * @param ?string $key idempotency key
     * @param float $wait how long the server may wait, in seconds
     * @param ?\Closure(): bool $stopped ends the wait when it returns true. The answer is then null
     * @throws RushgateException the exception for the code of a problem
     */
    public function send(
        array $operation,
        array $path = [],
        ?array $body = null,
        ?string $key = null,
        float $wait = 0,
        ?\Closure $stopped = null,
        array $query = [],
    ): ?array {
        $target = self::target($operation, $path, $query);
        $until = Clock::now() + $this->options->retryFor;
        [$pause, $mayHaveRun] = [self::PAUSE_MIN, false];
        while (true) {
            try {
                [$status, $answer] = $this->exchange($operation[0], $target, $body, $key, $wait, $stopped);
            } catch (ConnectionFailed $failure) {
                $mayHaveRun = $mayHaveRun || $failure->mayHaveRun;
                [$status, $answer] = [503, ['code' => 'unavailable', 'detail' => $failure->getMessage()]];
            }
            if ($status === 0) {
                return null;
            }
            if ($status < 400) {
                $this->status = $status;
                return $answer;
            }
            $code = $answer['code'] ?? 'bug';
            $mayHaveRun = $mayHaveRun || $code === 'outcome_unknown';
            if (!in_array($code, Contract::PASSING_PROBLEMS, true) || Clock::now() + $pause >= $until) {
                throw self::problem($code, $answer, $mayHaveRun);
            }
            Clock::sleep($pause);
            $pause = min(2 * $pause, self::PAUSE_MAX);
        }
    }

    private static function target(array $operation, array $path, array $query): string
    {
        $next = function () use (&$path): string {
            return rawurlencode(array_shift($path));
        };
        $target = preg_replace_callback('/\{\w+}/', $next, $operation[1]);
        return $query === [] ? $target : "$target?" . http_build_query($query);
    }

    /** Status of the latest successful answer. */
    public function status(): int
    {
        return $this->status;
    }

    private static function problem(string $code, array $answer, bool $mayHaveRun): RushgateException
    {
        $text = $answer['detail'] ?? 'the server answered an unknown error';
        $exception = ErrorCodes::exception($code, $text, $answer);
        return $mayHaveRun && $exception instanceof Unavailable
            ? new OutcomeUnknown($text, 'outcome_unknown', $answer)
            : $exception;
    }

    /** @return array{int, array<string, mixed>} status and answer. The status is 0 if the caller stopped the wait */
    private function exchange(
        string $method,
        string $target,
        ?array $body,
        ?string $key,
        float $wait,
        ?\Closure $stopped,
    ): array {
        $headers = ['Content-Type: application/json', 'Expect:'];
        if ($this->options->token !== null) {
            $headers[] = "Authorization: Bearer {$this->options->token}";
        }
        if ($key !== null) {
            $headers[] = Contract::HTTP_KEY_HEADER . ": $key";
        }
        if ($wait > 0) {
            $headers[] = 'Prefer: wait=' . max(1, (int) ceil($wait));
        }
        $handle = curl_init();
        curl_setopt_array($handle, [
            CURLOPT_URL => $this->base . $target,
            CURLOPT_CUSTOMREQUEST => $method,
            CURLOPT_POSTFIELDS => $body === null ? '' : json_encode((object) $body, self::JSON_FLAGS),
            CURLOPT_HTTPHEADER => $headers,
            CURLOPT_RETURNTRANSFER => true,
            CURLOPT_NOSIGNAL => true,
            CURLOPT_CONNECTTIMEOUT_MS => Clock::toMillis($this->options->connectTimeout),
            CURLOPT_TIMEOUT_MS => Clock::toMillis($this->options->answerTimeout + $wait),
            CURLOPT_PROTOCOLS => CURLPROTO_HTTP | CURLPROTO_HTTPS,
        ] + ($this->options->caFile === null ? [] : [CURLOPT_CAINFO => $this->options->caFile]));
        return $this->perform($handle, $stopped);
    }

    private function perform(\CurlHandle $handle, ?\Closure $stopped): array
    {
        $connection = $this->connection();
        curl_multi_add_handle($connection, $handle);
        $isDone = false;
        try {
            do {
                curl_multi_exec($connection, $running);
                if ($running > 0 && $stopped !== null && $stopped()) {
                    return [0, []];
                }
                if ($running > 0) {
                    curl_multi_select($connection, self::LOOK);
                }
            } while ($running > 0);
            $failure = curl_multi_info_read($connection)['result'];
            $isDone = $failure === CURLE_OK;
            if (!$isDone) {
                throw new ConnectionFailed(curl_strerror($failure), !in_array($failure, self::NOT_SENT, true));
            }
            return self::answer(curl_getinfo($handle, CURLINFO_RESPONSE_CODE), curl_multi_getcontent($handle));
        } finally {
            curl_multi_remove_handle($connection, $handle);
            if (!$isDone) {
                // The rest of an answer may be left in the connection.
                $this->connection = null;
            }
        }
    }

    private static function answer(int $status, string $body): array
    {
        try {
            return [$status, $body === '' ? [] : json_decode($body, true, 512, JSON_THROW_ON_ERROR)];
        } catch (\JsonException) {
            throw new ServerFault("the server answered $status with a body that is not JSON", 'bug');
        }
    }

    private function connection(): \CurlMultiHandle
    {
        if ($this->connection !== null && $this->process !== getmypid()) {
            self::$inherited[] = $this->connection;
            $this->connection = null;
        }
        $this->process = getmypid();
        return $this->connection ??= curl_multi_init();
    }
}
