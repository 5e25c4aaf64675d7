//! The only file that handles JSON, quiet, verbose and color. Data goes to stdout, everything else to stderr.

use std::borrow::Cow;
use std::fmt::{self, Display};
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::time::SystemTime;

use anyhow::Result;
use clap::ValueEnum;
use rushgate::Timestamp;
use serde::Serialize;
use serde_json::{Map, Value, json};
use unicode_width::UnicodeWidthStr;

use crate::exit::{Exit, Fault, ReaderGone, Verdict};
use crate::spans;

/// Moves the cursor to the start of the line and clears it.
pub(crate) const CLEAR_LINE: &str = "\r\x1b[2K";

/// The word that JSON has for a state, a kind or an outcome.
pub(crate) fn word(of: &impl Serialize) -> String {
    let value = serde_json::to_value(of).unwrap_or_default();
    let tagged = || ["outcome", "reason", "state"].into_iter().find_map(|tag| value[tag].as_str());
    let word = value.as_str().or_else(tagged);
    word.unwrap_or_default().to_owned()
}

/// Options that every command's output follows.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct OutputArgs {
    /// Print data as JSON on stdout and errors as JSON on stderr.
    #[arg(long)]
    pub(crate) json: bool,
    /// Print only errors on stderr.
    #[arg(long, short, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// Print more details on stderr.
    #[arg(long, short)]
    pub(crate) verbose: bool,
    /// Format of log lines on stderr: text or json.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t, hide_possible_values = true)]
    pub(crate) log_format: LogFormat,
    /// When to use color: auto, always or never. NO_COLOR is honored.
    #[arg(long, value_enum, value_name = "WHEN", default_value_t, hide_possible_values = true)]
    pub(crate) color: Color,
}

/// What a line of log is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Text for people.
    #[default]
    Text,
    /// One JSON object.
    Json,
}

/// When to use color.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

/// Output settings of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    /// The output may be cut short: the command changes nothing, so its reader may close the pipe.
    pub(crate) only_shows: bool,
    /// Data on stdout and errors on stderr are JSON.
    pub(crate) json: bool,
    /// Only errors are printed on stderr.
    pub(crate) quiet: bool,
    /// Details are printed on stderr.
    pub(crate) verbose: bool,
    /// Log lines on stderr are JSON.
    pub(crate) log_json: bool,
    pub(crate) color: bool,
}

/// Colors with fixed meanings.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Paint {
    /// Success.
    Good,
    /// Failure.
    Bad,
    /// Attention.
    Notice,
}

impl Paint {
    const END: &str = "\x1b[0m";

    const fn code(self) -> &'static str {
        match self {
            Self::Good => "\x1b[32m",
            Self::Bad => "\x1b[1;31m",
            Self::Notice => "\x1b[1;33m",
        }
    }
}

