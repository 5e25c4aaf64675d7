<?php

declare(strict_types=1);

namespace Rushgate\Redis;

use Rushgate\Exception\InvalidArgument;
use Rushgate\Options;

/**
 * Parses the URL of a Redis or Valkey store.
 *
 * @internal
 */
final class Url
{
    private const FORM = '~^(?<scheme>rediss?|valkeys?)(?<kind>\+sentinel|\+cluster)?://'
        . '(?:(?<login>[^/]*)@)?(?<hosts>[^/@?#]+)(?:/(?<path>[^?#]*))?$~D';
    private const PORT = 6379;
    private const SENTINEL_PORT = 26379;

    public static function nodes(string $url, Options $options): Nodes
    {
        if (!preg_match(self::FORM, $url, $parts)) {
            throw self::wrong('is malformed');
        }
        $path = explode('/', $parts['path'] ?? '');
        return match ($parts['kind']) {
            '' => self::oneServer($parts, $path, $options),
            '+sentinel' => self::sentinel($parts, $path, $options),
            '+cluster' => self::cluster($parts, $path, $options),
        };
    }

    /** The URL of a connection of the extension redis. $auth: a password, or user and password. */
    public static function of(\Redis|\RedisCluster $redis, mixed $auth): string
    {
        $login = self::loginOf($auth ?? ($redis instanceof \Redis ? $redis->getAuth() : null));
        if ($redis instanceof \RedisCluster) {
            $nodes = array_map(fn (array $node) => "$node[0]:$node[1]", $redis->_masters());
            return "redis+cluster://$login" . implode(',', $nodes);
        }
        [$host, $port] = [(string) $redis->getHost(), $redis->getPort()];
        $scheme = preg_match('~^(tls|ssl)://~', $host) ? 'rediss' : 'redis';
        $host = preg_replace('~^\w+://~', '', $host);
        if ($host === '' || $host[0] === '/') {
            throw self::wrong('cannot be derived from this connection; pass a client');
        }
        return "$scheme://$login$host:$port/{$redis->getDbNum()}";
    }

    private static function loginOf(mixed $auth): string
    {
        if ($auth === null || $auth === false) {
            return '';
        }
        $words = array_map('rawurlencode', array_values((array) $auth));
        return count($words) === 1 ? ":$words[0]@" : "$words[0]:$words[1]@";
    }

    private static function oneServer(array $parts, array $path, Options $options): Nodes
    {
        $servers = self::endpoints($parts, self::PORT, self::database($path));
        return count($servers) === 1 ? new OneServer($servers[0], $options) : throw self::wrong('names several hosts');
    }

    private static function sentinel(array $parts, array $path, Options $options): Nodes
    {
        $service = array_shift($path);
        if ($service === '' || $service === null) {
            throw self::wrong('lacks the service name after the sentinels');
        }
        $sentinels = self::endpoints($parts, self::SENTINEL_PORT, 0);
        $template = self::endpoints($parts, self::PORT, self::database($path))[0];
        return new SentinelService($sentinels, rawurldecode($service), $template, $options);
    }

    private static function cluster(array $parts, array $path, Options $options): Nodes
    {
        if (self::database($path) !== 0) {
            throw self::wrong('names a database, but a Cluster has only database 0');
        }
        return new Cluster(self::endpoints($parts, self::PORT, 0), $options);
    }

    /** @return non-empty-list<Endpoint> */
    private static function endpoints(array $parts, int $port, int $database): array
    {
        [$user, $password] = self::login($parts['login'] ?? '');
        $tls = str_ends_with($parts['scheme'], 's') && $parts['scheme'] !== 'redis';
        $endpoint = function (string $host) use ($port, $tls, $user, $password, $database): Endpoint {
            if (!preg_match('/^(?<host>\[[0-9a-f:.]+\]|[^:\[\]]+)(?::(?<port>\d{1,5}))?$/iD', $host, $address)) {
                throw self::wrong("has the malformed host `$host`");
            }
            return new Endpoint($address['host'], (int) ($address['port'] ?? $port), $tls, $user, $password, $database);
        };
        return array_map($endpoint, explode(',', $parts['hosts']));
    }

    /** @return array{?string, ?string} user and password */
    private static function login(string $login): array
    {
        if ($login === '') {
            return [null, null];
        }
        [$user, $password] = array_map('rawurldecode', explode(':', $login, 2) + [1 => '']);
        return [$user === '' ? null : $user, $password === '' ? null : $password];
    }

    private static function database(array $path): int
    {
        $number = array_shift($path) ?? '';
        if ($path !== [] || !preg_match('/^\d{0,5}$/D', $number)) {
            throw self::wrong('has a malformed database');
        }
        return (int) $number;
    }

    private static function wrong(string $why): InvalidArgument
    {
        return new InvalidArgument(
            "the store's URL $why; use redis://[user:password@]host[:port][/database], "
                . 'redis+sentinel://host[:port],…/service[/database] or redis+cluster://host[:port],…; rediss for TLS',
            'invalid',
        );
    }
}
