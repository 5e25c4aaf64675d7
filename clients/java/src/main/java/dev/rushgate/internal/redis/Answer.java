package dev.rushgate.internal.redis;

import dev.rushgate.CorruptException;
import dev.rushgate.RushgateException.Details;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Locale;

/** Reads a list in an answer from its beginning. */
final class Answer {
    private final List<?> entries;
    private int at;

    Answer(Object reply) {
        if (!(reply instanceof List<?> list)) {
            throw strange();
        }
        entries = list;
    }

    boolean isEmpty() {
        return at >= entries.size();
    }

    Object next() {
        if (isEmpty()) {
            throw strange();
        }
        return entries.get(at++);
    }

    long number() {
        return number(next());
    }

    int smallNumber() {
        return (int) number();
    }

    /** A number, or null if the answer is ''. */
    Long optional() {
        Object entry = next();
        return entry instanceof byte[] bytes && bytes.length == 0 ? null : (Long) number(entry);
    }

    byte[] bytes() {
        if (!(next() instanceof byte[] bytes)) {
            throw strange();
        }
        return bytes;
    }

    String text() {
        return new String(bytes(), StandardCharsets.UTF_8);
    }

    Answer list() {
        return new Answer(next());
    }

    /** The word at the position that the answer names. */
    String word(List<String> words) {
        return word(words, number());
    }

    /** A number of a reply, which may be decimal text. */
    static long number(Object reply) {
        if (reply instanceof Long number) {
            return number;
        }
        try {
            if (reply instanceof byte[] bytes) {
                return Long.parseLong(new String(bytes, StandardCharsets.US_ASCII));
            }
        } catch (NumberFormatException noNumber) {
            // Reported below.
        }
        throw strange();
    }

    /** The word at a position. An unknown position belongs to a later version. */
    static String word(List<String> words, long position) {
        if (position < 0 || position >= words.size() || words.get((int) position).isEmpty()) {
            throw strange();
        }
        return words.get((int) position);
    }

    /** The constant for the word at a position. */
    static <E extends Enum<E>> E constant(Class<E> type, List<String> words, long position) {
        try {
            return Enum.valueOf(type, word(words, position).toUpperCase(Locale.ROOT));
        } catch (IllegalArgumentException unknown) {
            throw strange();
        }
    }

    static CorruptException strange() {
        return new CorruptException("The server answered something that this package does not know.",
                Details.hint("Update the package."));
    }
}
