<?php

declare(strict_types=1);

namespace Rushgate\Exception;

/** Another client holds the lock, and the wait timed out. */
final class LockBusy extends Refused
{
}
