<?php

declare(strict_types=1);

namespace Rushgate\Exception;

/** The sale is halted, or accepts only receipts for now. Retry later. */
final class SaleHalted extends Refused
{
}
