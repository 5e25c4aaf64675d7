<?php

declare(strict_types=1);

namespace Rushgate\Exception;

/** The server reports a bug, corrupt data or a wrong configuration. */
final class ServerFault extends RushgateException
{
}
