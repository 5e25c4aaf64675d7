package dev.rushgate;

/**
 * Outcome of requeuing dead letters.
 *
 * @param requeued how many were requeued
 * @param kept how many were kept, because the queue is full or their ID is live
 */
public record DeadRequeued(long requeued, long kept) {}
