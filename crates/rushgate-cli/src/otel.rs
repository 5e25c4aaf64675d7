//! Exports spans to an OpenTelemetry collector over OTLP/HTTP, configured by the `OTEL_*` variables.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Result;
use async_trait::async_trait;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use hyper::{Request, Response};
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{SpanExporter, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use rushgate::trace::set_trace_context;
use rushgate_http::{Connections, connections, connector};
use tokio::runtime::Handle;
use tokio::time::timeout;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::Layer;
use tracing_subscriber::registry::LookupSpan;

use crate::exit::{Fault, chain};
use crate::output::Output;
use crate::spans::{Spans, is_ours};

/// Maximum size of a collector's answer that is read, in bytes.
const ANSWER_MAX: usize = 1 << 20;
/// Time limit for a collector's answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Time limit for the last spans when the command ends.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// The span exporter, if a collector is configured.
pub(crate) struct Telemetry(Option<Sending>);

struct Sending {
    provider: SdkTracerProvider,
    trouble: Trouble,
}

/// Endpoint variables; the first that is set counts.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];

/// Starts the exporter if the environment names a collector. Call it within a runtime.
///
/// # Errors
/// A [`Fault`] of usage if a variable has an unsupported value.
pub(crate) fn start(output: Output) -> Result<Telemetry> {
    if !is_wanted() {
        return Ok(Telemetry(None));
    }
    check_protocol()?;
    let trouble = Trouble { output, is_told: Arc::default() };
    let endpoint = ENDPOINTS.into_iter().find_map(variable).unwrap_or_default();
    let connections = connections(connector(endpoint.starts_with("https://"))?);
    let sender = Sender { connections, runtime: Handle::current(), trouble: trouble.clone() };
    let exporter = SpanExporter::builder().with_http().with_http_client(sender).build();
    let exporter = exporter.map_err(|error| unusable(&error.to_string()))?;
    let provider =
        SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource()).build();
    // The trace context is set once per process, and only here.
    let _ = set_trace_context(Spans);
    Ok(Telemetry(Some(Sending { provider, trouble })))
}

fn unusable(why: &str) -> Fault {
    Fault::usage(format_args!("cannot send spans as configured by the OTEL_* variables: {why}"))
        .hint("set OTEL_EXPORTER_OTLP_ENDPOINT=http://HOST:4318, or OTEL_SDK_DISABLED=true to disable spans")
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Without an endpoint variable, nothing is exported: OpenTelemetry's default would make every command look
/// for a collector.
fn is_wanted() -> bool {
    let is = |name: &str, word: &str| variable(name).is_some_and(|value| value.eq_ignore_ascii_case(word));
    let asked =
        ENDPOINTS.into_iter().any(|name| variable(name).is_some()) || is("OTEL_TRACES_EXPORTER", "otlp");
    asked && !is("OTEL_SDK_DISABLED", "true") && !is("OTEL_TRACES_EXPORTER", "none")
}

/// Refuses protocols other than the supported one.
fn check_protocol() -> Result<(), Fault> {
    let named = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];
    match named.into_iter().find_map(variable) {
        Some(other) if other != "http/protobuf" => {
            Err(unusable(&format!("the protocol `{other}` is not supported; use http/protobuf")))
        }
        _ => Ok(()),
    }
}

/// Resource from `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES`. The default service name is `rushgate`.
fn resource() -> Resource {
    let attributes = variable("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
    let is_named = variable("OTEL_SERVICE_NAME").is_some() || attributes.contains("service.name=");
    let named = (!is_named).then(|| KeyValue::new("service.name", "rushgate"));
    Resource::builder().with_attributes(named).build()
}

impl Telemetry {
    /// Layer that exports the spans of this program.
    pub(crate) fn layer<S>(&self) -> Option<impl Layer<S> + use<S>>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let tracer = self.0.as_ref()?.provider.tracer("rushgate");
        let layer =
            tracing_opentelemetry::layer().with_tracer(tracer).with_location(false).with_threads(false);
        // Excludes the exporter's own spans.
        let ours = |metadata: &Metadata<'_>| is_ours(metadata) && *metadata.level() <= Level::INFO;
        Some(layer.with_filter(filter_fn(ours)))
    }

    /// Exports the remaining spans, within a few seconds.
    pub(crate) async fn end(self) {
        let Some(Sending { provider, trouble }) = self.0 else { return };
        let ended = tokio::task::spawn_blocking(move || provider.shutdown_with_timeout(LAST_WORDS)).await;
        if let Ok(Err(error)) = ended {
            trouble.tell(&error.to_string());
        }
    }
}

/// Reports once why spans could not be exported; the work continues without them.
#[derive(Clone, Debug)]
struct Trouble {
    output: Output,
    is_told: Arc<AtomicBool>,
}

impl Trouble {
    fn tell(&self, why: &str) {
        if !self.is_told.swap(true, Relaxed) {
            self.output.warn(format_args!("cannot send spans to the collector: {why}"));
        }
    }
}

/// Sends requests from any thread.
#[derive(Debug)]
struct Sender {
    connections: Connections,
    runtime: Handle,
    trouble: Trouble,
}

#[async_trait]
impl HttpClient for Sender {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let connections = self.connections.clone();
        let sent = self.runtime.spawn(async move {
            let answer = async {
                let (head, body) = connections.request(request.map(Full::new)).await?.into_parts();
                let body = Limited::new(body, ANSWER_MAX).collect().await?.to_bytes();
                Ok::<_, HttpError>(Response::from_parts(head, body))
            };
            timeout(ANSWER_WITHIN, answer).await?
        });
        let answer = sent.await.map_err(HttpError::from).flatten();
        match &answer {
            Ok(answer) if !answer.status().is_success() => {
                self.trouble.tell(&format!("status {}", answer.status()));
            }
            Ok(_) => {}
            Err(error) => self.trouble.tell(&chain(&**error)),
        }
        answer
    }
}
