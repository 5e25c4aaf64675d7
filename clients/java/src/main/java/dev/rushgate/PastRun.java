package dev.rushgate;

import java.time.Instant;

/**
 * A run without success.
 *
 * @param attempt number of the attempt
 * @param began when it began
 * @param ended when it ended
 * @param how how it ended
 * @param worker name of the worker
 * @param error error, or an empty text
 */
public record PastRun(int attempt, Instant began, Instant ended, PastEnd how, String worker, String error) {}
