<?php

declare(strict_types=1);

namespace Rushgate\Redis;

use Rushgate\Contract;
use Rushgate\Exception\InvalidArgument;
use Rushgate\Exception\OutcomeUnknown;
use Rushgate\Exception\ProtocolMismatch;
use Rushgate\Exception\RushgateException;
use Rushgate\Exception\ServerFault;
use Rushgate\Exception\StoreFull;
use Rushgate\Exception\Unauthorized;
use Rushgate\Exception\Unavailable;
use Rushgate\Internal\Clock;
use Rushgate\Options;

/**
 * Calls functions, and sends a call again after a lost connection.
 *
 * @internal
 */
final class Caller
{
    private const PAUSE_MIN = 0.01;
    private const PAUSE_MAX = 0.5;
    private const CREDENTIALS = ['NOAUTH', 'WRONGPASS', 'NOPERM'];

    private bool $isChecked = false;

    public function __construct(public readonly Nodes $nodes, public readonly Options $options)
    {
    }

    /** The same store over connections of its own. */
    public function twin(?float $retryFor = null): self
    {
        return new self($this->nodes->copy(), $this->options->withRetryFor($retryFor));
    }

    /**
     * Calls a function.
     *
     * @param string $name lock, queue or sale whose keys are passed
     * @param list<string|int> $arguments
     * @param ?string $ifFull function with the same arguments that answers calls which were executed before the
     *     memory was full
     */
    public function call(string $function, string $name, array $arguments = [], ?string $ifFull = null): mixed
    {
        $this->check();
        try {
            return $this->callUnchecked($function, $name, $arguments);
        } catch (StoreFull $full) {
            if ($ifFull === null) {
                throw $full;
            }
            return $this->callUnchecked($ifFull, $name, $arguments);
        }
    }

    /**
     * Sends a command.
     *
     * @param string $key selects the node in a Cluster
     * @param non-empty-list<string|int> $words
     */
    public function send(string $key, array $words): mixed
    {
        $until = Clock::now() + $this->options->retryFor;
        [$pause, $mayHaveRun] = [self::PAUSE_MIN, false];
        while (true) {
            try {
                return $this->nodes->link($key)->call($words);
            } catch (LinkLost $failure) {
                $this->nodes->forget();
                $mayHaveRun = $mayHaveRun || $failure->mayHaveRun;
            } catch (ServerError $failure) {
                if (!$this->nodes->maySucceedAfter($failure)) {
                    throw self::refusal($failure);
                }
            }
            if (Clock::now() + $pause >= $until) {
                throw $mayHaveRun
                    ? new OutcomeUnknown("no answer arrived: {$failure->getMessage()}", 'outcome_unknown')
                    : new Unavailable("the store is unavailable: {$failure->getMessage()}", 'unavailable');
            }
            Clock::sleep($pause);
            $pause = min(2 * $pause, self::PAUSE_MAX);
        }
    }

    private function callUnchecked(string $function, string $name, array $arguments): mixed
    {
        $keys = $this->keys($function, $name);
        $words = ['FCALL', Contract::FUNCTION_PREFIX . $function, count($keys), ...$keys, ...$arguments];
        do {
            $answer = $this->send($keys[0] ?? '', $words);
        } while ($answer === Contract::AGAIN_STATUS);
        return $answer;
    }

    /** The first key of each group, or all keys in a Cluster. */
    private function keys(string $function, string $name): array
    {
        $keys = [];
        foreach (Contract::FUNCTIONS[$function] as $group) {
            [, $ends] = $group;
            $client = $group === Contract::ANSWERS_KEYS ? ':' . bin2hex(Identity::ofProcess()->client) : '';
            foreach ($this->nodes->needsAllKeys() ? $ends : [$ends[0]] as $end) {
                $keys[] = self::key($group, $name, $end . $client);
            }
        }
        return $keys;
    }

    /** A key of a group. */
    public static function key(array $group, string $name, string $end): string
    {
        return Contract::KEY_PREFIX . "{{$group[0]}:$name}:$end";
    }

    /** Compares the protocol of the server with that of this package, once. */
    private function check(): void
    {
        if ($this->isChecked) {
            return;
        }
        [$protocol, $version] = $this->callUnchecked('version', '', []);
        if ($protocol !== Contract::PROTOCOL) {
            throw new ProtocolMismatch(
                "the server's library $version speaks protocol $protocol; this package speaks " . Contract::PROTOCOL,
                'protocol',
            );
        }
        $this->isChecked = true;
    }

    private static function refusal(ServerError $error): RushgateException
    {
        $text = $error->getMessage();
        return match (true) {
            in_array($error->code(), self::CREDENTIALS, true) => new Unauthorized($text, 'unauthorized'),
            str_contains($text, 'Function not found') => new ProtocolMismatch(
                'the function library of the server is missing, or older than this package; run `rushgate functions install --store URL`',
                'protocol',
            ),
            $error->code() === 'OOM' => new StoreFull($text, 'full'),
            in_array($error->code(), ['INVALID', 'DEADLINE'], true) => new InvalidArgument($text, 'invalid'),
            default => new ServerFault($text, 'bug'),
        };
    }
}
