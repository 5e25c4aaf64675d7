<?php

declare(strict_types=1);

namespace Rushgate\Exception;

/** The operation is not possible in the current state. Nothing was changed. */
class Refused extends RushgateException
{
}
