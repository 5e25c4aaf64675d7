//! Trace contexts that travel with tasks from the client to the worker.
//!
//! A task that is put in within a span, which is the one in which `enqueue` or `new_task` is called, carries that span's
//! [`TraceParent`] as a parameter of its content type, and the worker's span of it goes on from there. What a trace is,
//! only the program's tracing library knows: give it to [`set_trace_context`] once, at the start. Without it tasks
//! carry nothing, and cost nothing more.
//!
//! Supported: the W3C `traceparent`, from [`Queue::enqueue`](crate::Queue::enqueue) and
//! [`Queue::new_task`](crate::Queue::new_task) to the span of a [`Worker`](crate::Worker) that runs one task, or that of
//! [`Job::traceparent`](crate::Job::traceparent); a program that is called by others goes on from them by
//! [`continue_from`]. Not supported: `tracestate` and baggage, which have no room there;
//! the span of a batch, which has as many origins as tasks (link them with `Job::traceparent`); tasks of a schedule and
//! orders of a sale, which nobody's span puts in. A content type with no room for it goes without.
//!
//! With `tracing-opentelemetry` it is this; the whole way to a collector is in `examples/traces.rs`.
//!
//! ```
//! use std::collections::HashMap;
//!
//! use opentelemetry::propagation::TextMapPropagator;
//! use opentelemetry_sdk::propagation::TraceContextPropagator;
//! use rushgate::TraceParent;
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

/// A program's tracing library, as far as traces go through a queue.
pub trait TraceContext: Send + Sync + 'static {
    /// The span that the caller is in, if it is in one.
    fn current(&self) -> Option<TraceParent>;

    /// Makes `span`, which has not been entered yet, go on from `parent`: as its child, or by a link.
    fn continue_in(&self, span: &Span, parent: &TraceParent);
}

/// Has tasks carry their traces from now on, in all of this process.
///
/// # Errors
/// [`is_invalid`](Error::is_invalid) if that was done before.
pub fn set_trace_context(context: impl TraceContext) -> Result<()> {
    let set = CONTEXT.set(Box::new(context));
    set.map_err(|_| Error::invalid("the trace context", "is set already; once is for the whole process"))
}

/// The content with the trace of the span that the caller is in, as [`Queue::new_task`](crate::Queue::new_task) makes it:
/// for a program that makes a [`NewTask`](crate::NewTask) by itself. As it is if traces are not [set](set_trace_context),
/// if there is no span, or if it has a trace already.
pub fn carried(payload: Payload) -> Payload {
    let current = CONTEXT.get().and_then(|context| context.current());
    // One who says where it comes from knows better.
    match current.filter(|_| payload.content_type().traceparent().is_none()) {
        Some(parent) => payload.with_traceparent(&parent).unwrap_or(payload),
        None => payload,
    }
}

/// Makes `span`, which has not been entered yet, go on from `parent`, if traces are [set](set_trace_context): for a program
/// that is called by others and puts tasks in for them.
pub fn continue_from(span: &Span, parent: &TraceParent) {
    if let Some(context) = CONTEXT.get() {
        context.continue_in(span, parent);
    }
}

pub(crate) fn continue_in(span: &Span, payload: &Payload) {
    if let Some(context) = CONTEXT.get()
        && let Some(parent) = payload.content_type().traceparent()
    {
        context.continue_in(span, &parent);
    }
}
