<?php

declare(strict_types=1);

namespace Rushgate\Exception;

/** The store's memory or disk is full. Nothing was changed. */
final class StoreFull extends Unavailable
{
}