impl Output {
    pub(crate) fn new(args: &OutputArgs) -> Self {
        let OutputArgs { json, quiet, verbose, log_format, color } = *args;
        let auto = || {
            std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) && io::stderr().is_terminal()
        };
        let color = match color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => auto(),
        };
        let log_json = log_format == LogFormat::Json;
        Self { only_shows: true, json, quiet, verbose, log_json, color: color && !log_json }
    }

    /// Prints the answer: JSON, or text. Returns [`Exit::Done`].
    pub(crate) fn data(self, json: &impl Serialize, text: impl Display) -> Result<Exit> {
        self.answered(self.try_data(json, text))
    }

    /// Prints the answer, for a command that reverts its step if the answer cannot be written.
    pub(crate) fn try_data(self, json: &impl Serialize, text: impl Display) -> io::Result<()> {
        if self.json {
            stdout(|out| json_line(out, json))
        } else {
            stdout(|out| out.write_all(harmless(&text.to_string()).as_bytes()))
        }
    }

    /// Prints the answer as one line of text, or JSON.
    pub(crate) fn line(self, json: &impl Serialize, text: impl Display) -> Result<Exit> {
        self.data(json, format_args!("{text}\n"))
    }

    /// Prints the answer as JSON or raw bytes, with a final line break on a terminal.
    pub(crate) fn bytes(self, json: &impl Serialize, bytes: &[u8]) -> Result<Exit> {
        if self.json {
            return self.data(json, "");
        }
        let ends = bytes.is_empty() || bytes.ends_with(b"\n") || !io::stdout().is_terminal();
        self.answered(stdout(|out| {
            out.write_all(bytes).and_then(|()| if ends { Ok(()) } else { writeln!(out) })
        }))
    }

    /// Prints text that is the same with --json. The command ends if its reader has closed the pipe.
    pub(crate) fn text(self, text: impl Display) -> Result<()> {
        part(stdout(|out| write!(out, "{text}")))
    }

    /// Prints one line of many, or JSON. The command ends if its reader has closed the pipe.
    pub(crate) fn next_line(self, json: &impl Serialize, text: impl Display) -> Result<()> {
        if self.json { part(stdout(|out| json_line(out, json))) } else { self.text(format_args!("{text}\n")) }
    }

    /// A closed pipe is fine for a command that changes nothing. For any other command the answer must not be
    /// lost.
    pub(crate) fn answered(self, written: io::Result<()>) -> Result<Exit> {
        match written {
            Err(error) if error.kind() == ErrorKind::BrokenPipe && self.only_shows => Ok(Exit::Done),
            written => {
                written.map(|()| Exit::Done).map_err(|error| unwritten(&error, "the step took effect"))
            }
        }
    }

    /// Prints how a listing continues.
    pub(crate) fn more(self, after: Option<impl Display>) {
        if let Some(after) = after {
            self.note(format_args!("there may be more; continue with --after {after}"));
        }
    }

    /// Prints how a listing continues after a page of `n` entries, or `none` if there are no entries.
    pub(crate) fn page_end<T, K: Display>(
        self,
        page: &[T],
        n: u32,
        key: impl Fn(&T) -> &K,
        none: impl Display,
    ) {
        self.more(page.last().filter(|_| page.len() == n as usize).map(key));
        if page.is_empty() {
            self.remark(none);
        }
    }

    /// Prints progress to stderr.
    pub(crate) fn note(self, text: impl Display) {
        if !self.quiet {
            self.log("info", &text, || self.stderr(format_args!("{text}")));
        }
    }

    /// Prints a line of progress above a live line.
    pub(crate) fn over_progress(self, text: impl Display) {
        let clear = if io::stderr().is_terminal() { CLEAR_LINE } else { "" };
        self.note(format_args!("{clear}{text}"));
    }

    /// Prints a note where the text output would otherwise be empty. JSON needs none.
    pub(crate) fn remark(self, text: impl Display) {
        if !self.json {
            self.note(text);
        }
    }

    /// Details for --verbose.
    pub(crate) fn detail(self, text: impl Display) {
        if self.verbose {
            self.log("debug", &text, || self.stderr(format_args!("{text}")));
        }
    }

    /// A warning.
    pub(crate) fn warn(self, text: impl Display) {
        if !self.quiet {
            let warning = self.paint(Paint::Notice, "warning");
            self.log("warn", &text, || self.stderr(format_args!("{warning}: {text}")));
        }
    }

    /// An error after which the command continues.
    pub(crate) fn alarm(self, text: impl Display) {
        if !self.quiet {
            let error = self.paint(Paint::Bad, "error");
            self.log("error", &text, || self.stderr(format_args!("{error}: {text}")));
        }
    }

    /// Prints a log line as a JSON object.
    pub(crate) fn log_line(self, level: &str, message: &str, fields: Map<String, Value>) {
        let mut line = json!({ "timestamp": moment(now()), "level": level, "message": message });
        if !fields.is_empty() {
            line["fields"] = fields.into();
        }
        if let Some(parent) = spans::current() {
            line["traceparent"] = parent.as_str().into();
        }
        self.stderr(format_args!("{line}"));
    }

    /// Prints a log line as JSON or as text.
    fn log(self, level: &str, text: &dyn Display, as_text: impl FnOnce()) {
        if self.log_json {
            let message = text.to_string();
            return self.log_line(level, message.trim_start_matches(CLEAR_LINE), Map::new());
        }
        as_text();
    }

    /// Prints what failed, and returns the exit status.
    pub(crate) fn error(self, error: &anyhow::Error) -> Exit {
        if error.is::<ReaderGone>() {
            return Exit::Done;
        }
        let Verdict { exit, code, message, hint, may_have_happened } = Verdict::of(error);
        if self.json {
            let error = json!({ "code": code, "message": message, "hint": hint, "may_have_happened": may_have_happened });
            self.stderr(format_args!("{}", json!({ "error": error })));
            return exit;
        }
        if self.log_json {
            let mut fields = Map::from_iter([("code".to_owned(), code.into())]);
            fields.extend(hint.map(|hint| ("hint".to_owned(), hint.into())));
            fields.insert("may_have_happened".to_owned(), may_have_happened.into());
            self.log_line("error", &message, fields);
            return exit;
        }
        self.stderr(format_args!("{}: {message}", self.paint(Paint::Bad, "error")));
        if self.verbose {
            for cause in error.chain().skip(1) {
                self.stderr(format_args!("  because: {cause}"));
            }
        }
        if let Some(hint) = hint {
            self.stderr(format_args!("{}: {hint}", self.paint(Paint::Notice, "hint")));
        }
        exit
    }

    /// Text in a color.
    pub(crate) fn paint<T: Display>(self, paint: Paint, text: T) -> Painted<T> {
        Painted { paint: self.color.then_some(paint), text }
    }

    /// Ignores a failure: there is no other place to report it.
    fn stderr(self, line: fmt::Arguments<'_>) {
        let _ = writeln!(io::stderr().lock(), "{}", harmless(&line.to_string()));
    }
}

