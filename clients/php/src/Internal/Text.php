<?php

declare(strict_types=1);

namespace Rushgate\Internal;

/**
 * Text in UTF-8.
 *
 * @internal
 */
final class Text
{
    /** Replaces invalid bytes, and cuts the text to $max bytes at the boundary of a character. */
    public static function cut(string $text, int $max): string
    {
        $text = json_decode(json_encode($text, JSON_INVALID_UTF8_SUBSTITUTE | JSON_THROW_ON_ERROR));
        if (strlen($text) <= $max) {
            return $text;
        }
        while ($max > 0 && (ord($text[$max]) & 0xc0) === 0x80) {
            $max--;
        }
        return substr($text, 0, $max);
    }

    /** Class and message of an error, and the innermost frames of its trace. */
    public static function ofError(\Throwable $error, int $max): string
    {
        $where = "{$error->getFile()}:{$error->getLine()}";
        $first = $error::class . ': ' . self::cut($error->getMessage(), intdiv($max, 2));
        return self::cut("$first\n$where\n{$error->getTraceAsString()}", $max);
    }
}
