<?php

declare(strict_types=1);

namespace Rushgate\Tests;

/**
 * A TCP proxy in a fork, which can lose a reply: it closes the connection instead of passing the reply on. It can also
 * replace words of requests.
 */
final class Proxy
{
    private int $lost = 0;

    /** @param resource $control */
    private function __construct(
        public readonly string $url,
        private readonly int $process,
        private $control,
    ) {
    }

    /**
     * A proxy before the server at a URL; null if the URL names several servers.
     *
     * @param array<string, string> $words to replace in requests, by words of the same length
     */
    public static function of(string $url, array $words = []): ?self
    {
        if (!preg_match('~^(\w+://)([\w.]+:\d+)$~D', $url, $parts)) {
            return null;
        }
        $listener = stream_socket_server('tcp://127.0.0.1:0');
        [$control, $theirs] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, STREAM_IPPROTO_IP);
        $process = pcntl_fork();
        if ($process === 0) {
            fclose($control);
            self::serve($listener, "tcp://$parts[2]", $theirs, $words);
            posix_kill(getmypid(), SIGKILL);
        }
        $port = parse_url('tcp://' . stream_socket_get_name($listener, false), PHP_URL_PORT);
        fclose($listener);
        fclose($theirs);
        return new self("{$parts[1]}127.0.0.1:$port", $process, $control);
    }

    public function loseNextReply(): void
    {
        fwrite($this->control, 'x');
        fread($this->control, 1);
    }

    /** Ends all connections, and refuses new ones until {@see resume}. */
    public function pause(): void
    {
        fwrite($this->control, 'p');
        fread($this->control, 1);
    }

    public function resume(): void
    {
        fwrite($this->control, 'r');
        fread($this->control, 1);
    }

    /** Number of replies that were lost. */
    public function lost(): int
    {
        fwrite($this->control, '?');
        return ord(fread($this->control, 1));
    }

    /** Number of requests in which words were replaced, up to 255. */
    public function replaced(): int
    {
        fwrite($this->control, '#');
        return ord(fread($this->control, 1));
    }

    public function stop(): void
    {
        posix_kill($this->process, SIGKILL);
        pcntl_waitpid($this->process, $status);
    }

    private static function serve($listener, string $server, $control, array $words): void
    {
        [$peers, $servers, $loses, $lost, $refuses, $replaced] = [[], [], false, 0, false, 0];
        while (true) {
            [$read, $none] = [[$listener, $control, ...array_column($peers, 0)], []];
            if (@stream_select($read, $none, $none, null) === false) {
                continue;
            }
            foreach ($read as $from) {
                if ($from === $listener && $refuses) {
                    fclose(stream_socket_accept($listener));
                } elseif ($from === $listener) {
                    [$client, $upstream] = [stream_socket_accept($listener), stream_socket_client($server)];
                    $peers[(int) $client] = [$client, $upstream];
                    $peers[(int) $upstream] = [$upstream, $client];
                    $servers[(int) $upstream] = true;
                } elseif ($from === $control) {
                    $command = fread($control, 1);
                    if ($command === '' || $command === false) {
                        return;
                    }
                    $loses = $loses || $command === 'x';
                    $refuses = $command === 'p' || ($refuses && $command !== 'r');
                    if ($command === 'p') {
                        array_map(fclose(...), array_column($peers, 0));
                        $peers = [];
                    }
                    fwrite($control, match ($command) {
                        '?' => chr($lost),
                        '#' => chr(min($replaced, 255)),
                        default => 'k',
                    });
                } elseif (isset($peers[(int) $from])) {
                    [, $to] = $peers[(int) $from];
                    $bytes = fread($from, 1 << 20);
                    $isReply = isset($servers[(int) $from]);
                    if ($bytes === '' || $bytes === false || ($isReply && $loses)) {
                        if ($isReply && $loses && $bytes !== '' && $bytes !== false) {
                            [$loses, $lost] = [false, $lost + 1];
                        }
                        unset($peers[(int) $from], $peers[(int) $to]);
                        fclose($from);
                        fclose($to);
                    } else {
                        $passed = $isReply ? $bytes : strtr($bytes, $words);
                        $replaced += (int) ($passed !== $bytes);
                        fwrite($to, $passed);
                    }
                }
            }
        }
    }
}
