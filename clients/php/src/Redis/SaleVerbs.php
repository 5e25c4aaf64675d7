<?php

declare(strict_types=1);

namespace Rushgate\Redis;

use Rushgate\Contract;
use Rushgate\Exception\ErrorCodes;
use Rushgate\Exception\NotFound;
use Rushgate\Exception\Refused;
use Rushgate\Exception\RushgateException;
use Rushgate\Exception\ServerFault;
use Rushgate\Internal\Clock;

/**
 * Sales over Redis.
 *
 * @internal
 */
trait SaleVerbs
{
    /** @var array<string, array<string, mixed>> specifications by sale */
    private array $specifications = [];

    public function createSale(array $sale): void
    {
        $id = $sale['id'];
        $specification = [
            'closes_us' => $sale['closes_at_us'] ?? null,
            'hold_us' => $sale['hold_ms'] * 1_000,
            'ledger' => $sale['ledger'] ?? false,
            'opens_us' => $sale['opens_at_us'] ?? null,
            'secret' => bin2hex(random_bytes(16)),
            'skus' => array_map(fn (array $sku) => [$sku['sku'], $sku['units'], $sku['per_buyer']], $sale['skus']),
        ];
        $this->caller->send(Contract::SALE_DIRECTORY, ['ZADD', Contract::SALE_DIRECTORY, 0, $id]);
        $created = $this->caller->call('sale_create', $id, [
            json_encode($specification, JSON_THROW_ON_ERROR | JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE),
            hex2bin($specification['secret']),
            $specification['hold_us'],
            $specification['opens_us'] ?? '',
            $specification['closes_us'] ?? '',
            (int) $specification['ledger'],
            ...array_merge(...array_map(fn (array $sku) => array_slice($sku, 1), $specification['skus'])),
        ]);
        if ($created !== 1) {
            throw new Refused("another sale has the ID `$id`", 'exists');
        }
    }

    public function openSale(string $sale): string
    {
        return Contract::SALE_STATUS[$this->callSale('sale_open', $sale)];
    }

    public function endSale(string $sale): string
    {
        return Contract::SALE_STATUS[$this->callSale('sale_end', $sale)];
    }

    public function sale(string $sale): array
    {
        $specification = $this->specification($sale);
        $count = count($specification['skus']);
        $answer = $this->callSale('sale_show', $sale, [$count]);
        [$status, $generation, $seq, $nextExpiry, $now] = $answer;
        $rest = array_slice($answer, 5 + $count);
        [$haltedSince, $reason, $receiptsUntil, $through, $behind, $failed, $workerUntil] = $rest;
        $moment = fn (string|int $field) => $field === '' ? null : (int) $field;
        $skus = array_map(Records::sku(...), array_column($specification['skus'], 0), array_slice($answer, 5, $count));
        return [
            'id' => $sale,
            'hold_ms' => intdiv($specification['hold_us'], 1_000),
            'opens_at_us' => $specification['opens_us'],
            'closes_at_us' => $specification['closes_us'],
            'ledger' => $specification['ledger'],
            'status' => Contract::SALE_STATUS[$status],
            'generation' => $generation,
            'seq' => $seq,
            'skus' => $skus,
            'next_expiry_us' => $moment($nextExpiry),
            'halted' => $haltedSince === ''
                ? null
                : ['reason' => Contract::HALT_REASON[$reason], 'since_us' => (int) $haltedSince],
            'receipts_until_us' => $moment($receiptsUntil),
            'orders' => $specification['ledger'] ? [
                'through' => (int) $through,
                'behind_since_us' => $moment($behind),
                'failed' => (int) $failed,
                'worker_until_us' => $moment($workerUntil),
            ] : null,
            'now_us' => $now,
        ];
    }

    public function reserve(string $sale, string $buyer, string $key, array $cart, bool $same): array
    {
        $names = array_column($this->specification($sale)['skus'], 0);
        $arguments = [$key, $buyer, (int) $same];
        foreach ($cart as $sku => $quantity) {
            $number = array_search((string) $sku, $names, true);
            array_push($arguments, $number === false ? -1 : $number, $quantity);
        }
        $answer = $this->callSale('sale_reserve_by_key', $sale, $arguments);
        $outcome = Contract::RESERVED[$answer[0]];
        if ($outcome !== 'reserved' && $outcome !== 'replayed') {
            throw $this->refusal($sale, $outcome, $answer);
        }
        $hold = Records::hold($answer[1], $answer[2], $names);
        return $hold + ['replayed' => $outcome === 'replayed', 'receipt' => $this->receipt($sale, $hold)];
    }

