//! Spans reach a collector, and a task's spans are linked to those of the client that enqueued it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crate::common::{Running, Said, Shop};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use prost::Message;
use rustix::process::Signal;
use serde_json::Value as Json;

const RETRY_BUDGET: Duration = Duration::from_secs(30);

/// A span and the service that sent it.
#[derive(Clone, Debug)]
struct Seen {
    service: String,
    span: Span,
}

#[derive(Default)]
struct Arrived {
    spans: Mutex<Vec<Seen>>,
    more: Condvar,
}

/// A collector on loopback that accepts OTLP over HTTP at /v1/traces.
struct Collector {
    endpoint: String,
    arrived: Arc<Arrived>,
}

impl Collector {
    fn start() -> Self {
        Self::that_answers("200 OK")
    }

    fn that_answers(status: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let arrived = Arc::<Arrived>::default();
        let all = Arc::clone(&arrived);
        std::thread::spawn(move || {
            for connection in listener.incoming().map_while(Result::ok) {
                let all = Arc::clone(&all);
                std::thread::spawn(move || while serve(&connection, status, &all).is_some() {});
            }
        });
        Self { endpoint, arrived }
    }

    /// A command that exports its spans to this collector.
    fn of(&self, shop: &Shop, service: &str, args: &[&str]) -> Command {
        let mut command = shop.command(args);
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", &self.endpoint).env("OTEL_SERVICE_NAME", service);
        command
    }

    /// The first span with this name that matches.
    fn span(&self, name: &str, is_so: impl Fn(&Span) -> bool) -> Seen {
        let is_it = |seen: &&Seen| seen.span.name == name && is_so(&seen.span);
        let spans = self.arrived.spans.lock().unwrap();
        let missing = |spans: &mut Vec<Seen>| spans.iter().find(is_it).is_none();
        let (spans, _) = self.arrived.more.wait_timeout_while(spans, RETRY_BUDGET, missing).unwrap();
        let names = || spans.iter().map(|seen| &*seen.span.name).collect::<Vec<_>>();
        spans.iter().find(is_it).cloned().unwrap_or_else(|| panic!("no span `{name}` among {:?}", names()))
    }
}

