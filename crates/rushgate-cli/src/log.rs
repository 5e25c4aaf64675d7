//! Log lines on stderr, and spans for an OpenTelemetry collector.

use std::fmt::{self, Write};

use anyhow::Result;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};

use crate::otel::{self, Telemetry};
use crate::output::Output;
use crate::spans::is_ours;

/// Logs warnings and errors from here on, or everything with --verbose.
pub(crate) fn show(output: Output) {
    // Only the first subscriber counts.
    let _ = tracing::subscriber::set_global_default(Registry::default().with(lines(output)));
}

/// Starts logging, and exports spans to the collector named in the environment until the returned value is
/// ended.
pub(crate) fn start(output: Output) -> Result<Telemetry> {
    let telemetry = otel::start(output)?;
    let subscriber = Registry::default().with(lines(output)).with(telemetry.layer());
    let _ = tracing::subscriber::set_global_default(subscriber);
    Ok(telemetry)
}

fn lines<S: Subscriber + for<'a> LookupSpan<'a>>(output: Output) -> impl Layer<S> {
    let level = if output.verbose { Level::DEBUG } else { Level::WARN };
    Lines { output }.with_filter(filter_fn(move |metadata| {
        metadata.is_event() && is_ours(metadata) && *metadata.level() <= level && !is_about_a_task(metadata)
    }))
}

/// The worker logs the outcome of a task, once.
fn is_about_a_task(metadata: &Metadata<'_>) -> bool {
    metadata.fields().field("attempt").is_some()
}

struct Lines {
    output: Output,
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Lines {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if self.output.quiet {
            return;
        }
        let metadata = event.metadata();
        if self.output.log_json {
            let mut fields = Fields::default();
            event.record(&mut fields);
            let message = fields.0.remove("message").unwrap_or_default();
            let level = metadata.level().as_str().to_ascii_lowercase();
            return self.output.log_line(&level, message.as_str().unwrap_or_default(), fields.0);
        }
        let mut line = Line::default();
        event.record(&mut line);
        let text = format_args!("{}{}", line.message, line.fields).to_string();
        match *metadata.level() {
            Level::ERROR => self.output.alarm(text),
            Level::WARN => self.output.warn(text),
            _ => self.output.note(text),
        }
    }
}

#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

#[derive(Default)]
struct Fields(Map<String, Value>);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name().to_owned(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}
