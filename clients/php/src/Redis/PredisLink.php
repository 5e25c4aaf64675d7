<?php

declare(strict_types=1);

namespace Rushgate\Redis;

use Predis\Client;
use Predis\CommunicationException;
use Rushgate\Exception\InvalidArgument;
use Rushgate\Options;

/**
 * A connection of the package predis/predis.
 *
 * @internal
 */
final class PredisLink implements Link
{
    private readonly Client $client;

    public function __construct(Endpoint $at, Options $options)
    {
        if (!class_exists(Client::class)) {
            throw new InvalidArgument('the driver `predis` needs the package predis/predis', 'invalid');
        }
        $where = $at->isSocket()
            ? ['scheme' => 'unix', 'path' => $at->host]
            : ['scheme' => $at->tls ? 'tls' : 'tcp', 'host' => $at->host, 'port' => $at->port];
        $this->client = new Client($where + [
            'timeout' => $options->connectTimeout,
            'read_write_timeout' => $options->answerTimeout,
            'ssl' => $at->tls ? $at->tlsOptions($options) : [],
        ]);
        try {
            @$this->client->connect();
        } catch (CommunicationException $error) {
            throw new LinkLost("cannot connect to {$at->name()}: {$error->getMessage()}", false);
        }
    }

    public function call(array $words): mixed
    {
        $refused = false;
        try {
            $answer = $this->client->executeRaw(array_map('strval', $words), $refused);
        } catch (CommunicationException $lost) {
            throw new LinkLost($lost->getMessage(), true);
        } catch (\Throwable $interruption) {
            // A signal handler threw while an answer was being read.
            $this->client->disconnect();
            throw $interruption;
        }
        if ($refused) {
            throw new ServerError((string) $answer);
        }
        return $answer;
    }
}
