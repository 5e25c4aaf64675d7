<?php

declare(strict_types=1);

namespace Rushgate\Exception;

/** The payload does not match its content type. */
final class Undecodable extends RushgateException
{
}
