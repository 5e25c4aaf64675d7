<?php

declare(strict_types=1);

namespace Rushgate\Exception;

/** The queue is at capacity, or has the maximum number of schedules. */
final class QueueFull extends Refused
{
}
