<?php

declare(strict_types=1);

namespace Rushgate;

use Rushgate\Exception\InvalidArgument;
use Rushgate\Exception\Undecodable;
use Rushgate\Internal\Checks;

/** Content of a task or a result: bytes with a content type. At most 1 MiB; a result at most 64 KiB. */
final class Payload
{
    /** The content types that a body has as a single byte. Any other is preceded by its length. */
    private const SHORT_TYPES = [
        Contract::BYTES_CODE => Contract::BYTES_TYPE,
        Contract::JSON_CODE => Contract::JSON_TYPE,
    ];

    private const JSON_FLAGS = JSON_THROW_ON_ERROR | JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_UNICODE
        | JSON_PRESERVE_ZERO_FRACTION;
    private const JSON_TYPE = '~^application/json$|\+json$~iD';
    private const TOKEN = '/^[A-Za-z0-9._-]*$/D';
    private const TRACEPARENT = '/^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/D';

    private function __construct(
        private readonly string $bytes,
        /** Media type, without the kind and the trace. */
        public readonly string $contentType,
        /** Kind of the task, by which a worker selects the handler. */
        public readonly ?string $kind,
        /** W3C trace context of the span that enqueued the task. */
        public readonly ?string $traceparent,
    ) {
    }

    /**
     * A value as JSON.
     *
     * @throws InvalidArgument if the value cannot be encoded, or is too large
     */
    public static function json(mixed $value): self
    {
        try {
            return self::bytes(json_encode($value, self::JSON_FLAGS), 'application/json');
        } catch (\JsonException $error) {
            throw new InvalidArgument("the payload cannot be encoded as JSON: {$error->getMessage()}", 'invalid');
        }
    }

    /**
     * Bytes of any media type.
     *
     * @throws InvalidArgument if they are too large, or the type is malformed
     */
    public static function bytes(string $bytes, string $contentType = 'application/octet-stream'): self
    {
        Checks::range('the size of the payload in bytes', strlen($bytes), 0, Contract::PAYLOAD_BYTES);
        if (!preg_match('~^[!-:<-\~]+/[!-:<-\~]+(;[ -\~]*)?$~D', $contentType)) {
            throw Checks::invalid('the content type', "is `$contentType`; it must be a media type");
        }
        return new self($bytes, $contentType, null, null);
    }

    /** The payload for a value: the value itself if it is a payload, no bytes for null, otherwise JSON. */
    public static function of(mixed $value): self
    {
        return match (true) {
            $value instanceof self => $value,
            $value === null => self::bytes(''),
            default => self::json($value),
        };
    }

    /** The same content with a kind and a trace. */
    public function with(?string $kind, ?string $traceparent): self
    {
        if ($kind !== null) {
            Checks::kind($kind);
        }
        if ($traceparent !== null && !preg_match(self::TRACEPARENT, $traceparent)) {
            throw Checks::invalid('the traceparent', 'is not a W3C traceparent');
        }
        $payload = new self($this->bytes, $this->contentType, $kind, $traceparent);
        Checks::range('the size of the content type', strlen($payload->fullType()), 1, Contract::CONTENT_TYPE_BYTES);
        return $payload;
    }

    /**
     * The value: decoded JSON with objects as arrays, or a string for every other type.
     *
     * @throws Undecodable if the type is JSON and the bytes are not
     */
    public function value(): mixed
    {
        if (!self::isJson($this->contentType)) {
            return $this->bytes;
        }
        try {
            return json_decode($this->bytes, true, 512, JSON_THROW_ON_ERROR);
        } catch (\JsonException $error) {
            throw new Undecodable("the payload is not JSON: {$error->getMessage()}", 'undecodable', [], $error);
        }
    }

    /** The bytes. Over HTTP, JSON may have other white space than the bytes that were enqueued. */
    public function toBytes(): string
    {
        return $this->bytes;
    }

    /**
     * Encodes the payload as a body of the Redis protocol.
     *
     * @internal
     */
    public function toBody(): string
    {
        $type = $this->fullType();
        $short = array_search($type, self::SHORT_TYPES, true);
        return ($short === false ? chr(strlen($type)) . $type : chr($short)) . $this->bytes;
    }

    /**
     * Decodes a body of the Redis protocol.
     *
     * @internal
     */
    public static function fromBody(string $body): self
    {
        $length = ord($body[0]);
        $short = self::SHORT_TYPES[$length] ?? null;
        $bytes = substr($body, $short === null ? 1 + $length : 1);
        return self::typed($short ?? substr($body, 1, $length), $bytes);
    }

    /**
     * The fields of a payload in the HTTP API.
     *
     * @internal
     * @return array<string, string>
     */
    public function toFields(): array
    {
        return array_filter([
            'payload_base64' => base64_encode($this->bytes),
            'content_type' => $this->contentType,
            'kind' => $this->kind,
            'traceparent' => $this->traceparent,
        ], fn (?string $field) => $field !== null);
    }

    /**
     * Reads a payload from the fields of the HTTP API.
     *
     * @internal
     * @param array<string, mixed> $fields
     */
    public static function fromFields(array $fields): self
    {
        $bytes = match (true) {
            isset($fields['payload_base64']) => base64_decode($fields['payload_base64']),
            !array_key_exists('payload', $fields) => '',
            self::isJson($fields['content_type']) => json_encode($fields['payload'], self::JSON_FLAGS),
            default => $fields['payload'],
        };
        return new self($bytes, $fields['content_type'], $fields['kind'] ?? null, $fields['traceparent'] ?? null);
    }

    private static function isJson(string $contentType): bool
    {
        return (bool) preg_match(self::JSON_TYPE, trim(explode(';', $contentType)[0]));
    }

    /** Splits the kind and the trace from a content type. A parameter with an invalid value stays in the type. */
    private static function typed(string $type, string $bytes): self
    {
        preg_match_all('/(?:[^;"]|"[^"]*")+/', $type, $parts);
        [$kept, $known] = [[], ['kind' => null, 'traceparent' => null]];
        foreach ($parts[0] as $part) {
            [$name, $value] = explode('=', $part, 2) + [1 => ''];
            $value = preg_replace('/^"(.*)"$/Ds', '$1', $value);
            $name = strtolower($name);
            $isKnown = match ($name) {
                'kind' => preg_match('~^[A-Za-z0-9._:/-]{1,' . Contract::KIND_BYTES . '}$~D', $value) === 1,
                'traceparent' => preg_match(self::TRACEPARENT, $value) === 1,
                default => false,
            };
            if ($isKnown) {
                $known[$name] ??= $value;
            } else {
                $kept[] = $part;
            }
        }
        return new self($bytes, implode(';', $kept), $known['kind'], $known['traceparent']);
    }

    /** The content type with the kind and the trace as parameters. */
    private function fullType(): string
    {
        $type = $this->contentType;
        foreach (['kind' => $this->kind, 'traceparent' => $this->traceparent] as $name => $value) {
            if ($value !== null) {
                $quote = preg_match(self::TOKEN, $value) ? '' : '"';
                $type .= ";$name=$quote$value$quote";
            }
        }
        return $type;
    }
}
