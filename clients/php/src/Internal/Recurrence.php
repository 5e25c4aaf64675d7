<?php

declare(strict_types=1);

namespace Rushgate\Internal;

use Rushgate\Contract;

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
    /** Maximum payload size of one step of a schedule, unless a single task exceeds it. */
    public const STEP_BYTES = 4 << 20;
    private const NICKNAMES = [
        '@yearly' => '0 0 1 1 *', '@annually' => '0 0 1 1 *', '@monthly' => '0 0 1 * *', '@weekly' => '0 0 * * 0',
        '@daily' => '0 0 * * *', '@midnight' => '0 0 * * *', '@hourly' => '0 * * * *',
    ];
    /** Lowest and highest value of seconds, minutes, hours, days, months and weekdays. */
    private const RANGES = [[0, 59], [0, 59], [0, 23], [1, 31], [1, 12], [0, 7]];
    private const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];
    private const WEEKDAYS = ['sun', 'mon', 'tue', 'wed', 'thu', 'fri', 'sat'];
    /** How many occurrences a schedule lists. */
    private const LISTED = 5;
    private const YEARS = 8;
    /** How late an occurrence may be noticed before it counts as missed, in µs. */
    private const LATE = 60_000_000;
    /** Longest time in seconds that clocks skip or repeat. */
    private const CHANGE_MAX = 86_400;

    /** @param array{cron?: string, zone?: string, every_ms?: int, missed: string} $fields */
    public function __construct(private readonly array $fields)
    {
        Checks::word('the policy for missed occurrences', $fields['missed'], Contract::MISSED);
        if (!is_string($fields['cron'] ?? '') || !is_string($fields['zone'] ?? '') || !is_int($fields['every_ms'] ?? 0)) {
            throw Checks::invalid('the schedule', 'has a field of the wrong type');
        }
        Checks::duration('the interval', ($fields['every_ms'] ?? 1_000) / 1_000, ...Contract::INTERVAL_US);
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

    /**
     * The next occurrences of a schedule, from $first on, in µs. Of a recurrence that cannot be read, only $first.
     *
     * @return non-empty-list<int>
     */
    public static function upcoming(mixed $recurrence, int $first): array
    {
        $moments = [$first];
        try {
            $recurrence = new self((array) $recurrence + ['missed' => 'once']);
            while (count($moments) < self::LISTED) {
                $moments[] = $recurrence->nextAfter(end($moments));
            }
        } catch (\Throwable) {
            // Another program may have written any recurrence.
        }
        return $moments;
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

    /**
     * What a schedule does now whose next occurrence is $first, all in µs. At most $most runs; the rest is due again at once.
     *
     * @return array{list<int>, int} occurrences to enqueue tasks for, and the next one
     */
    public function due(int $first, int $now, int $most): array
    {
        $missed = $this->fields['missed'];
        if ($missed === 'all') {
            $runs = [$first];
            $next = $this->nextAfter($first);
            while ($next <= $now && count($runs) < $most) {
                $runs[] = $next;
                $next = $this->nextAfter($next);
            }
            return [$runs, $next];
        }
        $latest = $this->latestUntil($first, $now);
        $counts = $missed === 'once' || $now - $latest <= self::LATE;
        return [$counts ? [$latest] : [], $this->nextAfter($now)];
    }

    /** The latest occurrence at or before $now, where $first is an earlier one, in µs. */
    private function latestUntil(int $first, int $now): int
    {
        // The latest one is after $low, and none is after $high, in ms.
        [$low, $high] = [intdiv($first, 1_000), intdiv($now, 1_000)];
        while ($low < $high) {
            $middle = intdiv($low + $high, 2);
            if ($this->nextAfter($middle * 1_000) <= $now) {
                $low = $middle + 1;
            } else {
                $high = $middle;
            }
        }
        return max($first, $low * 1_000);
    }

    /** A moment in µs as in the IDs of tasks: `2026-11-22T03:30:00Z`. */
    public static function written(int $us): string
    {
        $fraction = rtrim(sprintf('.%06d', $us % 1_000_000), '.0');
        return gmdate('Y-m-d\TH:i:s', intdiv($us, 1_000_000)) . $fraction . 'Z';
    }

    /**
     * First matching second after $second, as a Unix time.
     *
     * A fixed time, which has one hour, minute and second, moves to the next time that exists if the clocks skip it, and
     * occurs once if they repeat it. Other times follow the local clock.
     */
    private function nextMatch(int $second): int
    {
        $sets = $this->parse();
        $isFixed = max(array_map(count(...), array_slice($sets, 0, 3))) === 1;
        $found = $isFixed ? $this->nextFixed($second, $sets) : $this->nextByClock($second, $sets);
        return $found ?? throw Checks::invalid('the cron pattern', 'never matches');
    }

    private function nextFixed(int $second, array $sets): ?int
    {
        $zone = $this->zone();
        $time = vsprintf('%02d:%02d:%02d', array_map(array_key_first(...), [$sets[2], $sets[1], $sets[0]]));
        // A day of the calendar, without the clocks of the zone.
        $day = new \DateTimeImmutable(self::at($second, $zone)->format('Y-m-d'), new \DateTimeZone('UTC'));
        for ($last = $day->modify('+' . self::YEARS . ' years'); $day <= $last; $day = $day->modify('+1 day')) {
            if (!self::isDay($day, $sets)) {
                continue;
            }
            $found = self::existing($day->format('Y-m-d') . " $time", $zone);
            if ($found > $second && self::isDay(self::at($found, $zone), $sets)) {
                return $found;
            }
        }
        return null;
    }

    /** The moment of a local time: the first if it is repeated, and the end of the gap if it is skipped. */
    private static function existing(string $local, \DateTimeZone $zone): int
    {
        $found = (new \DateTimeImmutable($local, $zone))->getTimestamp();
        $changes = $zone->getTransitions($found - self::CHANGE_MAX, $found + self::CHANGE_MAX) ?: [];
        for ($at = 1; $at < count($changes); $at++) {
            [$change, $before, $after] = [$changes[$at]['ts'], $changes[$at - 1]['offset'], $changes[$at]['offset']];
            $civil = strtotime("$local UTC");
            if ($civil - $before >= $change && $civil - $after < $change) {
                return $change;
            }
            if ($civil - $before < $change && $civil - $after >= $change) {
                return $civil - $before;
            }
        }
        return $found;
    }

    private function nextByClock(int $second, array $sets): ?int
    {
        [$seconds, $minutes, $hours] = $sets;
        $at = self::at($second + 1, $this->zone());
        $last = (int) $at->format('Y') + self::YEARS;
        while ((int) $at->format('Y') <= $last) {
            [$hour, $minute, $sec] = array_map('intval', explode(' ', $at->format('G i s')));
            if (!isset($sets[4][(int) $at->format('n')])) {
                $at = $at->modify('first day of next month')->setTime(0, 0);
            } elseif (!self::isDay($at, $sets)) {
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
        return null;
    }

    private static function isDay(\DateTimeImmutable $at, array $sets): bool
    {
        [, , , $days, $months, $weekdays, $bothDays] = $sets;
        [$month, $day, $weekday] = array_map('intval', explode(' ', $at->format('n j w')));
        $byDay = isset($days[$day]);
        $byWeekday = isset($weekdays[$weekday]);
        return isset($months[$month]) && ($bothDays ? $byDay || $byWeekday : $byDay && $byWeekday);
    }

    private static function at(int $second, \DateTimeZone $zone): \DateTimeImmutable
    {
        return (new \DateTimeImmutable("@$second"))->setTimezone($zone);
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
