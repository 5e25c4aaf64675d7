<?php

declare(strict_types=1);

namespace Rushgate\Tests;

use Rushgate\Exception\Decided;
use Rushgate\Exception\KeyReused;
use Rushgate\Exception\NotForSale;
use Rushgate\Exception\NotFound;
use Rushgate\Exception\ReceiptRefused;
use Rushgate\Exception\Refused;
use Rushgate\Sale;

final class SalesTest extends TestCase
{
    private static function sale(array $skus, mixed ...$options): Sale
    {
        $sale = self::client()->sale(self::name('sale'));
        $sale->create($skus, ...$options);
        $sale->open();
        return $sale;
    }

    public function testAReservationIsReplayedConfirmedAndSold(): void
    {
        $sale = self::sale(['phone' => ['units' => 10, 'per_buyer' => 2], 'case' => ['units' => 5]]);
        $hold = $sale->reserve('ann', 'click-1', ['phone' => 2, 'case' => 1]);
        self::assertSame(['held', 'ann', false], [$hold->state, $hold->buyer, $hold->replayed]);
        self::assertSame(['phone' => 2, 'case' => 1], array_count_values(array_column($hold->units, 'sku')));
        $again = $sale->reserve('ann', 'click-1', ['phone' => 2, 'case' => 1]);
        self::assertSame([$hold->id, true], [$again->id, $again->replayed]);
        self::refused(KeyReused::class, fn () => $sale->reserve('ann', 'click-1', ['phone' => 1]));
        $sold = $sale->confirm($hold, 20);
        self::assertSame('confirmed', $sold->state);
        self::assertTrue($sold->isFinal());
        self::assertSame('confirmed', $sale->find($hold->id)->state);
        [$phone] = $sale->state()['skus'];
        self::assertSame([10, 8, 2, 0], [$phone['total'], $phone['free'], $phone['confirmed'], $phone['held']]);
        $decided = self::refused(Decided::class, fn () => $sale->cancel($hold));
        self::assertSame('confirmed', $decided->details['state']);
    }

    public function testACanceledReservationReturnsItsUnits(): void
    {
        $sale = self::sale(['phone' => ['units' => 1]]);
        $hold = $sale->reserve('ann', 'click', ['phone' => 1]);
        $held = self::refused(NotForSale::class, fn () => $sale->reserve('bob', 'click', ['phone' => 1]));
        self::assertSame(['all_held', 'phone'], [$held->errorCode, $held->details['sku']]);
        self::assertSame('cancelled', $sale->cancel($hold, 20)->state);
        $next = $sale->reserve('bob', 'click', ['phone' => 1]);
        $sale->confirm($next, 20);
        $error = self::refused(NotForSale::class, fn () => $sale->reserve('cem', 'click', ['phone' => 1]));
        self::assertSame('sold_out', $error->errorCode);
    }

    public function testRefusalsNameTheirReason(): void
    {
        $client = self::client();
        self::refused(NotFound::class, fn () => $client->sale(self::name('none'))->state());
        $sale = $client->sale(self::name('sale'));
        $sale->create(['phone' => ['units' => 5]]);
        self::refused(Refused::class, fn () => $sale->create(['phone' => ['units' => 6]]));
        $code = fn (string $buyer, array $cart) => self::refused(
            \Rushgate\Exception\RushgateException::class,
            fn () => $sale->reserve($buyer, 'click', $cart),
        )->errorCode;
        self::assertSame('sale_not_open', $code('ann', ['phone' => 1]));
        self::assertSame('open', $sale->open());
        self::assertSame('limit_reached', $code('ann', ['phone' => 2]));
        self::assertSame('not_found', $code('ann', ['tablet' => 1]));
        self::refused(NotFound::class, fn () => $sale->confirm(str_repeat('0', 32)));
        self::assertSame('ended', $sale->end());
        self::assertSame('sale_ended', $code('bob', ['phone' => 1]));
    }

    public function testAReceiptIsVerified(): void
    {
        $sale = self::sale(['phone' => ['units' => 5]]);
        $hold = $sale->reserve('ann', 'click', ['phone' => 1]);
        $restored = $sale->restore($hold->receipt);
        self::assertSame([$hold->id, true], [$restored->id, $restored->replayed]);
        self::refused(ReceiptRefused::class, fn () => $sale->restore(strtr($hold->receipt, 'abc', 'bca')));
        $other = self::sale(['phone' => ['units' => 5]]);
        self::refused(ReceiptRefused::class, fn () => $other->restore($hold->receipt));
    }

    public function testAHoldExpires(): void
    {
        $sale = self::sale(['phone' => ['units' => 1]], hold: 0.05);
        $hold = $sale->reserve('ann', 'click', ['phone' => 1]);
        usleep(100_000);
        self::refused(Decided::class, fn () => $sale->confirm($hold, 20));
        // With a ledger, the hold is `expiring` until the ledger has it.
        self::assertSame('expired', $sale->find($hold, 20)->state);
    }

    public function testMoreBuyersThanUnitsBuyExactlyAllUnits(): void
    {
        $sale = self::sale(['phone' => ['units' => 20]]);
        foreach (range(1, 3) as $child) {
            $children[] = self::fork(function ($report) use ($sale, $child): void {
                [$sold, $refused] = [[], 0];
                foreach (range(1, 12) as $buyer) {
                    try {
                        $hold = $sale->reserve("$child-$buyer", 'click', ['phone' => 1]);
                        $sold[] = $sale->confirm($hold, 20)->units[0]['unit'];
                    } catch (NotForSale) {
                        $refused++;
                    }
                }
                fwrite($report, json_encode([$sold, $refused]) . "\n");
            }, $pipe);
            $pipes[] = $pipe;
        }
        [$units, $refused] = [[], 0];
        foreach ($pipes as $pipe) {
            [$sold, $count] = json_decode(self::line($pipe), true);
            [$units, $refused] = [[...$units, ...$sold], $refused + $count];
        }
        array_map(self::join(...), $children);
        sort($units);
        self::assertSame(range(1, 20), $units);
        self::assertSame(16, $refused);
        [$phone] = $sale->state()['skus'];
        self::assertSame([20, 0, 0], [$phone['confirmed'], $phone['free'], $phone['held']]);
    }

    public function testOneNumberCanBeRequiredForAllLines(): void
    {
        $sale = self::sale(['leg-1' => ['units' => 9, 'per_buyer' => 2], 'leg-2' => ['units' => 9]]);
        $sale->reserve('ann', 'click', ['leg-1' => 2]);
        $hold = $sale->reserve('bob', 'click', ['leg-1' => 1, 'leg-2' => 1], same: true);
        self::assertCount(1, array_unique(array_column($hold->units, 'unit')));
        self::assertSame($hold->id, $sale->restore($hold->receipt)->id);
    }
}
