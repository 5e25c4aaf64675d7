<?php

declare(strict_types=1);

namespace Rushgate\Exception;

/** The lock is not held any more: stop the work that it protects. */
final class LockLost extends Refused
{
}
