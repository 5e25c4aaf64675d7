package dev.rushgate.internal;

import dev.rushgate.CorruptException;
import dev.rushgate.RushgateException.Details;
import java.lang.reflect.Array;
import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Reads and writes JSON (RFC 8259). */
public final class Json {
    /** Deepest nesting, so that no document exhausts the stack. */
    private static final int DEPTH = 512;

    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    /** The value of a document. Throws {@link CorruptException} if it is not JSON. */
    public static Object read(String text) {
        Json json = new Json(text);
        Object value = json.value(0);
        json.space();
        if (json.at < text.length()) {
            throw json.malformed();
        }
        return value;
    }

    private CorruptException malformed() {
        return new CorruptException("This is not JSON: unexpected content at character " + at + ".", Details.NONE);
    }

    private void space() {
        while (at < text.length() && " \t\r\n".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
    }

    private char peek() {
        space();
        if (at >= text.length()) {
            throw malformed();
        }
        return text.charAt(at);
    }

    private void expect(char character) {
        if (peek() != character) {
            throw malformed();
        }
        at++;
    }

    private Object value(int depth) {
        if (depth > DEPTH) {
            throw malformed();
        }
        return switch (peek()) {
            case '{' -> object(depth);
            case '[' -> array(depth);
            case '"' -> string();
            case 't' -> word("true", true);
            case 'f' -> word("false", false);
            case 'n' -> word("null", null);
            default -> number();
        };
    }

    private Object word(String word, Object value) {
        if (!text.startsWith(word, at)) {
            throw malformed();
        }
        at += word.length();
        return value;
    }

    private Map<String, Object> object(int depth) {
        Map<String, Object> object = new LinkedHashMap<>();
        expect('{');
        if (peek() == '}') {
            at++;
            return object;
        }
        while (true) {
            if (peek() != '"') {
                throw malformed();
            }
            String name = string();
            expect(':');
            object.put(name, value(depth + 1));
            if (peek() != ',') {
                expect('}');
                return object;
            }
            at++;
        }
    }

    private List<Object> array(int depth) {
        List<Object> array = new ArrayList<>();
        expect('[');
        if (peek() == ']') {
            at++;
            return array;
        }
        while (true) {
            array.add(value(depth + 1));
            if (peek() != ',') {
                expect(']');
                return array;
            }
            at++;
        }
    }

    private String string() {
        StringBuilder string = new StringBuilder();
        at++;
        while (true) {
            char next = next();
            if (next == '"') {
                return string.toString();
            }
            if (next < ' ') {
                throw malformed();
            }
            string.append(next == '\\' ? escaped() : next);
        }
    }

    private char next() {
        if (at >= text.length()) {
            throw malformed();
        }
        return text.charAt(at++);
    }

    private char escaped() {
        char escape = next();
        return switch (escape) {
            case '"', '\\', '/' -> escape;
            case 'b' -> '\b';
            case 'f' -> '\f';
            case 'n' -> '\n';
            case 'r' -> '\r';
            case 't' -> '\t';
            case 'u' -> unit();
            default -> throw malformed();
        };
    }

    private char unit() {
        int unit = 0;
        for (int digit = 0; digit < 4; digit++) {
            int value = Character.digit(next(), 16);
            if (value < 0) {
                throw malformed();
            }
            unit = unit * 16 + value;
        }
        return (char) unit;
    }

    private Number number() {
        int begin = at;
        if (text.charAt(at) == '-') {
            at++;
        }
        int whole = digits();
        if (whole > 1 && text.charAt(at - whole) == '0') {
            throw malformed();
        }
        boolean isWhole = true;
        if (at < text.length() && text.charAt(at) == '.') {
            at++;
            digits();
            isWhole = false;
        }
        if (at < text.length() && "eE".indexOf(text.charAt(at)) >= 0) {
            at++;
            if (at < text.length() && "+-".indexOf(text.charAt(at)) >= 0) {
                at++;
            }
            digits();
            isWhole = false;
        }
        return number(text.substring(begin, at), isWhole);
    }

    private Number number(String digits, boolean isWhole) {
        try {
            if (!isWhole) {
                return new BigDecimal(digits);
            }
            BigInteger number = new BigInteger(digits);
            return number.bitLength() < Long.SIZE ? (Number) number.longValue() : number;
        } catch (NumberFormatException tooLarge) {
            throw malformed();
        }
    }

    private int digits() {
        int begin = at;
        while (at < text.length() && text.charAt(at) >= '0' && text.charAt(at) <= '9') {
            at++;
        }
        if (at == begin) {
            throw malformed();
        }
        return at - begin;
    }

    /** The text of a value: null, a string, number, boolean, or a map, collection or array of these. */
    public static String write(Object value) {
        StringBuilder text = new StringBuilder();
        write(value, text, 0);
        return text.toString();
    }

    private static void write(Object value, StringBuilder text, int depth) {
        if (depth > DEPTH) {
            throw Check.invalid("payload", "is nested too deep for JSON");
        }
        if (value == null || value instanceof Boolean) {
            text.append(value);
        } else if (value instanceof CharSequence || value instanceof Character) {
            quote(value.toString(), text);
        } else if (value instanceof Number number) {
            text.append(finite(number));
        } else if (value instanceof Map<?, ?> map) {
            writeMap(map, text, depth);
        } else if (value instanceof Iterable<?> values) {
            writeAll(values, text, depth);
        } else if (value.getClass().isArray()) {
            writeAll(listOf(value), text, depth);
        } else {
            throw Check.invalid("payload", "has a " + value.getClass().getName() + ", which needs a codec");
        }
    }

    private static Number finite(Number number) {
        if (number instanceof Double || number instanceof Float) {
            if (!Double.isFinite(number.doubleValue())) {
                throw Check.invalid("payload", "has the number " + number + ", which JSON does not have");
            }
        }
        return number;
    }

    private static List<Object> listOf(Object array) {
        List<Object> values = new ArrayList<>();
        for (int at = 0; at < Array.getLength(array); at++) {
            values.add(Array.get(array, at));
        }
        return values;
    }

    private static void writeMap(Map<?, ?> map, StringBuilder text, int depth) {
        text.append('{');
        String separator = "";
        for (Map.Entry<?, ?> entry : map.entrySet()) {
            text.append(separator);
            quote(String.valueOf(entry.getKey()), text);
            text.append(':');
            write(entry.getValue(), text, depth + 1);
            separator = ",";
        }
        text.append('}');
    }

    private static void writeAll(Iterable<?> values, StringBuilder text, int depth) {
        text.append('[');
        String separator = "";
        for (Object value : values) {
            text.append(separator);
            write(value, text, depth + 1);
            separator = ",";
        }
        text.append(']');
    }

    private static void quote(String string, StringBuilder text) {
        Check.utf8("payload", string);
        text.append('"');
        for (int at = 0; at < string.length(); at++) {
            char character = string.charAt(at);
            switch (character) {
                case '"', '\\' -> text.append('\\').append(character);
                case '\n' -> text.append("\\n");
                case '\r' -> text.append("\\r");
                case '\t' -> text.append("\\t");
                default -> {
                    if (character < ' ') {
                        text.append(String.format("\\u%04x", (int) character));
                    } else {
                        text.append(character);
                    }
                }
            }
        }
        text.append('"');
    }
}
