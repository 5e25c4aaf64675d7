<?php

declare(strict_types=1);

namespace Rushgate\Tests;

use Rushgate\Client;
use Rushgate\Options;
use Rushgate\Queue;

/** Tests against the store at `RUSHGATE_TEST_URL`. */
abstract class TestCase extends \PHPUnit\Framework\TestCase
{
    protected const RETENTION = ['retention' => ['age_ms' => 60_000, 'count' => 1_000]];

    protected static function url(): string
    {
        return getenv('RUSHGATE_TEST_URL') ?: throw new \LogicException('RUSHGATE_TEST_URL is not set');
    }

    protected static function isHttp(): bool
    {
        return str_starts_with(self::url(), 'http');
    }

    protected static function options(float $retryFor = 5, float $answerTimeout = 5): Options
    {
        return new Options(
            token: self::isHttp() ? getenv('RUSHGATE_TEST_TOKEN') : null,
            caFile: getenv('RUSHGATE_TEST_CA') ?: null,
            retryFor: $retryFor,
            answerTimeout: $answerTimeout,
            driver: getenv('RUSHGATE_TEST_DRIVER') ?: 'auto',
        );
    }

    protected static function client(): Client
    {
        return Client::connect(self::url(), self::options());
    }

    /** A name that no other test uses. */
    protected static function name(string $kind): string
    {
        return "$kind-" . bin2hex(random_bytes(6));
    }

    protected static function queue(): Queue
    {
        return self::client()->queue(self::name('queue'));
    }

    /**
     * Runs a function in a fork, and returns its process ID. The function reports by writing lines to its pipe.
     *
     * @param resource|null $pipe receives the end from which the parent reads the lines
     */
    protected static function fork(\Closure $work, &$pipe = null): int
    {
        [$pipe, $theirs] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, STREAM_IPPROTO_IP);
        $child = pcntl_fork();
        if ($child === 0) {
            fclose($pipe);
            $status = 0;
            try {
                $work($theirs);
            } catch (\Throwable $failure) {
                fwrite(STDERR, "$failure\n");
                $status = 1;
            }
            fflush($theirs);
            // Without the shutdown functions of the test runner.
            pcntl_async_signals(false);
            posix_kill(getmypid(), $status === 0 ? SIGKILL : SIGABRT);
        }
        fclose($theirs);
        return $child;
    }

    /** Waits until a fork has ended, and fails unless its function succeeded. */
    protected static function join(int $child): void
    {
        do {
            // A signal interrupts the wait.
            $ended = pcntl_waitpid($child, $status);
        } while ($ended === -1 && pcntl_get_last_error() === PCNTL_EINTR);
        self::assertSame(SIGKILL, pcntl_wtermsig($status), 'the fork ends well');
    }

    /** Waits for a line of a fork. */
    protected static function line($pipe): string
    {
        $line = '';
        while (!str_ends_with($line, "\n")) {
            [$read, $none] = [[$pipe], []];
            if (@stream_select($read, $none, $none, 30) === 0) {
                self::fail('a fork does not report in time');
            }
            $part = $read === [] ? '' : fgets($pipe);
            if ($part === false) {
                self::fail('a fork ended without a report');
            }
            $line .= $part;
        }
        return trim($line);
    }

    /** Asserts that a call throws, and returns what it throws. */
    protected static function refused(string $class, \Closure $call): \Throwable
    {
        try {
            $call();
        } catch (\Throwable $thrown) {
            self::assertInstanceOf($class, $thrown, (string) $thrown);
            return $thrown;
        }
        self::fail("nothing was thrown; expected $class");
    }

    /** Asks until $condition holds. Only for a state that nothing announces. */
    protected static function eventually(\Closure $condition, string $what): void
    {
        $until = microtime(true) + 20;
        while (!$condition()) {
            if (microtime(true) > $until) {
                self::fail("it does not happen: $what");
            }
            usleep(5_000);
        }
    }
}
