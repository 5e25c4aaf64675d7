<?php

declare(strict_types=1);

namespace Rushgate\Exception;

/** The credentials are missing, wrong, or do not allow the call. */
final class Unauthorized extends RushgateException
{
}