fn stdout(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let written = write(&mut out).and_then(|()| out.flush());
    // Discards the rest, which would otherwise be written again on drop.
    let _ = out.into_parts();
    written
}

fn part(written: io::Result<()>) -> Result<()> {
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Err(ReaderGone.into()),
        written => written.map_err(|error| unwritten(&error, "the answer is incomplete")),
    }
}

/// Output that could not be written, and the outcome of the step.
pub(crate) fn unwritten(error: &io::Error, step: &str) -> anyhow::Error {
    let message = format!("cannot write the answer to stdout: {error}; {step}");
    Fault::new(Exit::MayHaveHappened, "stdout", message).into()
}

fn json_line(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, value)?;
    writeln!(out)
}

/// Escape sequences that this program prints itself.
const OURS: [&str; 5] = [CLEAR_LINE, Paint::Good.code(), Paint::Bad.code(), Paint::Notice.code(), Paint::END];

/// Escapes control characters, except tabs, line breaks and [our own sequences](OURS). Labels and errors come
/// from other programs and could control the terminal.
fn harmless(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| !misleads(c) || matches!(c, '\n' | '\t');
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(c) = rest.chars().next() {
        let length = match OURS.iter().find(|ours| rest.starts_with(**ours)) {
            Some(ours) => ours.len(),
            None if is_plain(c) => c.len_utf8(),
            None => {
                out.extend(c.escape_default());
                rest = &rest[c.len_utf8()..];
                continue;
            }
        };
        out.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    Cow::Owned(out)
}

/// Whether a character controls the terminal, or reorders the text around it: control characters and the bidirectional
/// formatting characters of Unicode (UAX #9).
fn misleads(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Escapes control characters including line breaks.
fn in_line(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut line, c| {
        if misleads(c) {
            line.extend(c.escape_default())
        } else {
            line.push(c)
        }
        line
    })
}

/// Text that may be colored.
pub(crate) struct Painted<T> {
    paint: Option<Paint>,
    text: T,
}

impl<T: Display> Display for Painted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.paint {
            Some(paint) => write!(f, "{}{}{}", paint.code(), self.text, Paint::END),
            None => self.text.fmt(f),
        }
    }
}

