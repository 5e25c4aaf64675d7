package dev.rushgate.internal;

import dev.rushgate.Contract;
import dev.rushgate.Contract.Range;
import dev.rushgate.InvalidException;
import dev.rushgate.RushgateException.Details;
import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.text.Normalizer;
import java.time.DateTimeException;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneId;
import java.util.List;
import java.util.Locale;
import java.util.regex.Pattern;

/** Checks arguments against the limits of the protocol, before anything is sent. */
public final class Check {
    private static final Pattern FORBIDDEN_IN_NAMES = Pattern.compile("[\\p{IsWhite_Space}\\p{Cc}{}]");
    private static final Pattern CONTROL = Pattern.compile("\\p{Cc}");
    private static final Pattern KIND = Pattern.compile("[A-Za-z0-9._:/-]{1," + Contract.KIND_BYTES + "}");
    private static final Pattern VISIBLE_ASCII = Pattern.compile("[!-~]+");
    private static final Pattern TRACEPARENT =
            Pattern.compile("(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}");
    private static final Pattern RESERVATION = Pattern.compile("[0-9a-f]{" + 2 * Contract.RESERVATION_BYTES + "}");

    private Check() {}

    /** An error about an argument. */
    public static InvalidException invalid(String field, String why) {
        return invalid(field, why, null);
    }

    /** An error about an argument, with its cause. */
    public static InvalidException invalid(String field, String why, Throwable cause) {
        return new InvalidException(field + " " + why + ".", new Details(field, null, null, cause));
    }

    /** Refuses null. */
    public static <T> T present(String field, T value) {
        if (value == null) {
            throw invalid(field, "is missing");
        }
        return value;
    }

