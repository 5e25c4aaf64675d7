<?php

declare(strict_types=1);

require_once __DIR__ . '/Rushgate.php';

/**
 * A sale of numbered units: exactly as many are sold as there are, whatever else sells them at the same time.
 *
 * `rushgate sale create` makes one, `rushgate sale audit` proves it.
 */
final class RedisSale
{
    private const OUTCOMES = [
        1 => 'reserved', 'replayed', 'key_reused', 'sold_out', 'all_held', 'limit_reached', 'not_open', 'ended', 'no_such_sku',
    ];
    private const DECISIONS = ['unknown', 'done', 'pending', 'refused'];
    private const STATES = ['held', 'confirming', 'cancelling', 'expiring', 'confirmed', 'cancelled', 'expired', 'rejected'];
    private const HOLD = ['state' => 1, 'deadline' => 7, 'event' => 6, 'generation' => 4, 'lines' => 2, 'buyer' => 1];
    private const RANGE = ['sku' => 2, 'first' => 4, 'last' => 4];

    private readonly Rushgate $rushgate;
    /** The specification, which never changes. */
    private array $spec;

    public function __construct(Redis $redis, private readonly string $id)
    {
        $this->rushgate = new Rushgate($redis);
        $this->read();
    }

    /**
     * Asks for units, all or nothing.
     *
     * @param string $key the buyer's name for this attempt: sent again, it gives the same answer and no second unit
     * @param array<string, int> $cart how many of which SKU
     * @param bool $same the same number of every SKU: one seat over several segments of a journey
     * @return array `outcome`; with `reserved` and `replayed` also `reservation`, `units`, `state` and `deadlineUs`
     */
    public function reserve(string $buyer, string $key, array $cart, bool $same = false): array
    {
        $names = array_column($this->spec['skus'], 0);
        $arguments = [$key, $buyer, (int) $same];
        foreach ($cart as $sku => $quantity) {
            $number = array_search((string) $sku, $names, true);
            array_push($arguments, $number === false ? -1 : $number, $quantity);
        }
        $answer = $this->call('reserve_by_key', $arguments);
        $hold = $answer[0] <= 2 ? ['reservation' => bin2hex($answer[2])] + $this->hold($answer[1]) : [];
        return ['outcome' => self::OUTCOMES[$answer[0]]] + $hold;
    }

    /** The hold is paid for. `refused` means that the payment must be given back. */
    public function confirm(string $reservation): string
    {
        return self::DECISIONS[$this->call('confirm', [hex2bin($reservation)])[0][0]];
    }

    /** The buyer does not want it any more. */
    public function cancel(string $reservation): string
    {
        return self::DECISIONS[$this->call('cancel_hold', [hex2bin($reservation)])[0][0]];
    }

    private function call(string $verb, array $arguments): array
    {
        while (true) {
            $orders = $this->spec['orders'];
            $keys = [...Rushgate::saleKeys($this->id, $orders), ...($orders === null ? [] : Rushgate::queueKeys($orders))];
            $answer = $this->rushgate->call("sale_$verb", $keys, [hex2bin($this->spec['secret']), ...$arguments]);
            if ($answer !== 'MISSING') {
                return $answer;
            }
            $this->read();
            $this->make();
        }
    }

    private function read(): void
    {
        $home = $this->rushgate->send(['GET', "rg:{s:$this->id}:home"]);
        $this->spec = $home ? json_decode($home, true, 512, JSON_THROW_ON_ERROR)
            : throw new RuntimeException("there is no sale `$this->id`");
    }

    /** Whoever entered the sale did not come to make it. */
    private function make(): void
    {
        $spec = $this->spec;
        $arguments = [
            hex2bin($spec['secret']), $spec['hold_us'], (string) $spec['opens_us'], (string) $spec['closes_us'],
            (int) ($spec['orders'] !== null), json_encode($this->id),
        ];
        foreach ($spec['skus'] as [$sku, $units, $perBuyer]) {
            array_push($arguments, $units, $perBuyer, json_encode($sku));
        }
        $this->rushgate->call('sale_create', Rushgate::saleKeys($this->id, $spec['orders']), $arguments);
    }

    private function hold(string $packed): array
    {
        $hold = Rushgate::unpack($packed, self::HOLD);
        $units = [];
        foreach (str_split(substr($hold['rest'], $hold['buyer'] + $hold['lines']), 10) as $range) {
            ['sku' => $sku, 'first' => $first, 'last' => $last] = Rushgate::unpack($range, self::RANGE);
            foreach (range($first, $last) as $unit) {
                $units[] = [$this->spec['skus'][$sku][0], $unit];
            }
        }
        return ['units' => $units, 'state' => self::STATES[$hold['state']], 'deadlineUs' => $hold['deadline']];
    }
}
