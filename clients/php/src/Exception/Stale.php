<?php

declare(strict_types=1);

namespace Rushgate\Exception;

/** The ticket is stale: the task was claimed, changed or finished since. */
final class Stale extends Refused
{
}
