<?php

declare(strict_types=1);

namespace Rushgate;

use Rushgate\Exception\InvalidArgument;

/**
 * Proof of one read or one claim of a task, as the HTTP API writes it.
 *
 * @internal
 */
final class Ticket
{
    private function __construct(
        public readonly string $id,
        public readonly int $revision,
        /** Claim number; 0 if the task is not claimed. */
        public readonly int $claim,
    ) {
    }

    public static function format(int $revision, int $claim, int $dueUs, string $id): string
    {
        return sprintf('%x.%x.%x.%s', $revision, $claim, $dueUs, $id);
    }

    /** @throws InvalidArgument if the text is not a ticket */
    public static function parse(string $text): self
    {
        if (!preg_match('/^([0-9a-f]{1,15})\.([0-9a-f]{1,15})\.[0-9a-f]{1,15}\.(.{1,200})$/Ds', $text, $parts)) {
            throw new InvalidArgument('the ticket is malformed; pass it exactly as Rushgate issued it', 'invalid');
        }
        return new self($parts[3], hexdec($parts[1]), hexdec($parts[2]));
    }
}
