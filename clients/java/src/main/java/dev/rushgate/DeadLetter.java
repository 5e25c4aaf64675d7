package dev.rushgate;

import java.time.Instant;
import java.util.List;

/**
 * A dead letter.
 *
 * @param id ID of the task
 * @param content content
 * @param priority priority, 0 to 9
 * @param attempts number of attempts made
 * @param maxAttempts maximum number of attempts
 * @param error error of the last attempt
 * @param died when it became a dead letter
 * @param key key that tasks share, or null
 * @param past runs without success
 */
public record DeadLetter(
        String id,
        Content content,
        int priority,
        int attempts,
        int maxAttempts,
        String error,
        Instant died,
        String key,
        List<PastRun> past) {}
