<?php

declare(strict_types=1);

namespace Rushgate\Redis;

use Rushgate\Options;

/**
 * The servers of a deployment. Links belong to one process: a fork opens its own.
 *
 * @internal
 */
abstract class Nodes
{
    /** Errors of the server after which the same command may succeed. */
    protected const PASSING = ['LOADING', 'MASTERDOWN', 'READONLY', 'CLUSTERDOWN', 'TRYAGAIN', 'BUSY', 'NOREPLICAS'];

    /** @var list<Link> links of parent processes, which stay open because closing them would disturb the parent */
    private static array $inherited = [];
    /** @var array<string, Link> links by address */
    private array $links = [];
    private int $process;

    public function __construct(protected readonly Options $options)
    {
        $this->process = getmypid();
    }

    /** Address of the server that has a key. */
    abstract protected function at(string $key): Endpoint;

    /** Address at which to subscribe. */
    abstract public function forMessages(): Endpoint;

    /** The same servers without links. */
    public function copy(): static
    {
        $copy = clone $this;
        $copy->links = [];
        return $copy;
    }

    /** True if a call must pass all keys of its groups. */
    public function needsAllKeys(): bool
    {
        return false;
    }

    /** The link to the server that has a key. */
    public function link(string $key): Link
    {
        $this->leaveParentsLinks();
        return $this->linkTo($this->at($key));
    }

    protected function linkTo(Endpoint $at): Link
    {
        return $this->links[$at->name()] ??= $at->open($this->options);
    }

    /** Forgets all links, after one was lost. */
    public function forget(): void
    {
        $this->links = [];
    }

    /** True if the command may succeed now or later. Learns new addresses from the error. */
    public function maySucceedAfter(ServerError $error): bool
    {
        return in_array($error->code(), self::PASSING, true);
    }

    private function leaveParentsLinks(): void
    {
        if ($this->process !== getmypid()) {
            array_push(self::$inherited, ...array_values($this->links));
            [$this->links, $this->process] = [[], getmypid()];
        }
    }
}
