//! What the library says while it works, as lines on stderr.

use std::fmt::{self, Write};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::output::Output;

/// Shows what deserves attention from here on, or everything if that was asked for.
pub(crate) fn show(output: Output) {
    let level = if output.is_verbose() { Level::DEBUG } else { Level::WARN };
    // Whoever came first stays.
    let _ = tracing::subscriber::set_global_default(Log { output, level });
}

struct Log {
    output: Output,
    level: Level,
}

/// What becomes of a task is said by whoever carries it out, once.
fn is_about_a_task(metadata: &Metadata<'_>) -> bool {
    metadata.fields().field("attempt").is_some()
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let ours = metadata.is_event() && metadata.target().starts_with("rushgate");
        ours && *metadata.level() <= self.level && !is_about_a_task(metadata)
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        let text = format_args!("{}{}", line.message, line.fields).to_string();
        match *event.metadata().level() {
            Level::ERROR | Level::WARN => self.output.warn(text),
            _ => self.output.note(text),
        }
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
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
