//! Traces through a queue, exported to an OpenTelemetry collector: the span of the worker is a child of the
//! span that enqueued the task.
//!
//! The example runs its own collector and prints the spans that it receives. To export to yours, pass its
//! address: `cargo run -p rushgate --example traces -- http://localhost:4318`.

use std::collections::HashMap;

use async_trait::async_trait;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::{Request, Response};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use opentelemetry::propagation::TextMapPropagator;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::trace::v1::Span as Sent;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::SdkTracerProvider;
use prost::Message;
use rushgate::queue::TraceParent;
use rushgate::trace::{TraceContext, set_trace_context};
use rushgate::worker::State;
use rushgate::{CancellationToken, Rushgate, Worker};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tracing::{Instrument, Span, info_span};
use tracing_opentelemetry::OpenTelemetrySpanExt;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

type Fault = Box<dyn std::error::Error + Send + Sync>;

/// Adapter between Rushgate and OpenTelemetry.
struct OpenTelemetry(TraceContextPropagator);

impl TraceContext for OpenTelemetry {
    fn current(&self) -> Option<TraceParent> {
        let mut carrier = HashMap::new();
        self.0.inject_context(&Span::current().context(), &mut carrier);
        carrier.get("traceparent")?.parse().ok()
    }

    fn continue_in(&self, span: &Span, parent: &TraceParent) {
        let carrier = HashMap::from([("traceparent".to_owned(), parent.to_string())]);
        // Fails only for a span that is not collected, which has no parent either.
        let _ = span.set_parent(self.0.extract(&carrier));
    }
}

/// HTTP client of the exporter. The exporter's feature `reqwest-client` provides one too.
#[derive(Debug)]
struct Sender {
    client: Client<HttpConnector, Full<Bytes>>,
    runtime: Handle,
}

#[async_trait]
impl HttpClient for Sender {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        // The exporter runs on a thread of its own, without a runtime.
        let sent = self.runtime.spawn(async move {
            let (head, body) = client.request(request.map(Full::new)).await?.into_parts();
            Ok::<_, HttpError>(Response::from_parts(head, body.collect().await?.to_bytes()))
        });
        sent.await?
    }
}

/// Exports spans to `collector`, and makes tasks carry traces.
fn trace_to(collector: &str) -> Result<SdkTracerProvider, Fault> {
    let client = Client::builder(TokioExecutor::new()).build_http();
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(Sender { client, runtime: Handle::current() })
        .with_endpoint(format!("{collector}/v1/traces"))
        .build()?;
    let resource = Resource::builder().with_service_name("pizzeria").build();
    let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource).build();
    let spans = tracing_opentelemetry::layer().with_tracer(provider.tracer("pizzeria"));
    // Excludes the exporter's own spans.
    let ours = filter_fn(|metadata| {
        metadata.target().starts_with("rushgate") || metadata.target().starts_with(module_path!())
    });
    tracing_subscriber::registry().with(spans.with_filter(ours)).try_init()?;
    set_trace_context(OpenTelemetry(TraceContextPropagator::new()))?;
    Ok(provider)
}

async fn bake(pizza: String, State(done): State<CancellationToken>) {
    // A span of the handler is a child of the task's span.
    async { tokio::task::yield_now().await }.instrument(info_span!("oven", pizza)).await;
    done.cancel();
}

/// Enqueues a task within a span, and runs a worker until it is done.
async fn order_a_pizza() -> rushgate::Result<()> {
    let store = std::env::var("RUSHGATE_STORE").unwrap_or("sqlite::memory:".into());
    let client = Rushgate::connect(&store).await?;
    let orders = client.queue_of::<String>("orders")?;
    // The task carries the span in which `enqueue` is called.
    let order = async { orders.enqueue("order:1", "quattro stagioni".to_owned()).kind("bake").send().await };
    order.instrument(info_span!("checkout")).await?;
    let done = CancellationToken::new();
    let worker = Worker::new(&orders).state(done.clone()).register("bake", bake);
    worker.run(done).await?;
    client.close().await
}

/// A collector that answers every request with 200, until it has received spans with all these names.
async fn collect(listener: TcpListener, names: &[&str]) -> Result<Vec<Sent>, Fault> {
    let mut spans: Vec<Sent> = Vec::new();
    loop {
        let mut stream = BufReader::new(listener.accept().await?.0);
        while let Some(body) = next_request(&mut stream).await? {
            let sent = ExportTraceServiceRequest::decode(body.as_slice())?;
            let scopes = sent.resource_spans.into_iter().flat_map(|of| of.scope_spans);
            spans.extend(scopes.flat_map(|scope| scope.spans));
            let answer =
                "HTTP/1.1 200 OK\r\ncontent-type: application/x-protobuf\r\ncontent-length: 0\r\n\r\n";
            stream.write_all(answer.as_bytes()).await?;
            if names.iter().all(|name| spans.iter().any(|span| span.name == *name)) {
                return Ok(spans);
            }
        }
    }
}

/// Body of the next request; `None` if the connection has ended.
async fn next_request(
    stream: &mut (impl AsyncBufReadExt + AsyncReadExt + Unpin),
) -> std::io::Result<Option<Vec<u8>>> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        if line.trim().is_empty() {
            break;
        }
        if let Some(n) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = n.trim().parse().unwrap_or(0);
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await?;
    Ok(Some(body))
}

#[tokio::main]
async fn main() -> Result<(), Fault> {
    tell(std::env::args().nth(1)).await
}

/// Exports to `yours`, or to a local collector and checks the received spans.
#[expect(clippy::print_stdout, reason = "an example tells its story")]
pub(crate) async fn tell(yours: Option<String>) -> Result<(), Fault> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let own = format!("http://{}", listener.local_addr()?);
    let provider = trace_to(yours.as_ref().unwrap_or(&own))?;
    let collecting = yours
        .is_none()
        .then(|| tokio::spawn(async move { collect(listener, &["checkout", "task", "oven"]).await }));
    order_a_pizza().await?;
    // Sends the remaining spans. The call blocks until they are sent, so it runs on a blocking thread.
    tokio::task::spawn_blocking(move || provider.shutdown()).await??;

    let Some(collecting) = collecting else { return Ok(()) };
    let spans = collecting.await??;
    let find = |name: &str| spans.iter().find(|span| span.name == name).ok_or("a span is missing");
    let (checkout, task, oven) = (find("checkout")?, find("task")?, find("oven")?);
    for (child, parent) in [(task, checkout), (oven, task)] {
        assert_eq!(child.trace_id, parent.trace_id, "one trace");
        assert_eq!(child.parent_span_id, parent.span_id);
        println!("`{}` is a child of `{}`", child.name, parent.name);
    }
    Ok(())
}
