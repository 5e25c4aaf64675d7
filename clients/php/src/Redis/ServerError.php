<?php

declare(strict_types=1);

namespace Rushgate\Redis;

/**
 * An error that the server answered. The message begins with its code.
 *
 * @internal
 */
final class ServerError extends \RuntimeException
{
    /** First word of the message, such as `OOM`. */
    public function code(): string
    {
        return explode(' ', $this->getMessage(), 2)[0];
    }
}
