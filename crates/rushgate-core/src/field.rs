//! Fields of requests: their words in messages, and their names in JSON.

use std::borrow::Cow;
use std::fmt;

/// Pattern of a label for operators: at most 200 bytes without control characters.
#[cfg(feature = "schema")]
pub const LABEL: &str = "^([ -~]{0,200}|[^\\u0000-\\u001f\\u007f-\\u009f]{0,50})$";

macro_rules! fields {
    ($($name:ident = $words:literal, $json:literal;)*) => {
        /// A field of a request that an error is about.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Field {
            $(#[doc = concat!("`", $json, "`: ", $words, ".")] $name,)*
        }

        impl Field {
            /// Words for the field in a message.
            pub const fn words(self) -> &'static str {
                match self { $(Self::$name => $words,)* }
            }

            /// Name of the field in JSON.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $json,)* }
            }
        }
    };
}

fields! {
    PayloadBase64 = "the payload in base64", "payload_base64";
    Lease = "the lease", "lease_ms";
    Delay = "the delay", "delay_ms";
    Deadline = "the deadline", "deadline_after_ms";
    MaxWait = "the debounce max_wait", "max_wait_ms";
    UniqueFor = "the uniqueness window", "unique_for_ms";
    MaxAttempts = "the number of attempts", "max_attempts";
    After = "the number of dependencies in one call", "after";
    Limit = "the page limit", "limit";
    Cursor = "the cursor", "after";
    Prefix = "the ID prefix", "prefix";
    Concurrency = "the concurrency", "concurrency";
    Events = "the number of events kept", "events";
    RetentionAge = "the retention age", "retention";
    RetentionCount = "the retention count", "retention";
    Rate = "the rate", "rate";
    RatePeriod = "the rate period", "rate";
    Percent = "the percentage", "percent";
    Note = "the note", "note";
    Label = "the owner label", "label";
    Worker = "the worker name", "worker";
    Every = "the interval", "every_ms";
    Cron = "the cron pattern", "cron";
    Zone = "the time zone", "zone";
    Units = "the stock", "units";
    PerBuyer = "the limit per buyer", "per_buyer";
    Skus = "the number of SKUs", "skus";
    Metadata = "the metadata", "metadata";
    Lines = "the number of lines", "lines";
    Quantity = "the quantity", "quantity";
    Pass = "the lifetime of the admission token", "pass_ms";
    Beacon = "the beacon", "beacon";
    Payload = "the payload", "payload";
    Result = "the result", "result";
    Priority = "the priority", "priority";
    Kind = "the kind", "kind";
    Ticket = "the ticket", "ticket";
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())
    }
}

/// What an [invalid](crate::Error::invalid) argument is called: a [`Field`], or any words.
#[derive(Debug)]
pub struct Subject<'a> {
    pub(crate) words: Cow<'a, str>,
    pub(crate) field: Option<&'static str>,
}

impl From<Field> for Subject<'_> {
    fn from(field: Field) -> Self {
        Self { words: field.words().into(), field: Some(field.name()) }
    }
}

impl<'a> From<&'a str> for Subject<'a> {
    fn from(words: &'a str) -> Self {
        Self { words: words.into(), field: None }
    }
}

impl<'a> From<&'a String> for Subject<'a> {
    fn from(words: &'a String) -> Self {
        words.as_str().into()
    }
}
