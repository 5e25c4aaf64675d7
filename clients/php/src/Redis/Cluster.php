<?php

declare(strict_types=1);

namespace Rushgate\Redis;

use Rushgate\Options;

/**
 * A Cluster. Follows redirections, and reads the slot map again when it has changed.
 *
 * @internal
 */
final class Cluster extends Nodes
{
    private const SLOTS = 16384;

    /** @var array<string, Endpoint> known primaries by address */
    private array $known = [];
    /** @var list<array{int, int, Endpoint}> first and last slot of each primary */
    private array $map = [];
    /** Address to which the next command is redirected once. */
    private ?Endpoint $asked = null;

    /** @param non-empty-list<Endpoint> $seeds */
    public function __construct(private readonly array $seeds, Options $options)
    {
        parent::__construct($options);
    }

    public function needsAllKeys(): bool
    {
        return true;
    }

    public function link(string $key): Link
    {
        if ($this->asked === null) {
            return parent::link($key);
        }
        [$at, $this->asked] = [$this->asked, null];
        $link = $this->linkTo($at);
        $link->call(['ASKING']);
        return $link;
    }

    protected function at(string $key): Endpoint
    {
        if ($this->map === []) {
            $this->readMap();
        }
        $slot = self::slot($key);
        foreach ($this->map as [$first, $last, $at]) {
            if ($first <= $slot && $slot <= $last) {
                return $at;
            }
        }
        $this->map = [];
        throw new LinkLost("no node has the slot $slot", false);
    }

    public function forMessages(): Endpoint
    {
        if ($this->map === []) {
            $this->readMap();
        }
        return $this->map[0][2];
    }

    public function forget(): void
    {
        parent::forget();
        $this->map = [];
    }

    public function maySucceedAfter(ServerError $error): bool
    {
        if (!in_array($error->code(), ['MOVED', 'ASK'], true)) {
            return parent::maySucceedAfter($error);
        }
        [, , $address] = explode(' ', $error->getMessage());
        if ($error->code() === 'MOVED') {
            $this->map = [];
        } else {
            $this->asked = $this->endpoint(...self::split($address));
        }
        return true;
    }

    private function readMap(): void
    {
        $why = 'no node was named';
        foreach ([...array_values($this->known), ...$this->seeds] as $node) {
            try {
                $this->map = $this->mapOf($node, $node->open($this->options)->call(['CLUSTER', 'SLOTS']));
                return;
            } catch (LinkLost | ServerError $error) {
                $why = $error->getMessage();
            }
        }
        throw new LinkLost("no node of the cluster answers: $why", false);
    }

    private function mapOf(Endpoint $asked, array $ranges): array
    {
        $map = [];
        foreach ($ranges as [$first, $last, [$host, $port]]) {
            // A node that does not know its own address leaves it out.
            $at = $this->endpoint(in_array($host, ['', '?', null], true) ? $asked->host : $host, (int) $port);
            $this->known[$at->name()] = $at;
            $map[] = [$first, $last, $at];
        }
        return $map === [] ? throw new LinkLost('the cluster has no slots', false) : $map;
    }

    private function endpoint(string $host, int $port): Endpoint
    {
        return $this->seeds[0]->at($host, $port);
    }

    /** @return array{string, int} */
    private static function split(string $address): array
    {
        $colon = strrpos($address, ':');
        return [substr($address, 0, $colon), (int) substr($address, $colon + 1)];
    }

    /** Slot of a key: CRC-16/XMODEM of its hash tag. */
    private static function slot(string $key): int
    {
        if (preg_match('/^[^{]*\{([^}]+)\}/', $key, $tag)) {
            $key = $tag[1];
        }
        $crc = 0;
        foreach (unpack('C*', $key) as $byte) {
            $crc ^= $byte << 8;
            for ($bit = 0; $bit < 8; $bit++) {
                $crc = ($crc & 0x8000 ? ($crc << 1) ^ 0x1021 : $crc << 1) & 0xffff;
            }
        }
        return $crc % self::SLOTS;
    }
}
