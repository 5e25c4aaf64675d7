<?php

declare(strict_types=1);

namespace Rushgate\Tests;

use PHPUnit\Framework\TestCase;
use Rushgate\Exception\InvalidArgument;
use Rushgate\Internal\Recurrence;

final class RecurrenceTest extends TestCase
{
    /** @dataProvider occurrences */
    public function testTheNextOccurrenceIsFound(string $cron, string $zone, string $after, string $next): void
    {
        $recurrence = new Recurrence(['cron' => $cron, 'zone' => $zone, 'missed' => 'once']);
        $found = $recurrence->nextAfter(strtotime($after) * 1_000_000);
        self::assertSame($next, gmdate('Y-m-d\TH:i:s\Z', intdiv($found, 1_000_000)));
    }

    public function occurrences(): iterable
    {
        $noon = '2026-11-22T12:00:00Z';
        yield 'fixed time' => ['30 3 * * *', 'UTC', $noon, '2026-11-23T03:30:00Z'];
        yield 'seconds' => ['*/10 * * * * *', 'UTC', $noon, '2026-11-22T12:00:10Z'];
        yield 'nickname' => ['@hourly', 'UTC', $noon, '2026-11-22T13:00:00Z'];
        yield 'zone' => ['30 3 * * *', 'Europe/Berlin', $noon, '2026-11-23T02:30:00Z'];
        yield 'weekday by name' => ['0 9 * * mon-fri', 'UTC', '2026-11-20T10:00:00Z', '2026-11-23T09:00:00Z'];
        yield 'Sunday as 7' => ['0 0 * * 7', 'UTC', $noon, '2026-11-29T00:00:00Z'];
        yield 'list and range' => ['5,10-12 * * * *', 'UTC', '2026-11-22T12:10:30Z', '2026-11-22T12:11:00Z'];
        yield 'leap day' => ['0 0 29 2 *', 'UTC', $noon, '2028-02-29T00:00:00Z'];
        yield 'either kind of day' => ['0 0 1 * mon', 'UTC', $noon, '2026-11-23T00:00:00Z'];
        // Clocks go forward on 2027-03-28, from 2:00 to 3:00, and back on 2027-10-31, from 3:00 to 2:00.
        $berlin = 'Europe/Berlin';
        yield 'skipped' => ['30 2 * * *', $berlin, '2027-03-27T12:00:00Z', '2027-03-28T01:00:00Z'];
        yield 'after a skipped one' => ['30 2 * * *', $berlin, '2027-03-28T01:00:00Z', '2027-03-29T00:30:00Z'];
        yield 'repeated' => ['30 2 * * *', $berlin, '2027-10-30T12:00:00Z', '2027-10-31T00:30:00Z'];
        yield 'once' => ['30 2 * * *', $berlin, '2027-10-31T00:30:00Z', '2027-11-01T01:30:00Z'];
        yield 'a list is skipped' => ['*/30 2 * * *', $berlin, '2027-03-27T12:00:00Z', '2027-03-29T00:00:00Z'];
        yield 'a list is repeated' => ['0 2,4 * * *', $berlin, '2027-10-31T00:00:00Z', '2027-10-31T01:00:00Z'];
        yield 'month by name' => ['0 0 1 mar *', 'UTC', $noon, '2027-03-01T00:00:00Z'];
    }

    public function testAnIntervalCountsFrom1970(): void
    {
        $recurrence = new Recurrence(['every_ms' => 60_000, 'missed' => 'all']);
        self::assertSame(120_000_000, $recurrence->nextAfter(60_000_000));
        self::assertSame(120_000_000, $recurrence->nextAfter(119_999_999));
        self::assertSame('{"every_ms":60000,"missed":"all"}', $recurrence->toJson());
    }

    public function testMissedOccurrencesFollowThePolicyOfTheSchedule(): void
    {
        $hour = 3_600_000_000;
        [$first, $late] = [strtotime('2026-11-22T09:00:00Z') * 1_000_000, strtotime('2026-11-22T12:30:00Z') * 1_000_000];
        $due = fn (string $missed, int $now) => (new Recurrence(['cron' => '0 * * * *', 'missed' => $missed]))
            ->due($first, $now, 1_000);
        self::assertSame([[], $first + 4 * $hour], $due('skip', $late));
        self::assertSame([[$first + 3 * $hour], $first + 4 * $hour], $due('once', $late));
        $all = [$first, $first + $hour, $first + 2 * $hour, $first + 3 * $hour];
        self::assertSame([$all, $first + 4 * $hour], $due('all', $late));
        foreach (['skip', 'once', 'all'] as $missed) {
            self::assertSame([[$first], $first + $hour], $due($missed, $first + 2_000_000));
        }
        $each = new Recurrence(['every_ms' => 1_000, 'missed' => 'all']);
        self::assertSame([[$first, $first + 1_000_000], $first + 2_000_000], $each->due($first, $late, 2));
        self::assertSame('2026-11-22T09:00:00Z', Recurrence::written($first));
        self::assertSame('2026-11-22T09:00:00.5Z', Recurrence::written($first + 500_000));
        self::assertSame('2026-11-22T09:00:10Z', Recurrence::written($first + 10_000_000));
    }

    /** @dataProvider wrongPatterns */
    public function testAPatternThatNamesNoTimeIsRefused(array $fields): void
    {
        $this->expectException(InvalidArgument::class);
        (new Recurrence($fields + ['missed' => 'once']))->nextAfter(0);
    }

    public function wrongPatterns(): iterable
    {
        yield 'empty' => [['cron' => '']];
        yield 'few fields' => [['cron' => '* * *']];
        yield 'out of range' => [['cron' => '61 * * * *']];
        yield 'never' => [['cron' => '0 0 31 2 *']];
        yield 'words' => [['cron' => 'soon or late at some time']];
        yield 'unknown zone' => [['cron' => '@hourly', 'zone' => 'Europe/Nowhere']];
        yield 'interval with zone' => [['every_ms' => 1_000, 'zone' => 'UTC']];
        yield 'nothing' => [[]];
        yield 'pattern that is no text' => [['cron' => 5]];
        yield 'zone that is no text' => [['cron' => '@hourly', 'zone' => 5]];
        yield 'interval that is no number' => [['every_ms' => '1000']];
        yield 'short interval' => [['every_ms' => 0]];
        yield 'unknown policy' => [['every_ms' => 1_000, 'missed' => 'never']];
    }
}
