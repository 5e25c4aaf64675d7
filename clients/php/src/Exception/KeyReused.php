<?php

declare(strict_types=1);

namespace Rushgate\Exception;

/** The idempotency key was used for a different request. */
final class KeyReused extends Refused
{
}
