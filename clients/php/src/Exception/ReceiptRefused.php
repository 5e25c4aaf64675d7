<?php

declare(strict_types=1);

namespace Rushgate\Exception;

/** The receipt is malformed, forged, of another sale, or its hold has expired. */
final class ReceiptRefused extends Refused
{
}
