<?php

declare(strict_types=1);

namespace Rushgate\Exception;

/** The store cannot be reached or cannot answer now. Nothing was changed. */
class Unavailable extends RushgateException
{
}
