<?php

declare(strict_types=1);

namespace Rushgate\Redis;

/**
 * Reads a packed record from its beginning.
 *
 * @internal
 */
final class Packed
{
    private int $at = 0;

    public function __construct(private readonly string $bytes)
    {
    }

    /**
     * Reads big-endian integers.
     *
     * @param array<string, int> $sizes size in bytes of each field
     * @return array<string, int>
     */
    public function numbers(array $sizes): array
    {
        return array_map($this->number(...), $sizes);
    }

    public function number(int $size): int
    {
        $number = 0;
        foreach (unpack('C*', $this->take($size)) as $byte) {
            $number = $number << 8 | $byte;
        }
        return $number;
    }

    /** Reads bytes that are preceded by their length. */
    public function sized(int $lengthSize): string
    {
        return $this->take($this->number($lengthSize));
    }

    public function take(int $length): string
    {
        if ($this->at + $length > strlen($this->bytes)) {
            throw new \UnexpectedValueException('the store answered a record that is too short');
        }
        $taken = substr($this->bytes, $this->at, $length);
        $this->at += $length;
        return $taken;
    }

    public function rest(): string
    {
        return $this->take(strlen($this->bytes) - $this->at);
    }

    public function isEmpty(): bool
    {
        return $this->at === strlen($this->bytes);
    }
}
