package dev.rushgate.internal.redis;

import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/**
 * The Redis serialization protocol, version 2. A reply is a {@code Long}, bytes, a {@code List}, a {@link Status}, a
 * {@link Failure} or null.
 */
final class Resp {
    private static final int BUFFER_BYTES = 16 * 1024;
    private static final byte[] CRLF = {'\r', '\n'};

    private final InputStream in;
    private final byte[] buffer = new byte[BUFFER_BYTES];
    private int at;
    private int end;

    Resp(InputStream in) {
        this.in = in;
    }

    /** A simple string. */
    record Status(String text) {}

    /** An error of the server. */
    record Failure(String text) {
        /** The first word, such as {@code MOVED}. */
        String code() {
            return text.split(" ", 2)[0];
        }
    }

    /** Encodes a command. Its words are strings or bytes. */
    static byte[] command(List<?> words) {
        ByteArrayOutputStream out = new ByteArrayOutputStream(64 + 32 * words.size());
        out.writeBytes(ascii("*" + words.size()));
        out.writeBytes(CRLF);
        for (Object word : words) {
            byte[] bytes = word instanceof byte[] raw ? raw : ((String) word).getBytes(StandardCharsets.UTF_8);
            out.writeBytes(ascii("$" + bytes.length));
            out.writeBytes(CRLF);
            out.writeBytes(bytes);
            out.writeBytes(CRLF);
        }
        return out.toByteArray();
    }

    private static byte[] ascii(String text) {
        return text.getBytes(StandardCharsets.US_ASCII);
    }

    /** Reads one reply. */
    Object read() throws IOException {
        int kind = next();
        String line = line();
        return switch (kind) {
            case '+' -> new Status(line);
            case '-' -> new Failure(line);
            case ':' -> number(line);
            case '$' -> bulk((int) number(line));
            case '*' -> list((int) number(line));
            default -> throw new IOException("this is no Redis server");
        };
    }

    private static long number(String line) throws IOException {
        try {
            return Long.parseLong(line);
        } catch (NumberFormatException cause) {
            throw new IOException("the server sent a malformed number", cause);
        }
    }

    private byte[] bulk(int length) throws IOException {
        if (length < 0) {
            return null;
        }
        byte[] bytes = new byte[length];
        int filled = 0;
        while (filled < length) {
            fill();
            int part = Math.min(length - filled, end - at);
            System.arraycopy(buffer, at, bytes, filled, part);
            at += part;
            filled += part;
        }
        next();
        next();
        return bytes;
    }

    private List<Object> list(int length) throws IOException {
        if (length < 0) {
            return null;
        }
        List<Object> list = new ArrayList<>(Math.min(length, BUFFER_BYTES));
        for (int entry = 0; entry < length; entry++) {
            list.add(read());
        }
        return list;
    }

    private String line() throws IOException {
        ByteArrayOutputStream line = new ByteArrayOutputStream();
        while (true) {
            int next = next();
            if (next == '\r') {
                next();
                return line.toString(StandardCharsets.UTF_8);
            }
            line.write(next);
        }
    }

    private int next() throws IOException {
        fill();
        return buffer[at++];
    }

    private void fill() throws IOException {
        if (at < end) {
            return;
        }
        at = 0;
        end = Math.max(0, in.read(buffer));
        if (end == 0) {
            throw new EOFException("the server closed the connection");
        }
    }
}
