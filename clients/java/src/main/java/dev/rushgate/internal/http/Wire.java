package dev.rushgate.internal.http;

import dev.rushgate.Content;
import dev.rushgate.CorruptException;
import dev.rushgate.RushgateException.Details;
import dev.rushgate.internal.Check;
import dev.rushgate.internal.Json;
import dev.rushgate.internal.Times;
import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.time.Instant;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.function.Function;

/** An object of the HTTP API, and fields of requests. */
record Wire(Map<?, ?> json) {
    static Wire of(Object json) {
        if (json instanceof Map<?, ?> map) {
            return new Wire(map);
        }
        throw strange();
    }

    private static CorruptException strange() {
        return new CorruptException("The server answered something that this package does not know.",
                Details.hint("Update the package."));
    }

    private <T> T required(T value) {
        if (value == null) {
            throw strange();
        }
        return value;
    }

    boolean has(String name) {
        return json.get(name) != null;
    }

    /** Text, or null. */
    String text(String name) {
        Object value = json.get(name);
        if (value != null && !(value instanceof String)) {
            throw strange();
        }
        return (String) value;
    }

    long number(String name) {
        if (json.get(name) instanceof Number number) {
            return number.longValue();
        }
        throw strange();
    }

    int small(String name) {
        return (int) number(name);
    }

    Long optionalNumber(String name) {
        return has(name) ? number(name) : null;
    }

    Integer optionalSmall(String name) {
        return has(name) ? small(name) : null;
    }

    boolean is(String name) {
        return Boolean.TRUE.equals(json.get(name));
    }

    Instant instant(String name) {
        return Times.instant(number(name));
    }

    Instant optionalInstant(String name) {
        return has(name) ? instant(name) : null;
    }

    Duration millis(String name) {
        return Duration.ofMillis(number(name));
    }

    <E extends Enum<E>> E constant(Class<E> type, String name) {
        try {
            return Enum.valueOf(type, required(text(name)).toUpperCase(Locale.ROOT));
        } catch (IllegalArgumentException unknown) {
            throw strange();
        }
    }

    /** The word that names a variant. */
    String variant(String name) {
        return required(text(name));
    }

    Wire object(String name) {
        return of(json.get(name));
    }

    Wire optionalObject(String name) {
        return has(name) ? object(name) : null;
    }

    <T> List<T> list(String name, Function<Wire, T> read) {
        return entries(name).stream().map(Wire::of).map(read).toList();
    }

    private List<?> entries(String name) {
        if (!has(name)) {
            return List.of();
        }
        if (json.get(name) instanceof List<?> entries) {
            return entries;
        }
        throw strange();
    }

    List<String> texts(String name) {
        return all(String.class, name);
    }

    List<Instant> instants(String name) {
        return all(Number.class, name).stream().map(Number::longValue).map(Times::instant).toList();
    }

    private <T> List<T> all(Class<T> type, String name) {
        if (!entries(name).stream().allMatch(type::isInstance)) {
            throw strange();
        }
        return entries(name).stream().map(type::cast).toList();
    }

    /** Content: JSON and text as {@code payload}, and bytes in base64. */
    Content content() {
        String type = required(text("content_type"));
        return Content.stored(payload(type), type, text("kind"), text("traceparent"));
    }

    private byte[] payload(String type) {
        if (!json.containsKey("payload")) {
            return Base64.getDecoder().decode(has("payload_base64") ? text("payload_base64") : "");
        }
        Object payload = json.get("payload");
        boolean isText = type.toLowerCase(Locale.ROOT).startsWith("text/");
        return (isText ? (String) payload : Json.write(payload)).getBytes(StandardCharsets.UTF_8);
    }

    /** Fields of a request that hold content. Base64 keeps every byte. */
    static void putContent(Map<String, Object> fields, Content content) {
        fields.put("payload_base64", base64(content));
        fields.put("content_type", content.contentType());
        putIf(fields, "kind", content.kind());
    }

    static String base64(Content content) {
        return Base64.getEncoder().encodeToString(content.bytes());
    }

    /** Sets a field unless its value is null. */
    static void putIf(Map<String, Object> fields, String name, Object value) {
        if (value instanceof Duration duration) {
            fields.put(name, Times.millis(duration));
        } else if (value instanceof Instant instant) {
            fields.put(name, Times.micros(instant));
        } else if (value instanceof Enum<?> constant) {
            fields.put(name, Check.word(constant));
        } else if (value != null) {
            fields.put(name, value);
        }
    }

    /** Fields of a request, in pairs of name and value, without those whose value is null. */
    static Map<String, Object> fields(Object... pairs) {
        Map<String, Object> fields = new LinkedHashMap<>();
        for (int at = 0; at < pairs.length; at += 2) {
            putIf(fields, (String) pairs[at], pairs[at + 1]);
        }
        return fields;
    }

    static String encoded(String text) {
        return URLEncoder.encode(text, StandardCharsets.UTF_8).replace("+", "%20");
    }
}
