<?php

declare(strict_types=1);

namespace Rushgate\Redis;

/**
 * A connection to one Redis or Valkey server.
 *
 * @internal
 */
interface Link
{
    /**
     * Sends a command and returns its answer: an integer, a string (also for a status), null or a list of these.
     *
     * @param non-empty-list<string|int> $words
     * @throws LinkLost if no answer arrived. The link cannot be used any more
     * @throws ServerError if the server refuses the command
     */
    public function call(array $words): mixed;
}
