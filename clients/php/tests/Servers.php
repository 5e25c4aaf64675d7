<?php

declare(strict_types=1);

namespace Rushgate\Tests;

use Rushgate\Options;
use Rushgate\Redis\Endpoint;
use Rushgate\Redis\StreamLink;

/** Direct access to Redis servers, for what no client does. */
final class Servers
{
    /** Ends all client connections of a Sentinel service or a Cluster. */
    public static function killConnections(string $url): void
    {
        self::kill($url, 'normal');
    }

    /** Ends the connections that get notifications. Returns how many there were. */
    public static function killSubscriptions(string $url): int
    {
        return self::kill($url, 'pubsub');
    }

    private static function kill(string $url, string $type): int
    {
        $killed = 0;
        foreach (self::addresses($url) as [$host, $port]) {
            $link = new StreamLink(new Endpoint($host, (int) $port), new Options());
            $killed += $link->call(['CLIENT', 'KILL', 'TYPE', $type, 'SKIPME', 'yes']);
        }
        return $killed;
    }

    /** The reply of a single server to a command. */
    public static function call(string $url, string ...$words): mixed
    {
        [[$host, $port]] = self::addresses($url);
        return (new StreamLink(new Endpoint($host, (int) $port), new Options()))->call($words);
    }

    private static function addresses(string $url): array
    {
        preg_match('~//([^/]+)(?:/(\w+))?~', $url, $parts);
        $nodes = array_map(fn (string $node) => explode(':', $node), explode(',', $parts[1]));
        if (!str_contains($url, 'sentinel')) {
            return $nodes;
        }
        $sentinel = new StreamLink(new Endpoint($nodes[0][0], (int) $nodes[0][1]), new Options());
        return [$sentinel->call(['SENTINEL', 'GET-MASTER-ADDR-BY-NAME', $parts[2]])];
    }
}
