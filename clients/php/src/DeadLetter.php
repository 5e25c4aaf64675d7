<?php

declare(strict_types=1);

namespace Rushgate;

/** A task that failed for good. */
final class DeadLetter
{
    /**
     * @internal
     * @param string $error why its last attempt failed
     * @param int $diedUs when it became a dead letter: µs since 1970 on the store's clock
     * @param list<array<string, mixed>> $past its latest runs, as in the HTTP API
     */
    public function __construct(
        public readonly string $id,
        public readonly Payload $payload,
        public readonly int $priority,
        public readonly int $attempts,
        public readonly int $maxAttempts,
        public readonly string $error,
        public readonly int $diedUs,
        public readonly ?string $key,
        public readonly array $past,
    ) {
    }

    /**
     * @internal
     * @param array<string, mixed> $fields
     */
    public static function fromFields(array $fields): self
    {
        return new self(
            $fields['id'],
            $fields['content'],
            $fields['priority'],
            $fields['attempts'],
            $fields['max_attempts'],
            $fields['error'],
            $fields['died_us'],
            $fields['key'] ?? null,
            $fields['past'],
        );
    }
}