    private function refusal(string $sale, string $outcome, array $answer): RushgateException
    {
        // Some outcomes have another name in the HTTP API.
        $outcome = match ($outcome) {
            'key_reused' => 'idempotency_key_reused',
            'none_left' => 'sold_out',
            'not_open' => 'sale_not_open',
            'ended' => 'sale_ended',
            'no_such_sku' => 'not_found',
            'halted' => 'sale_halted',
            'expired' => 'hold_expired',
            default => $outcome,
        };
        $sku = fn () => $this->specification($sale)['skus'][$answer[1]][0];
        $details = match ($outcome) {
            'sold_out', 'all_held' => ['sku' => $sku(), 'free' => $answer[2], 'next_expiry_us' => $answer[3] ?? null],
            'limit_reached' => ['sku' => $sku(), 'limit' => $answer[2], 'has' => $answer[3]],
            'sale_halted' => ['retry_at_us' => (int) $answer[1]],
            default => [],
        };
        if (($details['next_expiry_us'] ?? '') === '') {
            unset($details['next_expiry_us']);
        }
        $text = match ($outcome) {
            'idempotency_key_reused' => 'the idempotency key was used for a different request',
            'sold_out' => 'sold out: too few units are left',
            'all_held' => 'all remaining units are on hold; retry later',
            'limit_reached' => 'the purchase limit is exceeded',
            'sale_not_open' => 'the sale is not open yet',
            'sale_ended' => 'the sale has ended',
            'sale_halted' => 'the sale is halted, or accepts only receipts for now',
            'hold_expired' => 'the hold of this receipt has expired',
            'not_found' => 'the cart has a SKU that the sale does not have',
        };
        return ErrorCodes::exception($outcome, $text, $details);
    }

    public function confirm(string $sale, string $reservation, float $wait): array
    {
        return $this->decide('sale_confirm', 'confirmed', $sale, $reservation, $wait);
    }

    public function cancelHold(string $sale, string $reservation, float $wait): array
    {
        return $this->decide('sale_cancel_hold', 'cancelled', $sale, $reservation, $wait);
    }

    private function decide(string $function, string $wanted, string $sale, string $reservation, float $wait): array
    {
        $id = hex2bin($reservation);
        [$answer] = $this->callSale($function, $sale, [$id]);
        $outcome = Contract::DECIDED[$answer[0]];
        if ($outcome === 'unknown') {
            throw self::noReservation($reservation);
        }
        if ($outcome === 'halted') {
            throw ErrorCodes::exception('sale_halted', 'the sale is halted; retry later');
        }
        $hold = Records::hold($answer[1], $id, array_column($this->specification($sale)['skus'], 0));
        if ($outcome === 'pending' && $wait > 0) {
            $hold = $this->reservation($sale, $reservation, $wait);
        }
        $isOther = in_array($hold['state'], Contract::FINAL_STATE, true) && $hold['state'] !== $wanted;
        if ($outcome === 'refused' || $isOther) {
            throw ErrorCodes::exception('decided', "the reservation is {$hold['state']}", ['state' => $hold['state']]);
        }
        return $hold;
    }

    public function reservation(string $sale, string $reservation, float $wait): array
    {
        $until = Clock::now() + $wait;
        $names = array_column($this->specification($sale)['skus'], 0);
        $seen = 0;
        while (true) {
            $answer = $this->callSale('sale_reservation', $sale, [hex2bin($reservation)]);
            if ($answer === []) {
                throw self::noReservation($reservation);
            }
            $hold = Records::hold($answer[0], hex2bin($reservation), $names);
            $left = $until - Clock::now();
            if (in_array($hold['state'], Contract::FINAL_STATE, true) || $left <= 0) {
                return $hold;
            }
            $inbox = $this->inbox()->open();
            if ($this->callSale('sale_listen', $sale, [$inbox->hex(), $seen]) === 1) {
                $inbox->wait(min($left, Contract::HOLD_SLEEP));
            } else {
                $seen = $this->sale($sale)['seq'];
            }
        }
    }

    private static function noReservation(string $reservation): NotFound
    {
        return new NotFound("there is no reservation `$reservation`; restore it with its receipt", 'not_found');
    }

