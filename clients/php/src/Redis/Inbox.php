<?php

declare(strict_types=1);

namespace Rushgate\Redis;

use Rushgate\Contract;
use Rushgate\Exception\Unavailable;
use Rushgate\Internal\Clock;
use Rushgate\Options;

/**
 * A subscription of this process, on a connection of its own.
 *
 * A message is only a hint. The state is on the server.
 *
 * @internal
 */
final class Inbox
{
    /** 8 bytes. */
    public readonly string $id;
    private readonly int $process;
    private ?StreamLink $link = null;
    /** @var array<string, true> tokens of locks that were force-released */
    private array $revoked = [];
    /** @var array<string, true> queues with tasks to claim */
    private array $ready = [];

    public function __construct(private readonly Nodes $nodes, private readonly Options $options)
    {
        $this->id = random_bytes(Contract::INBOX_BYTES);
        $this->process = getmypid();
    }

    public function isOfThisProcess(): bool
    {
        return $this->process === getmypid();
    }

    /** The ID in hexadecimal digits. */
    public function hex(): string
    {
        return bin2hex($this->id);
    }

    /** Subscribes, unless the subscription is open. */
    public function open(): self
    {
        $until = Clock::now() + $this->options->retryFor;
        while ($this->link === null) {
            try {
                $this->subscribe();
            } catch (LinkLost | ServerError $error) {
                $this->nodes->forget();
                if (Clock::now() >= $until) {
                    throw new Unavailable("cannot subscribe to notifications: {$error->getMessage()}", 'unavailable');
                }
                Clock::sleep(0.02);
            }
        }
        return $this;
    }

    /**
     * Sleeps until a message or a signal arrives, for at most $seconds. Returns at once after a lost subscription,
     * because a message may be lost too.
     */
    public function wait(float $seconds): void
    {
        if ($this->link === null) {
            $this->open();
        } elseif ($this->link->isReadable($seconds)) {
            $this->drain();
        }
    }

    /** Reads the messages that have arrived. */
    public function drain(): void
    {
        while ($this->link !== null && $this->link->isReadable(0)) {
            try {
                [, , $message] = $this->link->receive();
                $this->note($message);
            } catch (LinkLost | ServerError) {
                $this->link = null;
            }
        }
    }

    public function isRevoked(string $token): bool
    {
        return isset($this->revoked[$token]);
    }

    /** True once after each message that a queue has tasks. */
    public function takeReady(string $queue): bool
    {
        $isReady = isset($this->ready[$queue]);
        unset($this->ready[$queue]);
        return $isReady;
    }

    private function note(string $message): void
    {
        if ($message[0] === Contract::NOTIFY_REVOKED) {
            $this->revoked[substr($message, 1, Contract::TOKEN_BYTES)] = true;
        } elseif ($message[0] === Contract::NOTIFY_TASKS) {
            [, , $queue] = explode(' ', substr($message, 1), 3);
            $this->ready[$queue] = true;
        }
    }

    private function subscribe(): void
    {
        $at = $this->nodes->forMessages();
        $link = new StreamLink($at, $this->options);
        foreach ($at->greeting() as $command) {
            $link->call($command);
        }
        $link->call(['SUBSCRIBE', Contract::INBOX_PREFIX . $this->hex()]);
        $this->link = $link;
    }
}
