package dev.rushgate;

import java.time.Instant;

/**
 * A task that was read or claimed.
 *
 * @param id ID of the task
 * @param ticket proof of this claim
 * @param due when it is due
 * @param revision revision of the task
 * @param fence fencing token of the claim, or null if the task is not claimed
 * @param claimed when it was claimed, exact to the duration of the claiming call, or null if the task is not claimed
 * @param content content
 * @param priority priority, 0 to 9
 * @param attempt number of claims so far, this one included
 * @param maxAttempts maximum number of attempts
 * @param key key that tasks share, or null
 * @param deadline deadline, or null
 */
public record Task(
        String id,
        String ticket,
        Instant due,
        long revision,
        Long fence,
        Instant claimed,
        Content content,
        int priority,
        int attempt,
        int maxAttempts,
        String key,
        Instant deadline) {}
