//! Trace contexts that travel with tasks from the client to the worker.
//!
//! A task enqueued within a span carries that span's [`TraceParent`] as a parameter of its content type. The
//! span is the one current when `enqueue` or `new_task` is called. The worker's span for the task continues
//! the trace. Only the program's tracing library knows what a trace is: pass it to [`set_trace_context`] once
//! at startup. Without it tasks carry no trace, at no cost.
//!
//! Supported: the W3C `traceparent`, from [`Queue::enqueue`](crate::Queue::enqueue) and
//! [`Queue::new_task`](crate::Queue::new_task) to the span of the [`Worker`](crate::Worker) that runs the
//! task, or to a span made from [`Job::traceparent`](crate::Job::traceparent). A program that serves requests
//! continues its callers' traces with [`continue_from`].
//!
//! Not supported:
//! - `tracestate` and baggage;
//! - the span of a batch, which has as many parents as tasks (link them with `Job::traceparent`);
//! - tasks of a schedule and orders of a sale, which no caller's span enqueues.
//!
//! If the content type has no room left for a trace, the task carries none.
//!
//! With `tracing-opentelemetry` the setup is as follows. `examples/traces.rs` has a complete program with a
//! collector.
//!
//! ```
//! use std::collections::HashMap;
//!
//! use opentelemetry::propagation::TextMapPropagator;
//! use opentelemetry_sdk::propagation::TraceContextPropagator;
//! use rushgate::queue::TraceParent;
//! use rushgate::trace::{TraceContext, set_trace_context};
//! use tracing::Span;
//! use tracing_opentelemetry::OpenTelemetrySpanExt;
//!
//! struct OpenTelemetry(TraceContextPropagator);
//!
//! impl TraceContext for OpenTelemetry {
//!     fn current(&self) -> Option<TraceParent> {
//!         let mut carrier = HashMap::new();
//!         self.0.inject_context(&Span::current().context(), &mut carrier);
//!         carrier.get("traceparent")?.parse().ok()
//!     }
//!     fn continue_in(&self, span: &Span, parent: &TraceParent) {
//!         let carrier = HashMap::from([("traceparent".to_owned(), parent.to_string())]);
//!         let _ = span.set_parent(self.0.extract(&carrier));
//!     }
//! }
//!
//! set_trace_context(OpenTelemetry(TraceContextPropagator::new()))?;
//! # Ok::<_, rushgate::Error>(())
//! ```

use std::sync::OnceLock;

use rushgate_core::{Error, Payload, Result, TraceParent};
use tracing::Span;

static CONTEXT: OnceLock<Box<dyn TraceContext>> = OnceLock::new();

/// Adapter to the program's tracing library.
pub trait TraceContext: Send + Sync + 'static {
    /// Trace parent of the current span, or `None` outside of a span.
    fn current(&self) -> Option<TraceParent>;

    /// Makes `span`, which has not been entered yet, continue from `parent`: as its child, or by a link.
    fn continue_in(&self, span: &Span, parent: &TraceParent);
}

/// Sets the trace context of this process. Tasks carry traces from now on.
///
/// # Errors
/// [`is_invalid`](Error::is_invalid) if it was set before.
pub fn set_trace_context(context: impl TraceContext) -> Result<()> {
    let set = CONTEXT.set(Box::new(context));
    set.map_err(|_| Error::invalid("the trace context", "is already set for this process"))
}

/// Adds the current span's trace to `payload`, as [`Queue::new_task`](crate::Queue::new_task) does: for a
/// program that builds a [`NewTask`](crate::queue::NewTask) directly. Returns the payload unchanged if no trace
/// context is [set](set_trace_context), if there is no span, or if the payload has a trace already.
pub fn carried(payload: Payload) -> Payload {
    let current = CONTEXT.get().and_then(|context| context.current());
    // A trace that the caller has set takes precedence.
    match current.filter(|_| payload.content_type().traceparent().is_none()) {
        Some(parent) => payload.with_traceparent(&parent).unwrap_or(payload),
        None => payload,
    }
}

/// Makes `span`, which has not been entered yet, continue from `parent`. For a program that enqueues on
/// behalf of its callers. Does nothing if no trace context is [set](set_trace_context).
pub fn continue_from(span: &Span, parent: &TraceParent) {
    if let Some(context) = CONTEXT.get() {
        context.continue_in(span, parent);
    }
}
