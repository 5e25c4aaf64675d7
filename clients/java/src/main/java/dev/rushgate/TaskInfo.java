package dev.rushgate;

import java.time.Instant;
import java.util.List;

/**
 * A task and its state.
 *
 * @param task the task
 * @param state its state
 * @param waits whether it waits for other tasks
 * @param notBefore when it can run, or null if that is not known
 * @param leaseUntil end of the lease, or null if it is not leased
 * @param worker worker that claimed it, or null
 * @param progress latest progress, or null
 * @param replaced whether a pending replacement waits for the end of the run
 * @param cancelled whether a client asked to cancel it
 * @param error error of the latest failed attempt, or null
 * @param past runs without success
 * @param finished how it ended, or null
 */
public record TaskInfo(
        Task task,
        TaskState state,
        boolean waits,
        Instant notBefore,
        Instant leaseUntil,
        String worker,
        Progress progress,
        boolean replaced,
        boolean cancelled,
        String error,
        List<PastRun> past,
        Finished finished) {}
