package dev.rushgate;

/**
 * Converts values to JSON text and back, such as by Jackson.
 *
 * @param <T> type of the values
 */
public interface Codec<T> {
    /** Encodes a value as JSON in UTF-8. */
    byte[] encode(T value) throws Exception;

    /** Decodes a value. What this throws fails the attempt of a task; the task stays in the queue. */
    T decode(byte[] json) throws Exception;
}
