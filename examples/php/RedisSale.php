<?php

declare(strict_types=1);

require_once __DIR__ . '/Rushgate.php';

/**
 * A sale of numbered units. It never oversells, however many programs sell at the same time.
 *
 * Create it with `rushgate sale create`, and audit it with `rushgate sale audit`.
 */
final class RedisSale
{
    private const RESERVED = [
        1 => 'reserved', 'replayed', 'key_reused', 'sold_out', 'all_held', 'limit_reached', 'not_open', 'ended', 'no_such_sku',
        'halted',
    ];
    private const DECIDED = ['unknown', 'done', 'pending', 'refused', 'halted'];
    private const STATES = ['held', 'confirming', 'cancelling', 'expiring', 'confirmed', 'cancelled', 'expired', 'rejected'];
    private const HOLD = ['state' => 1, 'deadline' => 7, 'event' => 6, 'generation' => 4, 'lines' => 2, 'buyer' => 1];
    private const RANGE = ['sku' => 2, 'first' => 4, 'last' => 4];

    private readonly Rushgate $rushgate;
    private readonly string $id;
    /** Specification of the sale, which never changes. */
    private array $spec;

    public function __construct(Redis|RedisCluster $redis, string $id)
    {
        $this->id = Rushgate::nfc($id);
        $this->rushgate = new Rushgate($redis);
        $this->read();
    }

    /**
     * Reserves units, all or nothing.
     *
     * @param string $key idempotency key of the attempt: repeating the call returns the same answer and reserves nothing more
     * @param array<string, int> $cart quantity per SKU
     * @param bool $same requires the same unit number for every SKU, such as one seat on several segments of a journey
     * @return array `outcome`; with `reserved` and `replayed` also `reservation`, `units`, `state` and `deadlineUs`;
     *     with `halted`, while the sale is halted, `retryAtUs`
     */
    public function reserve(string $buyer, string $key, array $cart, bool $same = false): array
    {
        $names = array_column($this->spec['skus'], 0);
        $arguments = [Rushgate::nfc($key), Rushgate::nfc($buyer), (int) $same];
        foreach ($cart as $sku => $quantity) {
            $number = array_search(Rushgate::nfc($sku), $names, true);
            array_push($arguments, $number === false ? -1 : $number, $quantity);
        }
        $answer = $this->call('reserve_by_key', $arguments);
        $outcome = Rushgate::meaning(self::RESERVED, $answer[0]);
        return ['outcome' => $outcome] + match ($outcome) {
            'reserved', 'replayed' => ['reservation' => bin2hex($answer[2])] + $this->hold($answer[1]),
            'halted' => ['retryAtUs' => $answer[1]],
            default => [],
        };
    }

    /** Confirms a hold after payment. `refused`: refund the payment. `halted`: not decided yet, retry. */
    public function confirm(string $reservation): string
    {
        return $this->decide('confirm', $reservation);
    }

    /** Cancels a hold. `halted`: not decided yet, retry. */
    public function cancel(string $reservation): string
    {
        return $this->decide('cancel_hold', $reservation);
    }

    private function decide(string $verb, string $reservation): string
    {
        [[$outcome]] = $this->call($verb, [hex2bin($reservation)]);
        return Rushgate::meaning(self::DECIDED, $outcome);
    }

    private function call(string $verb, array $arguments): array
    {
        while (true) {
            $secret = $this->spec['secret'];
            $answer = $this->rushgate->call("sale_$verb", Rushgate::saleKeys($this->id), [hex2bin($secret), ...$arguments]);
            if ($answer !== 'MISSING') {
                return $answer;
            }
            $this->read();
            if ($this->spec['secret'] === $secret) {
                throw new RuntimeException("the keys of the sale `$this->id` are missing");
            }
        }
    }

    private function read(): void
    {
        $key = "rg:{s:$this->id}:home";
        $home = $this->rushgate->send($key, ['GET', $key]);
        $this->spec = $home ? json_decode($home, true, 512, JSON_THROW_ON_ERROR)
            : throw new RuntimeException("there is no sale `$this->id`");
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
        $state = Rushgate::meaning(self::STATES, $hold['state']);
        return ['units' => $units, 'state' => $state, 'deadlineUs' => $hold['deadline']];
    }
}
