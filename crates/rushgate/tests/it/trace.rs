//! A trace continues in the worker. The only test of its binary, because the trace context is set once per
//! process.

use std::cell::RefCell;
use std::sync::Mutex;

use crate::common::{Bench, in_time};
use rushgate::queue::TraceParent;
use rushgate::trace::{TraceContext, set_trace_context};
use rushgate::{CancellationToken, Job, Recurrence, Worker};

thread_local! {
    static CURRENT: RefCell<Option<TraceParent>> = const { RefCell::new(None) };
}

static CONTINUED: Mutex<Vec<TraceParent>> = Mutex::new(Vec::new());

struct Fake;

impl TraceContext for Fake {
    fn current(&self) -> Option<TraceParent> {
        CURRENT.with_borrow(Clone::clone)
    }

    fn continue_in(&self, _: &tracing::Span, parent: &TraceParent) {
        CONTINUED.lock().unwrap().push(parent.clone());
    }
}

fn parent(n: u8) -> TraceParent {
    format!("00-0af7651916cd43dd8448eb211c8031{n:02x}-b7ad6b7169203331-01").parse().unwrap()
}

#[tokio::test]
async fn a_tasks_span_continues_the_span_that_enqueued_it() {
    set_trace_context(Fake).unwrap();
    assert!(set_trace_context(Fake).unwrap_err().is_invalid(), "the trace context can be set once");
    let queue = Bench::model().client().queue_of::<u32>("numbers").unwrap();
    let send =
        async |n: u32| queue.enqueue(n.to_string(), n).kind("count").priority(n as u8).send().await.unwrap();
    send(0).await;
    CURRENT.set(Some(parent(1)));
    send(1).await;
    let batch = vec![queue.new_task("2", 2).unwrap()];
    queue.enqueue_all(batch).await.unwrap();
    queue.schedule("never", 3, Recurrence::cron("0 0 1 1 *").unwrap()).save().await.unwrap();
    queue.run_schedule("never").await.unwrap();
    CURRENT.set(None);

    let shutdown = CancellationToken::new();
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let worker = Worker::new(&queue).concurrency(1).register("*", move |job: Job<u32>| {
        tell.send((job.payload, job.traceparent())).unwrap();
        async {}
    });
    let working = tokio::spawn(worker.run(shutdown.clone()));
    let mut seen = Vec::new();
    for _ in 0..4 {
        seen.push(in_time(told.recv()).await.unwrap());
    }
    seen.sort_by_key(|(n, _)| *n);
    let one = Some(parent(1));
    assert_eq!(seen, [(0, None), (1, one.clone()), (2, one), (3, None)]);
    shutdown.cancel();
    working.await.unwrap().unwrap();
    assert_eq!(*CONTINUED.lock().unwrap(), [parent(1), parent(1)]);
}
