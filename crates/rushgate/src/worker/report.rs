use crate::counters::counters;

counters! {
    /// Totals of a worker from start to end.
    WorkerReport, Counters {
        /// Tasks claimed.
        claimed,
        /// Tasks done, including those replaced or canceled while they ran.
        done,
        /// Tasks that their handler discarded.
        discarded,
        /// Attempts that failed and will be retried.
        retried,
        /// Tasks that became dead letters.
        dead,
        /// Tasks returned to the queue without counting an attempt, by the shutdown or by the handler.
        released,
        /// Tasks that were canceled while they ran; also counted as done.
        cancelled,
        /// Tasks whose lease ended during the work: another worker has or had them.
        lost,
        /// Handlers that panicked; also counted as failed attempts.
        panicked,
        /// Handlers that exceeded the timeout or their task's deadline; also counted as failed attempts.
        timed_out,
        /// Tasks of a kind for which the worker has no handler; also counted as failed attempts.
        unknown,
        /// Answers that the store did not take before the worker ended. Their tasks become available again.
        unanswered,
        /// Calls that failed because the store was unreachable or full, and were retried.
        outages,
    }
}
