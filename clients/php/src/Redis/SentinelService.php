<?php

declare(strict_types=1);

namespace Rushgate\Redis;

use Rushgate\Options;

/**
 * The primary of a Sentinel service. Asks the sentinels again after each failure.
 *
 * @internal
 */
final class SentinelService extends Nodes
{
    private ?Endpoint $primary = null;

    /** @param non-empty-list<Endpoint> $sentinels */
    public function __construct(
        private readonly array $sentinels,
        private readonly string $service,
        private readonly Endpoint $template,
        Options $options,
    ) {
        parent::__construct($options);
    }

    protected function at(string $key): Endpoint
    {
        return $this->primary ??= $this->ask();
    }

    public function forMessages(): Endpoint
    {
        return $this->primary ??= $this->ask();
    }

    public function forget(): void
    {
        parent::forget();
        $this->primary = null;
    }

    public function maySucceedAfter(ServerError $error): bool
    {
        if ($error->code() === 'READONLY') {
            $this->forget();
        }
        return parent::maySucceedAfter($error);
    }

    /** The primary with the greatest epoch that a sentinel names, which is the latest. */
    private function ask(): Endpoint
    {
        [$latest, $why] = [null, 'no sentinel was named'];
        foreach ($this->sentinels as $sentinel) {
            try {
                $fields = $this->askOne($sentinel);
            } catch (LinkLost | ServerError $error) {
                $why = "{$sentinel->name()}: {$error->getMessage()}";
                continue;
            }
            if ($latest === null || (int) $fields['config-epoch'] > (int) $latest['config-epoch']) {
                $latest = $fields;
            }
        }
        if ($latest === null) {
            throw new LinkLost("no sentinel knows the primary of `$this->service`: $why", false);
        }
        return $this->template->at($latest['ip'], (int) $latest['port']);
    }

    /** @return array<string, string> */
    private function askOne(Endpoint $sentinel): array
    {
        $command = ['SENTINEL', 'MASTER', $this->service];
        try {
            $answer = $sentinel->withoutLogin()->open($this->options)->call($command);
        } catch (ServerError $error) {
            if ($error->code() !== 'NOAUTH') {
                throw $error;
            }
            // The sentinels need the credentials of the primary too.
            $answer = $sentinel->open($this->options)->call($command);
        }
        return array_column(array_chunk($answer, 2), 1, 0);
    }
}
