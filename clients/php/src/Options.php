<?php

declare(strict_types=1);

namespace Rushgate;

use Rushgate\Internal\Checks;

/** Settings of a client. Times are in seconds. */
final class Options
{
    /**
     * @param ?string $token API token, for http:// and https:// URLs
     * @param ?string $caFile PEM file of the certificate authorities to trust. Default: those of the system
     * @param float $connectTimeout time limit for connecting: 0.1 to 60. Default: 3
     * @param float $answerTimeout time limit for each answer: 0.1 to 60. Default: 5
     * @param float $retryFor retry budget: how long a call is repeated while the store does not answer: 0 to 3,600.
     *     Default: 5
     * @param string $driver connection to Redis: `phpredis` (extension redis), `predis` (package predis/predis) or
     *     `stream` (PHP alone). Default: `auto`, which is `phpredis` if it is loaded, otherwise `stream`
     * @param string $label what the program does, as shown to operators: at most 200 bytes. Default: `php`
     */
    public function __construct(
        public readonly ?string $token = null,
        public readonly ?string $caFile = null,
        public readonly float $connectTimeout = 3,
        public readonly float $answerTimeout = 5,
        public readonly float $retryFor = 5,
        public readonly string $driver = 'auto',
        public readonly string $label = 'php',
    ) {
        Checks::duration('the connect timeout', $connectTimeout, 100_000, 60_000_000);
        Checks::duration('the answer timeout', $answerTimeout, 100_000, 60_000_000);
        Checks::duration('the retry budget', $retryFor, 0, 3_600_000_000);
        Checks::word('the driver', $driver, ['auto', 'phpredis', 'predis', 'stream']);
        Checks::label('the label', $label);
    }

    /**
     * The same settings with another retry budget, unless it is null.
     *
     * @internal
     */
    public function withRetryFor(?float $retryFor): self
    {
        return $retryFor === null ? $this : new self(...['retryFor' => $retryFor] + get_object_vars($this));
    }
}
