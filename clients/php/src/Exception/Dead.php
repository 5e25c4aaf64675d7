<?php

declare(strict_types=1);

namespace Rushgate\Exception;

/** The task is a dead letter. The details have its `error` and its `attempts`. */
final class Dead extends Refused
{
}
