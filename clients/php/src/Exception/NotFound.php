<?php

declare(strict_types=1);

namespace Rushgate\Exception;

/** There is no such task, schedule, sale or reservation. */
final class NotFound extends Refused
{
}
