package dev.rushgate.internal.redis;

import dev.rushgate.Contract.Field;
import dev.rushgate.CorruptException;
import dev.rushgate.RushgateException.Details;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Reads a packed record from its beginning. */
final class Packed {
    private final byte[] bytes;
    private int at;

    Packed(byte[] bytes) {
        this.bytes = bytes;
    }

    boolean isEmpty() {
        return at >= bytes.length;
    }

    byte[] take(int length) {
        if (length > bytes.length - at) {
            throw new CorruptException("A record is shorter than this package expects.", Details.hint("Update the package."));
        }
        at += length;
        return Arrays.copyOfRange(bytes, at - length, at);
    }

    byte[] rest() {
        return take(bytes.length - at);
    }

    String restText() {
        return new String(rest(), StandardCharsets.UTF_8);
    }

    /** An unsigned integer, most significant byte first. */
    long number(int length) {
        long number = 0;
        for (byte next : take(length)) {
            number = number << 8 | next & 0xff;
        }
        return number;
    }

    /** Bytes whose length precedes them. */
    byte[] sized(int lengthBytes) {
        return take((int) number(lengthBytes));
    }

    /** Text whose length precedes it. */
    String text(int lengthBytes) {
        return new String(sized(lengthBytes), StandardCharsets.UTF_8);
    }

    /** The fixed part of a record. */
    Fields fields(List<Field> layout) {
        Map<String, Long> values = new HashMap<>();
        for (Field field : layout) {
            values.put(field.name(), number(field.bytes()));
        }
        return new Fields(values);
    }

    /** Numbers by name. */
    record Fields(Map<String, Long> values) {
        long number(String name) {
            return values.get(name);
        }

        int small(String name) {
            return values.get(name).intValue();
        }

        boolean has(String name, int flag) {
            return (values.get(name) & flag) != 0;
        }
    }

    /** Packs numbers in the order of a layout. */
    static byte[] pack(List<Field> layout, long... values) {
        ByteArrayOutputStream packed = new ByteArrayOutputStream();
        for (int field = 0; field < values.length; field++) {
            for (int left = layout.get(field).bytes() - 1; left >= 0; left--) {
                packed.write((int) (values[field] >>> 8 * left));
            }
        }
        return packed.toByteArray();
    }
}
