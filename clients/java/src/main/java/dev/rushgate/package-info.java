/**
 * Distributed locks, durable task queues and oversell-proof flash-sale inventory, on Redis, Valkey or a Rushgate server.
 *
 * <p>Start with {@link dev.rushgate.Rushgate#connect(String)}. Any number of threads may share a client and everything
 * that it returns. Every failure is a {@link dev.rushgate.RushgateException}.
 */
package dev.rushgate;
