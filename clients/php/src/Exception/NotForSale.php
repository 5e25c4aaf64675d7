<?php

declare(strict_types=1);

namespace Rushgate\Exception;

/**
 * Nothing was reserved: the units are sold out or on hold, the purchase limit is exceeded, or the sale is not open.
 *
 * `errorCode` is `sold_out`, `all_held`, `limit_reached`, `sale_not_open` or `sale_ended`.
 */
final class NotForSale extends Refused
{
}
