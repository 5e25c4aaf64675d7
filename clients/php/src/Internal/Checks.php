<?php

declare(strict_types=1);

namespace Rushgate\Internal;

use Rushgate\Contract;
use Rushgate\Exception\InvalidArgument;

/**
 * Checks of arguments before a call is sent.
 *
 * @internal
 */
final class Checks
{
    /** The name in Unicode Normalization Form C. Names that are not ASCII need the extension intl. */
    public static function name(string $what, string $name, int $max = Contract::NAME_BYTES): string
    {
        if (preg_match('/[^\x00-\x7f]/', $name)) {
            $name = self::normalized($what, $name);
        }
        if ($name === '' || strlen($name) > $max) {
            throw self::invalid($what, 'has ' . strlen($name) . " bytes; it must have 1 to $max");
        }
        if ($name === '.' || $name === '..') {
            throw self::invalid($what, "is `$name`, which is reserved in URLs");
        }
        if (preg_match(self::forbidden(), $name)) {
            throw self::invalid($what, 'contains white space, a control or invisible character, or a brace');
        }
        return $name;
    }

    /** Pattern of the characters that names may not contain: white space, control and invisible characters, and braces. */
    private static function forbidden(): string
    {
        static $pattern = null;
        $range = fn (array $range): string => vsprintf('\x{%x}-\x{%x}', $range);
        return $pattern ??= '/[\s\p{Z}\p{Cc}{}' . implode('', array_map($range, Contract::INVISIBLE)) . ']/u';
    }

    private static function normalized(string $what, string $name): string
    {
        if (!preg_match('//u', $name)) {
            throw self::invalid($what, 'is not valid UTF-8');
        }
        if (!class_exists(\Normalizer::class)) {
            throw self::invalid($what, 'is not ASCII, which needs the PHP extension intl');
        }
        return \Normalizer::normalize($name, \Normalizer::FORM_C)
            ?: throw self::invalid($what, 'cannot be normalized');
    }

    public static function label(string $what, string $text): string
    {
        if (strlen($text) > Contract::LABEL_BYTES) {
            throw self::invalid($what, 'has ' . strlen($text) . ' bytes; it must have at most ' . Contract::LABEL_BYTES);
        }
        if (!preg_match('/^\P{Cc}*$/Du', $text)) {
            throw self::invalid($what, 'contains a control character or is not valid UTF-8');
        }
        return $text;
    }

    public static function kind(string $kind): string
    {
        if (!preg_match('~^[A-Za-z0-9._:/-]{1,' . Contract::KIND_BYTES . '}$~D', $kind)) {
            throw self::invalid('the kind', 'must be 1 to ' . Contract::KIND_BYTES . ' of A-Z, a-z, 0-9 and . _ : / -');
        }
        return $kind;
    }

    public static function range(string $what, int $number, int $min, int $max): int
    {
        if ($number < $min || $number > $max) {
            throw self::invalid($what, "is $number; it must be $min to $max");
        }
        return $number;
    }

    /** A duration in seconds, whose limits are in µs. */
    public static function duration(string $what, int|float $seconds, int $min, int $max): float
    {
        if (!is_finite($seconds) || $seconds * 1e6 < $min || $seconds * 1e6 > $max) {
            throw self::invalid($what, "is $seconds s; it must be " . $min / 1e6 . ' to ' . $max / 1e6 . ' s');
        }
        return (float) $seconds;
    }

    public static function lease(int|float $seconds): float
    {
        return self::duration('the lease', $seconds, ...Contract::LEASE_US);
    }

    public static function wait(int|float $seconds): float
    {
        return self::duration('the wait', $seconds, ...Contract::WAIT_US);
    }

    public static function delay(string $what, int|float $seconds): float
    {
        return self::duration($what, $seconds, ...Contract::DELAY_US);
    }

    public static function period(string $what, int|float $seconds): float
    {
        return self::duration($what, $seconds, ...Contract::PERIOD_US);
    }

    /** @param array<mixed> $items */
    public static function batch(string $what, array $items): void
    {
        self::range("the number of $what", count($items), ...Contract::BATCH);
    }

    /** @param list<string> $words */
    public static function word(string $what, string $word, array $words): string
    {
        if (!in_array($word, $words, true)) {
            throw self::invalid($what, "is `$word`; it must be one of " . implode(', ', $words));
        }
        return $word;
    }

    public static function invalid(string $what, string $why): InvalidArgument
    {
        return new InvalidArgument("$what $why", 'invalid');
    }
}
