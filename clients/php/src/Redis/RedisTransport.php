<?php

declare(strict_types=1);

namespace Rushgate\Redis;

use Rushgate\Transport\Transport;

/**
 * A store on Redis or Valkey, by its function library.
 *
 * @internal
 */
final class RedisTransport implements Transport
{
    use LockVerbs;
    use QueueVerbs;
    use SaleVerbs;

    private ?Inbox $inbox = null;

    public function __construct(private readonly Caller $caller)
    {
    }

    public function twin(?float $retryFor = null): self
    {
        return new self($this->caller->twin($retryFor));
    }

    public function close(): void
    {
        $this->caller->nodes->forget();
        $this->inbox = null;
    }

    /** The inbox of this process. */
    private function inbox(): Inbox
    {
        if ($this->inbox === null || !$this->inbox->isOfThisProcess()) {
            $this->inbox = new Inbox($this->caller->nodes, $this->caller->options);
        }
        return $this->inbox;
    }

    private static function op(): string
    {
        return Identity::ofProcess()->op();
    }
}