/// A table with headings. Prints nothing if there are no rows.
pub(crate) struct Table<const N: usize> {
    head: [&'static str; N],
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    pub(crate) fn new(head: [&'static str; N], rows: impl IntoIterator<Item = [String; N]>) -> Self {
        Self { head, rows: rows.into_iter().map(|row| row.map(|cell| in_line(&cell))).collect() }
    }
}

impl<const N: usize> Display for Table<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rows.is_empty() {
            return Ok(());
        }
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].width());
            cells.max().unwrap_or(0).max(self.head[column].len())
        };
        let widths: [usize; N] = std::array::from_fn(width);
        let mut line = |cells: [&str; N]| {
            for (column, cell) in cells.into_iter().enumerate() {
                match column + 1 == N {
                    true => writeln!(f, "{cell}")?,
                    // `{:<n}` counts characters, but some take two columns of a terminal.
                    false => {
                        write!(f, "{cell}{:pad$}  ", "", pad = widths[column].saturating_sub(cell.width()))?
                    }
                }
            }
            Ok(())
        };
        line(self.head)?;
        self.rows.iter().try_for_each(|row| line(std::array::from_fn(|column| row[column].as_str())))
    }
}

/// A count with its noun in the singular or plural.
pub(crate) fn counted(n: u64, thing: &str) -> String {
    if n == 1 { format!("1 {thing}") } else { format!("{n} {thing}s") }
}

/// Time on this machine's clock.
fn now() -> Timestamp {
    SystemTime::now().try_into().unwrap_or_default()
}

/// A time in UTC with milliseconds, in RFC 3339.
pub(crate) fn moment(at: Timestamp) -> String {
    format!("{:.3}", jiff::Timestamp::try_from(at).unwrap_or(jiff::Timestamp::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_in_utc() {
        let at = |seconds: u64| moment(Timestamp::from_micros(seconds * 1_000_000 + 7_000));
        assert_eq!(at(0), "1970-01-01T00:00:00.007Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00.007Z");
        assert_eq!(at(1_795_228_136), "2026-11-21T02:28:56.007Z");
    }

    #[test]
    fn one_thing_is_in_the_singular() {
        assert_eq!(["0 tasks", "1 task", "2 tasks"], [0, 1, 2].map(|n| counted(n, "task")));
    }

    #[test]
    fn what_others_wrote_does_nothing_to_a_terminal() {
        assert_eq!(harmless("a\tb\n"), "a\tb\n");
        assert_eq!(harmless("a\x1b[2Jb\r\u{9b}1m\x7f"), "a\\u{1b}[2Jb\\r\\u{9b}1m\\u{7f}");
        let output = Output {
            only_shows: false,
            json: false,
            quiet: false,
            verbose: false,
            log_json: false,
            color: true,
        };
        let ours = format!("{CLEAR_LINE}{}", output.paint(Paint::Bad, "error"));
        assert_eq!(harmless(&ours), ours);
        let row = [["a\nb\x1b[31m".to_owned()]];
        assert_eq!(Table::new(["X"], row).to_string(), "X\na\\nb\\u{1b}[31m\n");
    }

    #[test]
    fn a_table_lines_up_and_an_empty_one_is_nothing() {
        let rows = [["mail".to_owned(), "1".to_owned()], ["é".to_owned(), "22".to_owned()]];
        assert_eq!(Table::new(["QUEUE", "N"], rows).to_string(), "QUEUE  N\nmail   1\né      22\n");
        let rows = [["订单队列".to_owned(), "1".to_owned()], ["mail".to_owned(), "2".to_owned()]];
        assert_eq!(Table::new(["QUEUE", "N"], rows).to_string(), "QUEUE     N\n订单队列  1\nmail      2\n");
        assert_eq!(Table::new(["QUEUE", "N"], []).to_string(), "");
    }
}
