//! Runs the OpenTelemetry example: the task's span reaches the collector as a child of the span that enqueued
//! it. The only test of its binary, because the trace context is set once per process.

#[allow(dead_code)]
#[path = "../../examples/traces.rs"]
mod traces;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_span_of_a_task_reaches_a_collector_as_a_child_of_the_one_that_put_it_in() {
    let told = tokio::time::timeout(std::time::Duration::from_secs(60), traces::tell(None));
    told.await.expect("timed out").unwrap();
}
