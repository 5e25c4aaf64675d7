<?php

declare(strict_types=1);

namespace Rushgate\Exception;

/**
 * Maps codes of the HTTP API to exceptions.
 *
 * @internal
 */
final class ErrorCodes
{
    private const CLASSES = [
        'invalid' => InvalidArgument::class,
        'malformed_json' => InvalidArgument::class,
        'unknown_field' => InvalidArgument::class,
        'bad_request' => InvalidArgument::class,
        'bad_path' => InvalidArgument::class,
        'idempotency_key_invalid' => InvalidArgument::class,
        'payload_too_large' => InvalidArgument::class,
        'uri_too_long' => InvalidArgument::class,
        'unauthorized' => Unauthorized::class,
        'forbidden' => Unauthorized::class,
        'not_found' => NotFound::class,
        'lock_busy' => LockBusy::class,
        'not_held' => LockLost::class,
        'stale' => Stale::class,
        'queue_full' => QueueFull::class,
        'unmet' => Unmet::class,
        'dead' => Dead::class,
        'sold_out' => NotForSale::class,
        'all_held' => NotForSale::class,
        'limit_reached' => NotForSale::class,
        'sale_not_open' => NotForSale::class,
        'sale_ended' => NotForSale::class,
        'sale_halted' => SaleHalted::class,
        'decided' => Decided::class,
        'hold_expired' => ReceiptRefused::class,
        'receipt_refused' => ReceiptRefused::class,
        'idempotency_key_reused' => KeyReused::class,
        'unavailable' => Unavailable::class,
        'closing' => Unavailable::class,
        'too_many' => Unavailable::class,
        'idempotency_in_flight' => Unavailable::class,
        'request_timeout' => Unavailable::class,
        'outcome_unknown' => OutcomeUnknown::class,
        'full' => StoreFull::class,
        'bug' => ServerFault::class,
        'misconfigured' => ServerFault::class,
        'corrupt' => ServerFault::class,
    ];

    /**
     * The exception for a code. A code without a class of its own is a {@see Refused}.
     *
     * @param array<string, mixed> $details
     */
    public static function exception(string $code, string $message, array $details = []): RushgateException
    {
        $class = self::CLASSES[$code] ?? Refused::class;
        return new $class($message, $code, $details);
    }
}
