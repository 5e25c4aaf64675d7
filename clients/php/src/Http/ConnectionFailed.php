<?php

declare(strict_types=1);

namespace Rushgate\Http;

/**
 * No complete answer arrived.
 *
 * @internal
 */
final class ConnectionFailed extends \RuntimeException
{
    public function __construct(
        string $message,
        /** True if the server may have executed the request. */
        public readonly bool $mayHaveRun,
    ) {
        parent::__construct($message);
    }
}