    public function restore(string $sale, string $receipt): array
    {
        $content = $this->verified($sale, $receipt);
        $names = array_column($this->specification($sale)['skus'], 0);
        $units = array_map(fn (array $unit) => [array_search($unit[0], $names, true), $unit[1]], $content['u']);
        if (in_array(false, array_column($units, 0), true)) {
            throw self::badReceipt('the receipt has a SKU that the sale does not have');
        }
        $id = hex2bin($content['i']);
        $answer = $this->callSale('sale_restore', $sale, [
            $id,
            $content['b'],
            $content['g'],
            $content['d'],
            self::hasOneNumber($units),
            implode('', array_map(fn (array $range) => pack('nNN', ...$range), self::ranges($units))),
        ]);
        $outcome = Contract::RESTORED[$answer[0]];
        if ($outcome !== 'restored' && $outcome !== 'known') {
            throw $this->refusal($sale, $outcome, $answer);
        }
        $hold = Records::hold($answer[1], $id, $names);
        return $hold + ['replayed' => $outcome === 'known', 'receipt' => $this->receipt($sale, $hold)];
    }

    /** 1 if there are several units of different SKUs, all with the same number. */
    private static function hasOneNumber(array $units): int
    {
        $skus = array_unique(array_column($units, 0));
        $numbers = array_unique(array_column($units, 1));
        return (int) (count($units) > 1 && count($skus) === count($units) && count($numbers) === 1);
    }

    /** Ranges of consecutive numbers of a SKU, in order. */
    private static function ranges(array $units): array
    {
        $ranges = [];
        foreach ($units as [$sku, $number]) {
            $last = array_key_last($ranges);
            if ($last !== null && $ranges[$last][0] === $sku && $ranges[$last][2] === $number - 1) {
                $ranges[$last][2] = $number;
            } else {
                $ranges[] = [$sku, $number, $number];
            }
        }
        return $ranges;
    }

    private function receipt(string $sale, array $hold): string
    {
        $content = [
            's' => $sale,
            'g' => $hold['generation'],
            'q' => $hold['seq'],
            'i' => $hold['id'],
            'b' => $hold['buyer'],
            'u' => array_map(fn (array $unit) => [$unit['sku'], $unit['unit']], $hold['units']),
            'd' => $hold['deadline_us'],
        ];
        $json = json_encode($content, JSON_THROW_ON_ERROR | JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE);
        $encoded = self::base64Url($json);
        return Contract::RECEIPT_PREFIX . "$encoded." . $this->signature($sale, $encoded);
    }

    /** Content of a receipt whose signature is valid for this sale. */
    private function verified(string $sale, string $receipt): array
    {
        if (!preg_match('/^rg1\.([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)$/D', $receipt, $parts)) {
            throw self::badReceipt('the receipt is malformed; pass the full text that `reserve` returned');
        }
        if (!hash_equals($this->signature($sale, $parts[1]), $parts[2])) {
            throw self::badReceipt('the receipt was not signed by this sale');
        }
        $content = json_decode(base64_decode(strtr($parts[1], '-_', '+/')), true);
        return $content['s'] === $sale ? $content : throw self::badReceipt('the receipt is for another sale');
    }

    private static function badReceipt(string $why): RushgateException
    {
        return ErrorCodes::exception('receipt_refused', $why);
    }

    private function signature(string $sale, string $encoded): string
    {
        $secret = hex2bin($this->specification($sale)['secret']);
        return self::base64Url(hash_hmac('sha256', Contract::RECEIPT_DOMAIN . $encoded, $secret, true));
    }

    private static function base64Url(string $bytes): string
    {
        return rtrim(strtr(base64_encode($bytes), '+/', '-_'), '=');
    }

    /** Calls a function of a sale. If the sale was created again under another secret, calls it with that one. */
    private function callSale(string $function, string $sale, array $arguments = []): mixed
    {
        $secret = $this->specification($sale)['secret'];
        $answer = $this->caller->call($function, $sale, [hex2bin($secret), ...$arguments]);
        if ($answer !== Contract::MISSING_STATUS) {
            return $answer;
        }
        unset($this->specifications[$sale]);
        if ($this->specification($sale)['secret'] === $secret) {
            throw new ServerFault("the server has lost the keys of the sale `$sale`; rebuild it", 'corrupt');
        }
        return $this->callSale($function, $sale, $arguments);
    }

    private function specification(string $sale): array
    {
        return $this->specifications[$sale] ??= $this->readSpecification($sale);
    }

    private function readSpecification(string $sale): array
    {
        $home = Caller::key(Contract::HOME_KEYS, $sale, Contract::HOME_KEYS[1][0]);
        $stored = $this->caller->send($home, ['GET', $home]);
        if ($stored === null) {
            throw new NotFound("there is no sale `$sale`", 'not_found');
        }
        return json_decode($stored, true, 512, JSON_THROW_ON_ERROR);
    }
}
