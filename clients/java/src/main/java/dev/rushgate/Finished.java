package dev.rushgate;

import java.time.Instant;

/**
 * How a retained task ended.
 *
 * @param at when it ended
 * @param how how it ended
 * @param result result, or null
 */
public record Finished(Instant at, Finish how, Content result) {}