/// Answers one request of a connection.
fn serve(mut connection: &TcpStream, status: &str, arrived: &Arrived) -> Option<()> {
    let mut reader = BufReader::new(connection);
    let (mut line, mut length) = (String::new(), 0);
    reader.read_line(&mut line).ok().filter(|n| *n > 0)?;
    assert_eq!(line.trim(), "POST /v1/traces HTTP/1.1");
    loop {
        line.clear();
        reader.read_line(&mut line).ok().filter(|n| *n > 0)?;
        let header = line.trim().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(n) = header.strip_prefix("content-length:") {
            length = n.trim().parse().unwrap();
        }
        if let Some(media) = header.strip_prefix("content-type:") {
            assert_eq!(media.trim(), "application/x-protobuf");
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let request = ExportTraceServiceRequest::decode(body.as_slice()).unwrap();
    for resource in request.resource_spans {
        let attributes = resource.resource.unwrap_or_default().attributes;
        let service = attributes.into_iter().find(|attribute| attribute.key == "service.name");
        let service = match service.and_then(|service| service.value?.value) {
            Some(Value::StringValue(name)) => name,
            other => panic!("the service has no name: {other:?}"),
        };
        let spans = resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
        arrived.spans.lock().unwrap().extend(spans.map(|span| Seen { service: service.clone(), span }));
        arrived.more.notify_all();
    }
    let head = "content-type: application/x-protobuf\r\ncontent-length: 0";
    connection.write_all(format!("HTTP/1.1 {status}\r\n{head}\r\n\r\n").as_bytes()).ok()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn attribute(span: &Span, key: &str) -> Option<String> {
    let found = span.attributes.iter().find(|attribute| attribute.key == key)?;
    Some(match found.value.clone()?.value? {
        Value::StringValue(text) => text,
        Value::IntValue(number) => number.to_string(),
        other => panic!("{key} is {other:?}"),
    })
}

fn lines(text: &str) -> Vec<Json> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}")))
        .collect()
}

#[test]
fn a_trace_goes_from_the_caller_through_the_server_and_the_queue_to_the_workers_command() {
    let (shop, collector) = (Shop::new(), Collector::start());
    let mut server =
        Running::of(collector.of(&shop, "shop", &["serve", "--listen", "127.0.0.1:0", "--json"]));
    let said: Json = serde_json::from_str(&server.line()).unwrap();
    let address = said["url"].as_str().unwrap().strip_prefix("http://").unwrap().to_owned();

    let (trace, caller) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
    let body = r#"{"id": "t1", "payload": {"text": "x"}}"#;
    let mut connection = TcpStream::connect(&address).unwrap();
    let head = format!(
        "POST /v1/queues/mail/tasks HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         traceparent: 00-{trace}-{caller}-01\r\nidempotency-key: k1\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    connection.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    let status = answer.split(' ').nth(1).unwrap();
    assert!(status.starts_with('2'), "{answer}");

    let command = ["--exec", "sh", "-c", "printf %s \"$TRACEPARENT\" > parent"];
    let work = [&["work", "mail", "--until-empty", "--log-format", "json"][..], &command].concat();
    let worked = Said::from(collector.of(&shop, "worker", &work).output().unwrap());
    assert_eq!(worked.status, 0, "{}", worked.err);
    let run = collector.span("task", |_| true);
    // The worker has ended and sent its spans. The server sends its own when it ends.
    server.signal(Signal::TERM);
    assert_eq!(server.end().status, 0);
    let request = collector.span("POST /v1/queues/{queue}/tasks", |_| true);

    assert_eq!((request.service.as_str(), run.service.as_str()), ("shop", "worker"));
    let (request, run) = (request.span, run.span);
    assert_eq!(hex(&request.trace_id), trace);
    assert_eq!(hex(&request.parent_span_id), caller, "the request is a child of the caller's span");
    assert_eq!(hex(&run.trace_id), trace);
    assert_eq!(run.parent_span_id, request.span_id, "the run is a child of the request");
    assert_eq!((request.kind(), run.kind()), (SpanKind::Server, SpanKind::Consumer));
    assert_eq!(attribute(&request, "http.response.status_code").as_deref(), Some(status));
    assert_eq!(attribute(&run, "queue").as_deref(), Some("mail"));
    assert_eq!(attribute(&run, "id").as_deref(), Some("t1"));
    assert_ne!(run.status.unwrap_or_default().code(), StatusCode::Error);
    let parent = format!("00-{trace}-{}-01", hex(&run.span_id));
    assert_eq!(std::fs::read_to_string(shop.path("parent")).unwrap(), parent, "so does the command");
    let line = lines(&worked.err).into_iter().find(|line| line["traceparent"] == *parent);
    assert!(
        line.is_some_and(|line| line["message"].as_str().unwrap().starts_with("done t1")),
        "{}",
        worked.err
    );
}

#[test]
fn a_task_that_fails_has_a_span_that_says_so() {
    let (shop, collector) = (Shop::new(), Collector::start());
    shop.ok(&["queue", "enqueue", "mail", "bad"]);
    shop.ok(&["queue", "enqueue", "mail", "good"]);
    let command = "test \"$RUSHGATE_TASK\" = good || exit 65";
    let work = ["work", "mail", "--until-empty", "--exec", "sh", "-c", command];
    let worked = Said::from(collector.of(&shop, "worker", &work).output().unwrap());
    assert_eq!(worked.status, 0, "{}", worked.err);
    let code = |id: &str| {
        let of_it = |span: &Span| attribute(span, "id").as_deref() == Some(id);
        collector.span("task", of_it).span.status.unwrap_or_default().code()
    };
    assert_eq!(code("bad"), StatusCode::Error);
    assert_ne!(code("good"), StatusCode::Error);
}

#[test]
fn a_collector_that_is_away_or_refuses_costs_a_warning_and_no_task() {
    // A port without a listener.
    let nobody = "127.0.0.1:1";
    let refuses = Collector::that_answers("403 Forbidden");
    let away = Collector { endpoint: format!("http://{nobody}"), arrived: Arc::default() };
    for (collector, why) in [(refuses, "status 403 Forbidden"), (away, "refused")] {
        let shop = Shop::new();
        shop.ok(&["queue", "enqueue", "mail", "t1"]);
        let work = ["work", "mail", "--until-empty", "--exec", "true"];
        let said = Said::from(collector.of(&shop, "worker", &work).output().unwrap());
        assert_eq!(said.status, 0, "{}", said.err);
        assert!(said.err.contains("1 done"), "{}", said.err);
        let warnings: Vec<_> = said.err.lines().filter(|line| line.contains("collector")).collect();
        assert!(warnings.len() == 1 && warnings[0].contains(why), "{}", said.err);
    }
}

#[test]
fn what_the_environment_asks_for_and_is_not_there_is_refused_at_the_start() {
    let shop = Shop::new();
    let work = ["work", "mail", "--until-empty", "--exec", "true"];
    for (name, value, hint) in [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "http/protobuf"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "no url", "OTEL_EXPORTER_OTLP_ENDPOINT=http://HOST:4318"),
    ] {
        let mut command = shop.command(&work);
        command.env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9").env(name, value);
        let refused = Said::from(command.output().unwrap());
        assert!(refused.status == 2 && refused.err.contains(hint), "{} {}", refused.status, refused.err);
        let disabled = Said::from(command.env("OTEL_SDK_DISABLED", "true").output().unwrap());
        assert_eq!(disabled.status, 0, "{}", disabled.err);
    }
}

#[test]
fn every_line_of_log_is_json_if_that_is_wanted() {
    let shop = Shop::new();
    shop.ok(&["queue", "enqueue", "mail", "t1"]);
    let json = ["--log-format", "json", "--verbose", "--color", "always"];
    let said = shop.run(&[&json[..], &["work", "mail", "--until-empty", "--exec", "true"]].concat());
    assert_eq!(said.status, 0, "{}", said.err);
    let lines_of_work = lines(&said.err);
    assert!(lines_of_work.iter().all(|line| line["timestamp"].as_str().unwrap().ends_with('Z')));
    let level_of = |start: &str| {
        let starts = |line: &&Json| line["message"].as_str().unwrap().starts_with(start);
        let found = lines_of_work.iter().find(starts).unwrap_or_else(|| panic!("no {start}: {}", said.err));
        found["level"].clone()
    };
    assert_eq!(level_of("store sqlite:rushgate.db"), "debug");
    assert_eq!(level_of("done t1"), "info");
    assert_eq!(level_of("1 done"), "info");
    let said = shop.run(&["--log-format", "json", "queue", "stats", "no queue"]);
    let error = lines(&said.err).pop().unwrap();
    assert_eq!(
        (said.status, &error["level"], &error["fields"]["code"]),
        (2, &"error".into(), &"invalid".into())
    );
    let said = shop.run(&["--log-format", "xml", "queue", "ls"]);
    assert!(said.status == 2 && said.err.contains("json"), "{} {}", said.status, said.err);
}
