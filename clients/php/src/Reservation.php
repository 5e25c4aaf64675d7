<?php

declare(strict_types=1);

namespace Rushgate;

/** Units that are on hold or sold for a buyer. */
final class Reservation
{
    /**
     * @internal
     * @param string $id 32 hexadecimal digits
     * @param list<array{sku: string, unit: int}> $units by line of the cart, and by number within a line
     * @param string $state `held`, `confirming`, `cancelling`, `expiring`, `confirmed`, `cancelled`, `expired` or
     *     `rejected`
     * @param int $deadlineUs when the hold expires: µs since 1970 on the store's clock
     * @param bool $replayed true if it was made by an earlier call with the same idempotency key
     * @param ?string $receipt signed proof that restores the reservation if the store loses it; after `reserve` and
     *     `restore`
     */
    public function __construct(
        public readonly string $id,
        public readonly string $buyer,
        public readonly array $units,
        public readonly string $state,
        public readonly int $deadlineUs,
        public readonly bool $replayed,
        public readonly ?string $receipt,
    ) {
    }

    /**
     * @internal
     * @param array<string, mixed> $fields
     */
    public static function fromFields(array $fields): self
    {
        return new self(
            $fields['id'],
            $fields['buyer'],
            $fields['units'],
            $fields['state'],
            $fields['deadline_us'],
            $fields['replayed'] ?? false,
            $fields['receipt'] ?? null,
        );
    }

    /** True if the state never changes again. */
    public function isFinal(): bool
    {
        return in_array($this->state, Contract::FINAL_STATE, true);
    }
}
