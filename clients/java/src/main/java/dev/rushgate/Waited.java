package dev.rushgate;

import java.time.Instant;

/**
 * A finished task that another one waited for.
 *
 * @param id ID of the task
 * @param end how it ended
 * @param at when it ended
 * @param result result, or null
 * @param error why it failed, or null
 */
public record Waited(String id, TaskEnd end, Instant at, Content result, String error) {}
