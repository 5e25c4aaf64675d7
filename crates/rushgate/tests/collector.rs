//! The example for OpenTelemetry, run as it is: a task's span reaches a collector as a child of the one that put it in.
//! One test alone, since what it sets is for the whole process.

#[allow(dead_code)]
#[path = "../examples/traces.rs"]
mod traces;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_span_of_a_task_reaches_a_collector_as_a_child_of_the_one_that_put_it_in() {
    let told = tokio::time::timeout(std::time::Duration::from_secs(60), traces::tell(None));
    told.await.expect("it should not take so long").unwrap();
}
