//! JSON schemas of the types that are texts and numbers in JSON. Those of structs and enums are derived.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::{
    Beacon, BuyerId, Commitment, ContentType, DrawSecret, IdempotencyKey, Kind, LockName, OutboxId, Priority,
    QueueName, ReservationId, SaleId, ScheduleId, Sku, TaskId, TaskKey, Ticket, Token, TraceParent, WorkerId,
};

pub use crate::field::LABEL;

/// Pattern of a name at the end of a text. A schema counts characters, and those beyond ASCII have up to four bytes.
/// So it allows less than a name may be, and the ID of a task in an answer has the limit alone: the tasks of a schedule
/// have its name and a time.
macro_rules! name {
    () => {
        concat!(
            "(?![.]{1,2}$)([!-z|~]{1,200}|[^\\s\\u0000-\\u001f\\u007f-\\u009f{}",
            "\\u00ad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b-\\u200f\\u202a-\\u202e",
            "\\u2060-\\u206f\\u3164\\ufdd0-\\ufdef\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\ufffb\u{1bca0}-\u{1bca3}\u{1d173}-\u{1d17a}\u{e0000}-\u{e0fff}",
            "]{1,50})$"
        )
    };
}

macro_rules! inline {
    ($($name:ident)* = $schema:tt) => {$(
        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    )*};
}

inline!(BuyerId ContentType IdempotencyKey LockName OutboxId QueueName SaleId ScheduleId Sku TaskId TaskKey
    WorkerId = {
    "type": "string", "minLength": 1, "maxLength": 200, "pattern": concat!("^", name!()),
});
// Three numbers and the task ID.
inline!(Ticket = {
    "type": "string", "minLength": 1, "maxLength": 251, "pattern": concat!("^([0-9a-fA-F]{1,16}[.]){3}", name!()),
});
inline!(Token ReservationId = { "type": "string", "pattern": "^[0-9a-fA-F]{32}$" });
inline!(Kind = { "type": "string", "pattern": "^[0-9A-Za-z._:/-]{1,80}$" });
inline!(TraceParent = { "type": "string", "pattern": "^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$" });
inline!(Priority = { "type": "integer", "minimum": 0, "maximum": 9 });
inline!(Commitment DrawSecret = { "type": "string", "pattern": "^[0-9a-f]{64}$" });
inline!(Beacon = { "type": "string", "minLength": 1, "maxLength": 256 });
