<?php

declare(strict_types=1);

namespace Rushgate\Exception;

/** A dependency or batch of the task does not exist, or the batch is closed. */
final class Unmet extends Refused
{
}
