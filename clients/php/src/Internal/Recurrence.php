<?php

declare(strict_types=1);

namespace Rushgate\Internal;

/**
 * When a schedule fires: a cron pattern in a time zone, or an interval.
 *
 * Patterns have five fields, or six with seconds in front: numbers, names, lists, ranges and steps. Nicknames such as
 * `@daily` work too. Other extensions, such as `L`, are known to the server only.
 *
 * @internal
 */
final class Recurrence
{
    private const NICKNAMES = [
        '@yearly' => '0 0 1 1 *', '@annually' => '0 0 1 1 *', '@monthly' => '0 0 1 * *', '@weekly' => '0 0 * * 0',
        '@daily' => '0 0 * * *', '@midnight' => '0 0 * * *', '@hourly' => '0 * * * *',
    ];
    /** Lowest and highest value of seconds, minutes, hours, days, months and weekdays. */
    private const RANGES = [[0, 59], [0, 59], [0, 23], [1, 31], [1, 12], [0, 7]];
    private const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];
    private const WEEKDAYS = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'];
    private const YEARS = 8;

    /** @param array{cron?: string, zone?: string, every_ms?: int, missed: string} $fields */
    public function __construct(private readonly array $fields)
    {
        Checks::word('the policy for missed occurrences', $fields['missed'], ['skip' => 1, 'once' => 1, 'all' => 1]);
        if (isset($fields['cron']) === isset($fields['every_ms'])) {
            throw Checks::invalid('the schedule', 'needs a cron pattern or an interval');
        }
        if (isset($fields['every_ms'], $fields['zone'])) {
            throw Checks::invalid('the interval', 'cannot have a time zone');
        }
    }

    /** The fields as JSON, in the form that all clients write. */
    public function toJson(): string
    {
        $order = ['cron', 'zone', 'every_ms', 'missed'];
        $fields = array_intersect_key(array_replace(array_flip($order), $this->fields), $this->fields);
        return json_encode($fields, JSON_THROW_ON_ERROR | JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE);
    }

    /** First occurrence after a moment, in µs. */
    public function nextAfter(int $us): int
    {
        if (isset($this->fields['every_ms'])) {
            $every = $this->fields['every_ms'] * 1_000;
            return (intdiv($us, $every) + 1) * $every;
        }
        return $this->nextMatch(intdiv($us, 1_000_000)) * 1_000_000;
    }

    /** First matching second after $second, as a Unix time. */
    private function nextMatch(int $second): int
    {
        [$seconds, $minutes, $hours, $days, $months, $weekdays, $bothDays] = $this->parse();
        $zone = $this->zone();
        $at = (new \DateTimeImmutable('@' . $second + 1))->setTimezone($zone);
        $last = (int) $at->format('Y') + self::YEARS;
        while ((int) $at->format('Y') <= $last) {
            $parts = explode(' ', $at->format('n j w G i s'));
            [$month, $day, $weekday, $hour, $minute, $sec] = array_map('intval', $parts);
            $isDay = $bothDays
                ? isset($days[$day]) || isset($weekdays[$weekday])
                : isset($days[$day]) && isset($weekdays[$weekday]);
            if (!isset($months[$month])) {
                $at = $at->modify('first day of next month')->setTime(0, 0);
            } elseif (!$isDay) {
                $at = $at->modify('+1 day')->setTime(0, 0);
            } elseif (!isset($hours[$hour])) {
                $at = self::later($at, 3600 - $minute * 60 - $sec);
            } elseif (!isset($minutes[$minute])) {
                $at = self::later($at, 60 - $sec);
            } elseif (!isset($seconds[$sec])) {
                $at = self::later($at, 1);
            } else {
                return $at->getTimestamp();
            }
        }
        throw Checks::invalid('the cron pattern', 'never matches');
    }

    private static function later(\DateTimeImmutable $at, int $seconds): \DateTimeImmutable
    {
        return $at->setTimestamp($at->getTimestamp() + $seconds);
    }

    private function zone(): \DateTimeZone
    {
        $zone = $this->fields['zone'] ?? 'UTC';
        try {
            return new \DateTimeZone($zone);
        } catch (\Exception) {
            throw Checks::invalid('the time zone', "`$zone` is unknown; use a name such as `Europe/Berlin`");
        }
    }

    /** Sets of seconds, minutes, hours, days, months and weekdays, and whether one of the two kinds of days suffices. */
    private function parse(): array
    {
        $pattern = self::NICKNAMES[$this->fields['cron']] ?? $this->fields['cron'];
        $fields = preg_split('/\s+/', trim($pattern));
        if (count($fields) === 5) {
            array_unshift($fields, '0');
        }
        if (count($fields) !== 6) {
            throw Checks::invalid('the cron pattern', "`$pattern` must have five or six fields");
        }
        $sets = array_map(self::field(...), $fields, self::RANGES, array_keys(self::RANGES));
        if (isset($sets[5][7])) {
            $sets[5][0] = true;
        }
        $sets[] = $fields[3] !== '*' && $fields[5] !== '*';
        return $sets;
    }

    /** @param array{int, int} $range */
    private static function field(string $field, array $range, int $position): array
    {
        $names = [4 => array_combine(self::MONTHS, range(1, 12)), 5 => array_flip(self::WEEKDAYS)][$position] ?? [];
        $field = strtr(strtolower($field), array_map('strval', $names));
        $set = [];
        foreach (explode(',', $field) as $part) {
            if (!preg_match('~^(?:\*|(\d{1,2})(?:-(\d{1,2}))?)(?:/(\d{1,2}))?$~D', $part, $found)) {
                throw Checks::invalid('the cron pattern', "has the unknown field `$part`");
            }
            [$first, $last, $step] = [$found[1] ?? '', $found[2] ?? '', $found[3] ?? ''];
            $low = $first === '' ? $range[0] : (int) $first;
            $high = match (true) {
                $last !== '' => (int) $last,
                $first !== '' && $step === '' => $low,
                default => $range[1],
            };
            if ($low < $range[0] || $high > $range[1] || $low > $high || $step === '0') {
                throw Checks::invalid('the cron pattern', "has the field `$part`, which is out of range");
            }
            $set += array_fill_keys(range($low, $high, $step === '' ? 1 : (int) $step), true);
        }
        return $set;
    }
}
