<?php

declare(strict_types=1);

namespace Rushgate\Exception;

/** Base of all errors of this package. */
abstract class RushgateException extends \RuntimeException
{
    /**
     * @param string $errorCode stable code for programs, as in the HTTP API
     * @param array<string, mixed> $details further fields, such as `position`, `free` or `retry_after_ms`
     */
    final public function __construct(
        string $message,
        public readonly string $errorCode = 'bug',
        public readonly array $details = [],
        ?\Throwable $previous = null,
    ) {
        parent::__construct($message, 0, $previous);
    }

    /** Time in seconds after which the same call may succeed; null if it is not known. */
    public function retryAfter(): ?float
    {
        $delay = $this->details['retry_after_ms'] ?? null;
        return $delay === null ? null : $delay / 1e3;
    }
}
