<?php

declare(strict_types=1);

namespace Rushgate\Redis;

use Rushgate\Options;

/**
 * A single server.
 *
 * @internal
 */
final class OneServer extends Nodes
{
    public function __construct(private readonly Endpoint $server, Options $options)
    {
        parent::__construct($options);
    }

    protected function at(string $key): Endpoint
    {
        return $this->server;
    }

    public function forMessages(): Endpoint
    {
        return $this->server;
    }
}
