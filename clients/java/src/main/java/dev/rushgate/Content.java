package dev.rushgate;

import dev.rushgate.internal.Bodies;
import dev.rushgate.internal.Check;
import dev.rushgate.internal.Json;
import java.util.Arrays;
import java.util.Objects;
import static java.nio.charset.StandardCharsets.UTF_8;

/** Content of a task or a result: bytes, their media type, and for a task its kind and its trace. Immutable. */
public final class Content {
    private static final String BINARY = "application/octet-stream";
    private static final String JSON = "application/json";

    private final byte[] bytes;
    private final String contentType;
    private final String kind;
    private final String traceparent;

    private Content(byte[] bytes, String contentType, String kind, String traceparent) {
        this.bytes = bytes;
        this.contentType = contentType;
        this.kind = kind;
        this.traceparent = traceparent;
    }

    /** JSON of a value: null, a string, number, boolean, or a map, collection or array of these. At most 1 MiB. */
    public static Content json(Object value) {
        return checked(Json.write(value).getBytes(UTF_8), JSON);
    }

    /** JSON of a value that the codec encodes. At most 1 MiB. */
    public static <T> Content json(T value, Codec<T> codec) {
        try {
            return checked(codec.encode(value), JSON);
        } catch (Exception cause) {
            throw Check.invalid("payload", "cannot be encoded", cause);
        }
    }

    /** Plain text. At most 1 MiB of UTF-8. */
    public static Content text(String text) {
        return checked(Check.utf8("payload", text), "text/plain");
    }

    /** Bytes: {@code application/octet-stream}. At most 1 MiB. */
    public static Content bytes(byte[] bytes) {
        return of(bytes, BINARY);
    }

    /** Bytes of any media type. At most 1 MiB. */
    public static Content of(byte[] bytes, String contentType) {
        return checked(Check.present("payload", bytes).clone(), Check.contentType(contentType));
    }

    /** No bytes: {@code application/octet-stream}. */
    public static Content empty() {
        return new Content(new byte[0], BINARY, null, null);
    }

    /** Content as a store holds it, which is not checked. For transports: {@link #of} makes content to enqueue. */
    public static Content stored(byte[] bytes, String contentType, String kind, String traceparent) {
        return new Content(bytes, contentType, kind, traceparent);
    }

    private static Content checked(byte[] bytes, String contentType) {
        Check.bytes("payload", bytes.length, Contract.PAYLOAD_BYTES);
        return new Content(bytes, contentType, null, null);
    }

    /** The same content with a kind: 1 to 80 ASCII letters, digits and {@code . _ : / -}. */
    public Content withKind(String kind) {
        return new Content(bytes, contentType, Check.kind(kind), traceparent).checkedType();
    }

    /** The same content with a W3C {@code traceparent}. */
    public Content withTraceparent(String traceparent) {
        return new Content(bytes, contentType, kind, Check.traceparent(traceparent)).checkedType();
    }

    private Content checkedType() {
        Check.bytes("contentType", Bodies.contentType(this).length(), Contract.CONTENT_TYPE_BYTES);
        return this;
    }

    /** A copy of the bytes. */
    public byte[] bytes() {
        return bytes.clone();
    }

    /** Number of bytes. */
    public int size() {
        return bytes.length;
    }

    /** Media type without the kind and the trace. */
    public String contentType() {
        return contentType;
    }

    /** Kind of work, by which a worker selects the handler, or null. */
    public String kind() {
        return kind;
    }

    /** W3C {@code traceparent} of the span that enqueued the task, or null. */
    public String traceparent() {
        return traceparent;
    }

    /** The bytes as UTF-8. Throws {@link CorruptException} if they are not. */
    public String text() {
        return Bodies.text(bytes);
    }

    /**
     * The bytes as JSON: null, {@code String}, {@code Boolean}, {@code Long}, {@code BigInteger}, {@code BigDecimal},
     * {@code List} or {@code Map}. Throws {@link CorruptException} if they are not JSON.
     */
    public Object json() {
        return Json.read(text());
    }

    /** The bytes as the codec decodes them. Throws {@link CorruptException} if it fails. */
    public <T> T as(Codec<T> codec) {
        try {
            return codec.decode(bytes());
        } catch (Exception cause) {
            throw new CorruptException("The payload cannot be decoded: " + cause.getMessage() + ".",
                    RushgateException.Details.cause(cause));
        }
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof Content content && Arrays.equals(bytes, content.bytes)
                && contentType.equals(content.contentType) && Objects.equals(kind, content.kind)
                && Objects.equals(traceparent, content.traceparent);
    }

    @Override
    public int hashCode() {
        return Objects.hash(Arrays.hashCode(bytes), contentType, kind, traceparent);
    }

    @Override
    public String toString() {
        return contentType + (kind == null ? "" : " of the kind " + kind) + ", " + bytes.length + " bytes";
    }
}
