<?php

declare(strict_types=1);

namespace Rushgate\Redis;

use Rushgate\Options;

/**
 * A connection of the extension redis.
 *
 * @internal
 */
final class PhpRedisLink implements Link
{
    private readonly \Redis $redis;

    public function __construct(Endpoint $at, Options $options)
    {
        $this->redis = new \Redis();
        $host = $at->tls ? "tls://$at->host" : $at->host;
        $context = $at->tls ? ['stream' => $at->tlsOptions($options)] : [];
        try {
            // A failed handshake also raises a warning.
            $isOpen = @$this->redis->connect(
                $host,
                $at->isSocket() ? 0 : $at->port,
                $options->connectTimeout,
                null,
                0,
                $options->answerTimeout,
                $context,
            );
        } catch (\RedisException $error) {
            throw new LinkLost("cannot connect to {$at->name()}: {$error->getMessage()}", false);
        }
        if (!$isOpen) {
            throw new LinkLost("cannot connect to {$at->name()}", false);
        }
        // A status is returned as text. The extension must not reconnect: a new link needs its greeting.
        $this->redis->setOption(\Redis::OPT_REPLY_LITERAL, 1);
        if (defined('Redis::OPT_MAX_RETRIES')) {
            $this->redis->setOption(\Redis::OPT_MAX_RETRIES, 0);
        }
    }

    public function call(array $words): mixed
    {
        $this->redis->clearLastError();
        try {
            $answer = @$this->redis->rawCommand(...array_map('strval', $words));
        } catch (\RedisException $lost) {
            $refusal = $this->redis->getLastError();
            // The extension throws some errors of the server. A lost connection sets no last error.
            throw $refusal === null ? new LinkLost($lost->getMessage(), true) : new ServerError($refusal);
        }
        $refusal = $this->redis->getLastError();
        if ($refusal !== null) {
            throw new ServerError($refusal);
        }
        return $answer === false ? null : $answer;
    }
}
