package dev.rushgate.internal;

import dev.rushgate.Content;
import dev.rushgate.Contract;
import dev.rushgate.CorruptException;
import dev.rushgate.RushgateException.Details;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Content types and bodies: kind and trace are parameters of the content type. */
public final class Bodies {
    /** The content types that a body has as a single byte. */
    public static final Map<Integer, String> SHORT_TYPES =
            Map.of(Contract.BYTES_CODE, Contract.BYTES_TYPE, Contract.JSON_CODE, Contract.JSON_TYPE);

    private static final Pattern PART = Pattern.compile("(?:[^;\"]|\"[^\"]*\"?)+");
    private static final Pattern TOKEN = Pattern.compile("[A-Za-z0-9._-]+");
    private static final Pattern KIND =
            Pattern.compile("kind=(\"?)([A-Za-z0-9._:/-]{1," + Contract.KIND_BYTES + "})\\1", Pattern.CASE_INSENSITIVE);
    private static final Pattern TRACE = Pattern.compile("traceparent=(\"?)([0-9a-f-]{55})\\1", Pattern.CASE_INSENSITIVE);

    private Bodies() {}

    /** The content type with the kind and the trace. */
    public static String contentType(Content content) {
        StringBuilder type = new StringBuilder(content.contentType());
        if (content.kind() != null) {
            String quote = TOKEN.matcher(content.kind()).matches() ? "" : "\"";
            type.append(";kind=").append(quote).append(content.kind()).append(quote);
        }
        if (content.traceparent() != null) {
            type.append(";traceparent=").append(content.traceparent());
        }
        return type.toString();
    }

    /** Content of bytes under a content type with its parameters. */
    public static Content content(byte[] bytes, String fullType) {
        String kind = null;
        String traceparent = null;
        List<String> plain = new ArrayList<>();
        Matcher parts = PART.matcher(fullType);
        while (parts.find()) {
            String part = parts.group();
            Matcher isKind = KIND.matcher(part.strip());
            Matcher isTrace = TRACE.matcher(part.strip());
            if (kind == null && isKind.matches()) {
                kind = isKind.group(2);
            } else if (traceparent == null && isTrace.matches()) {
                traceparent = isTrace.group(2);
            } else {
                plain.add(part);
            }
        }
        return Content.stored(bytes, String.join(";", plain), kind, traceparent);
    }

    /** The body of content: a byte for a common type, or the length of the type and the type; then the bytes. */
    public static byte[] write(Content content) {
        String type = contentType(content);
        byte[] bytes = content.bytes();
        for (Map.Entry<Integer, String> common : SHORT_TYPES.entrySet()) {
            if (common.getValue().equals(type)) {
                return ByteBuffer.allocate(1 + bytes.length).put(common.getKey().byteValue()).put(bytes).array();
            }
        }
        byte[] typeBytes = type.getBytes(StandardCharsets.US_ASCII);
        return ByteBuffer.allocate(1 + typeBytes.length + bytes.length)
                .put((byte) typeBytes.length).put(typeBytes).put(bytes).array();
    }

    /** Bytes as UTF-8. Throws {@link CorruptException} if they are not. */
    public static String text(byte[] bytes) {
        try {
            return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes)).toString();
        } catch (CharacterCodingException cause) {
            throw new CorruptException("The payload is not UTF-8.", Details.cause(cause));
        }
    }
}
