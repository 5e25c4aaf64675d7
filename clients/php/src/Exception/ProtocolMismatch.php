<?php

declare(strict_types=1);

namespace Rushgate\Exception;

/** The server's function library is missing or speaks another protocol. */
final class ProtocolMismatch extends RushgateException
{
}
