<?php

declare(strict_types=1);

namespace Rushgate;

use Rushgate\Exception\Decided;
use Rushgate\Exception\InvalidArgument;
use Rushgate\Exception\KeyReused;
use Rushgate\Exception\NotForSale;
use Rushgate\Exception\NotFound;
use Rushgate\Exception\ReceiptRefused;
use Rushgate\Exception\Refused;
use Rushgate\Exception\SaleHalted;
use Rushgate\Internal\Checks;
use Rushgate\Internal\Clock;
use Rushgate\Transport\Transport;

/** A sale of numbered units. It never oversells, however many programs sell at the same time. */
final class Sale
{
    /** @internal */
    public function __construct(private readonly Transport $store, public readonly string $id)
    {
    }

    /**
     * Creates the sale without opening it.
     *
     * @param non-empty-array<string, array{units: int, per_buyer?: int}> $skus up to 1,000 SKUs by name: 1 to 10,000,000
     *     units, and 1 to 10,000 units per buyer (default: 1)
     * @param int|float $hold hold duration of a reservation in seconds: 0.01 to 2,592,000. Default: 300
     * @param ?int $opensAtUs moment before which an open sale refuses buyers, in µs since 1970
     * @param ?int $closesAtUs moment from which it refuses buyers
     * @param ?bool $ledger whether a ledger records the orders. Default: over HTTP, whether the server has one; over
     *     Redis, false
     * @throws Refused if another sale has the ID
     */
    public function create(
        array $skus,
        int|float $hold = 300,
        ?int $opensAtUs = null,
        ?int $closesAtUs = null,
        ?bool $ledger = null,
    ): void {
        Checks::range('the number of SKUs', count($skus), ...Contract::SKUS);
        $list = [];
        foreach ($skus as $sku => $stock) {
            $list[] = [
                'sku' => Checks::name('the SKU', (string) $sku),
                'units' => Checks::range('the number of units', $stock['units'], ...Contract::UNITS),
                'per_buyer' => Checks::range('the purchase limit', $stock['per_buyer'] ?? 1, ...Contract::PER_BUYER),
            ];
        }
        $this->store->createSale([
            'id' => $this->id,
            'skus' => $list,
            'hold_ms' => Clock::toMillis(Checks::duration('the hold', $hold, ...Contract::HOLD_US)),
            'opens_at_us' => $opensAtUs,
            'closes_at_us' => $closesAtUs,
            'ledger' => $ledger,
        ]);
    }

    /** Opens the sale. Returns its status: `open` or `ended`. */
    public function open(): string
    {
        return $this->store->openSale($this->id);
    }

    /** Ends the sale permanently. Holds can still be confirmed and canceled. */
    public function end(): string
    {
        return $this->store->endSale($this->id);
    }

    /**
     * The sale and its stock, as in the HTTP API.
     *
     * @return array<string, mixed>
     * @throws NotFound if there is no such sale
     */
    public function state(): array
    {
        return $this->store->sale($this->id);
    }

    /**
     * Reserves units: all lines or none. Repeating the call with the same key returns the same reservation.
     *
     * @param string $key idempotency key of this attempt to buy: 1 to 128 visible ASCII characters
     * @param non-empty-array<string, int> $cart quantities by SKU: up to 32 SKUs, 1 to 1,000 units each
     * @param bool $same requires the same unit number for every SKU, such as one seat on several legs of a journey
     * @throws NotForSale if the units are sold out or on hold, the purchase limit is exceeded, or the sale is not open.
     *     Its `errorCode` is `sold_out`, `all_held`, `limit_reached`, `sale_not_open` or `sale_ended`
     * @throws SaleHalted if the sale is halted: retry later
     * @throws KeyReused if the key was used with another cart
     * @throws InvalidArgument if a value is out of range. Nothing was sent
     */
    public function reserve(string $buyer, string $key, array $cart, bool $same = false): Reservation
    {
        if (!preg_match('/^[!-~]{1,' . Contract::IDEMPOTENCY_KEY_BYTES . '}$/D', $key)) {
            throw Checks::invalid('the idempotency key', 'must be 1 to 128 visible ASCII characters');
        }
        Checks::range('the number of lines', count($cart), ...Contract::LINES);
        $lines = [];
        foreach ($cart as $sku => $quantity) {
            $name = Checks::name('the SKU', (string) $sku);
            $lines[$name] = Checks::range('the quantity', $quantity, ...Contract::QUANTITY);
        }
        $buyer = Checks::name('the buyer', $buyer);
        return Reservation::fromFields($this->store->reserve($this->id, $buyer, $key, $lines, $same));
    }

    /**
     * Confirms a reservation that is paid for. In a sale with a ledger, it is `confirming` until the ledger has it.
     *
     * @param int|float $wait maximum wait for the ledger, in seconds. Default: 0
     * @throws Decided if the hold had expired or been canceled: refund the payment
     * @throws SaleHalted if the sale is halted: retry later
     * @throws NotFound if there is no such reservation
     */
    public function confirm(Reservation|string $reservation, int|float $wait = 0): Reservation
    {
        $hold = $this->store->confirm($this->id, self::reservationId($reservation), Checks::wait($wait));
        return Reservation::fromFields($hold);
    }

    /**
     * Cancels a reservation at the request of its buyer.
     *
     * @param int|float $wait maximum wait for the ledger, in seconds. Default: 0
     * @throws Decided if it was confirmed or had expired
     * @throws SaleHalted if the sale is halted: retry later
     * @throws NotFound if there is no such reservation
     */
    public function cancel(Reservation|string $reservation, int|float $wait = 0): Reservation
    {
        $hold = $this->store->cancelHold($this->id, self::reservationId($reservation), Checks::wait($wait));
        return Reservation::fromFields($hold);
    }

    /**
     * A reservation. With a wait: once its state is final, or after the wait.
     *
     * @throws NotFound if there is no such reservation
     */
    public function find(Reservation|string $reservation, int|float $wait = 0): Reservation
    {
        $hold = $this->store->reservation($this->id, self::reservationId($reservation), Checks::wait($wait));
        return Reservation::fromFields($hold);
    }

    /**
     * Restores a reservation from its receipt, if the store has lost it. Otherwise returns it as `replayed`.
     *
     * @throws ReceiptRefused if the receipt is not valid for this sale, or its hold has expired
     * @throws NotForSale if too few units are free
     */
    public function restore(string $receipt): Reservation
    {
        return Reservation::fromFields($this->store->restore($this->id, $receipt));
    }

    private static function reservationId(Reservation|string $reservation): string
    {
        $id = is_string($reservation) ? $reservation : $reservation->id;
        return preg_match('/^[0-9a-f]{32}$/D', $id)
            ? $id
            : throw Checks::invalid('the reservation ID', 'must be 32 hexadecimal digits');
    }
}