    /** Text as UTF-8. Refuses lone surrogates. */
    public static byte[] utf8(String field, String text) {
        try {
            ByteBuffer bytes = StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(present(field, text)));
            byte[] copy = new byte[bytes.remaining()];
            bytes.get(copy);
            return copy;
        } catch (CharacterCodingException cause) {
            throw invalid(field, "is not valid Unicode", cause);
        }
    }

    /** A name in Normalization Form C. */
    public static String name(String field, String value) {
        return name(field, value, Contract.NAME_BYTES);
    }

    /** A name in Normalization Form C, of at most {@code maxBytes} bytes. */
    public static String name(String field, String value, int maxBytes) {
        String text = Normalizer.normalize(present(field, value), Normalizer.Form.NFC);
        int length = utf8(field, text).length;
        if (length < 1 || length > maxBytes) {
            throw invalid(field, "has " + length + " bytes; it must have 1 to " + maxBytes);
        }
        if (text.equals(".") || text.equals("..")) {
            throw invalid(field, "is `" + text + "`, which is reserved in URLs");
        }
        if (FORBIDDEN_IN_NAMES.matcher(text).find() || text.codePoints().anyMatch(Check::isInvisible)) {
            throw invalid(field, "contains white space, a brace, or a control or invisible character");
        }
        return text;
    }

    private static boolean isInvisible(int character) {
        for (int[] range : Contract.INVISIBLE) {
            if (character >= range[0] && character <= range[1]) {
                return true;
            }
        }
        return false;
    }

    /** At most {@code max} names, or null for none. */
    public static List<String> names(String field, List<String> values, int max) {
        List<String> names = present(field, values).stream().map(value -> name(field, value)).toList();
        if (names.size() > max) {
            throw invalid(field, "has " + names.size() + " entries; at most " + max + " are allowed");
        }
        return names;
    }

    /** Text for operators, without control characters. */
    public static String label(String field, String value) {
        bytes(field, utf8(field, value).length, Contract.LABEL_BYTES);
        if (CONTROL.matcher(value).find()) {
            throw invalid(field, "contains a control character");
        }
        return value;
    }

    /** Kind of a task. */
    public static String kind(String value) {
        if (!KIND.matcher(present("kind", value)).matches()) {
            throw invalid("kind", "is `" + value + "`; it must be 1 to " + Contract.KIND_BYTES
                    + " ASCII letters, digits and . _ : / -");
        }
        return value;
    }

    /** A W3C traceparent. */
    public static String traceparent(String value) {
        if (!TRACEPARENT.matcher(present("traceparent", value)).matches()) {
            throw invalid("traceparent", "is not a W3C traceparent");
        }
        return value;
    }

    /** A media type. White space around parameters is removed. */
    public static String contentType(String value) {
        String text = present("contentType", value).strip().replaceAll("\\s*;\\s*", ";");
        if (!VISIBLE_ASCII.matcher(text).matches() || !text.contains("/") || text.matches(".*[{}].*")) {
            throw invalid("contentType", "is not a media type");
        }
        bytes("contentType", text.length(), Contract.CONTENT_TYPE_BYTES);
        return text;
    }

    /** An idempotency key. */
    public static String idempotencyKey(String value) {
        return visibleAscii("key", name("key", value, Contract.IDEMPOTENCY_KEY_BYTES));
    }

    /** Text that fits into a header. */
    public static String visibleAscii(String field, String value) {
        if (!VISIBLE_ASCII.matcher(value).matches()) {
            throw invalid(field, "is empty, or contains a character that is not visible ASCII");
        }
        return value;
    }

    /** A reservation ID in its one form. */
    public static String reservation(String value) {
        if (!RESERVATION.matcher(present("reservation", value)).matches()) {
            throw invalid("reservation", "must be 32 lower-case hexadecimal digits");
        }
        return value;
    }

    /** A time zone of a cron pattern. */
    public static void zone(String value, boolean isCron) {
        if (!isCron) {
            throw invalid("zone", "applies to a cron pattern only");
        }
        try {
            ZoneId.of(value);
        } catch (DateTimeException cause) {
            throw invalid("zone", "`" + value + "` is unknown", cause);
        }
    }

    /** A number of bytes up to a limit. */
    public static void bytes(String field, int length, int max) {
        if (length > max) {
            throw invalid(field, "has " + length + " bytes; at most " + max + " are allowed");
        }
    }

    /** A number within a range. */
    public static void whole(String field, long value, Range range) {
        if (value < range.min() || value > range.max()) {
            throw invalid(field, "is " + value + "; it must be " + range.min() + " to " + range.max());
        }
    }

    /** A duration within a range of µs, as µs. */
    public static long micros(String field, Duration value, Range range) {
        long micros = Times.micros(present(field, value));
        if (micros < range.min() || micros > range.max()) {
            throw invalid(field, "is " + value + "; it must be " + Times.ofMicros(range.min()) + " to "
                    + Times.ofMicros(range.max()));
        }
        return micros;
    }

    /** The same, or nothing. */
    public static void optionalMicros(String field, Duration value, Range range) {
        if (value != null) {
            micros(field, value, range);
        }
    }

    /** A timestamp from 1970 on, or nothing. */
    public static void optionalMoment(String field, Instant value) {
        if (value != null) {
            whole(field, Times.micros(value), Contract.MOMENT_US);
        }
    }

    /** Two settings of which only one may be set. */
    public static void notBoth(String first, Object one, String second, Object other) {
        if (one != null && other != null) {
            throw invalid(first, "cannot be set together with " + second);
        }
    }

    /** A list whose length is within a range, as a copy. */
    public static <T> List<T> list(String field, List<T> values, Range range) {
        int size = present(field, values).size();
        if (size < range.min() || size > range.max()) {
            throw invalid(field, "has " + size + " entries; it must have " + range.min() + " to " + range.max());
        }
        values.forEach(value -> present(field, value));
        return List.copyOf(values);
    }

    /** Cuts text to at most {@code max} bytes of UTF-8, between characters. */
    public static String cut(String text, int max) {
        byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
        if (bytes.length <= max) {
            return new String(bytes, StandardCharsets.UTF_8);
        }
        int end = max;
        while (end > 0 && (bytes[end] & 0xc0) == 0x80) {
            end--;
        }
        return new String(bytes, 0, end, StandardCharsets.UTF_8);
    }

    /** The word of the API for a constant. */
    public static String word(Enum<?> constant) {
        return constant.name().toLowerCase(Locale.ROOT);
    }
}
