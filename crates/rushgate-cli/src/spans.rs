//! The spans of this program: which are ours, and how a trace continues through a queue.

use std::collections::HashMap;

use opentelemetry::propagation::TextMapPropagator;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use rushgate::queue::TraceParent;
use rushgate::trace::TraceContext;
use tracing::{Metadata, Span};
use tracing_opentelemetry::OpenTelemetrySpanExt;

/// True for spans and events of Rushgate itself.
pub(crate) fn is_ours(metadata: &Metadata<'_>) -> bool {
    metadata.target().starts_with("rushgate")
}

/// Current span as a W3C traceparent, if spans are exported.
pub(crate) fn current() -> Option<TraceParent> {
    let mut carrier = HashMap::new();
    TraceContextPropagator::new().inject_context(&Span::current().context(), &mut carrier);
    carrier.get("traceparent")?.parse().ok()
}

/// Carries traces through queues.
pub(crate) struct Spans;

impl TraceContext for Spans {
    fn current(&self) -> Option<TraceParent> {
        current()
    }

    fn continue_in(&self, span: &Span, parent: &TraceParent) {
        let carrier = HashMap::from([("traceparent".to_owned(), parent.to_string())]);
        // Fails only for a span that is not collected, which has no parent either.
        let _ = span.set_parent(TraceContextPropagator::new().extract(&carrier));
    }
}
