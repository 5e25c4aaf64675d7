<?php

declare(strict_types=1);

namespace Rushgate\Exception;

/** A value is out of range or has the wrong form. Nothing was changed. */
final class InvalidArgument extends RushgateException
{
}
