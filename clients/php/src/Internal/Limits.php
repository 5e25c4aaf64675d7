<?php

declare(strict_types=1);

namespace Rushgate\Internal;

use Rushgate\Contract;

/**
 * Checks the limits of a queue.
 *
 * @internal
 */
final class Limits
{
    private const PERIOD = ['min' => 1, 'max' => Contract::DELAY_US['max'] / 1_000];
    private const RATE = ['n' => Contract::RATE, 'per_ms' => self::PERIOD];
    /** Lowest and highest value of each number, by field. */
    private const FIELDS = [
        'bound' => Contract::BOUND,
        'concurrency' => Contract::CONCURRENCY,
        'rate' => self::RATE,
        'per_key' => ['concurrency' => Contract::CONCURRENCY, 'rate' => self::RATE],
        'retention' => ['age_ms' => self::PERIOD, 'count' => Contract::RETAINED],
        'events' => Contract::EVENTS,
    ];

    /** @param array<string, mixed> $limits */
    public static function check(array $limits): void
    {
        Checks::word('the overflow policy', $limits['overflow'] ?? 'refuse', Contract::OVERFLOW);
        unset($limits['overflow'], $limits['per_key']['fifo']);
        self::checkFields('the limits', $limits, self::FIELDS);
        foreach (['rate' => self::RATE, 'retention' => self::FIELDS['retention']] as $field => $parts) {
            self::checkComplete($field, $limits[$field] ?? null, $parts);
        }
        self::checkComplete('per_key.rate', $limits['per_key']['rate'] ?? null, self::RATE);
    }

    private static function checkFields(string $where, array $values, array $fields): void
    {
        foreach ($values as $name => $value) {
            $range = $fields[$name] ?? throw Checks::invalid($where, "have the unknown field `$name`");
            if ($value === null) {
                continue;
            }
            if (isset($range['min'])) {
                is_int($value) || throw Checks::invalid("the limit `$name`", 'must be a whole number');
                Checks::range("the limit `$name`", $value, ...$range);
            } else {
                is_array($value) || throw Checks::invalid("the limit `$name`", 'must be an array');
                self::checkFields("the limits `$name`", $value, $range);
            }
        }
    }

    /** A rate and a retention need both of their numbers. */
    private static function checkComplete(string $field, ?array $values, array $parts): void
    {
        if ($values !== null && array_diff_key($parts, array_filter($values)) !== []) {
            throw Checks::invalid("the limit `$field`", 'needs the fields ' . implode(' and ', array_keys($parts)));
        }
    }
}
