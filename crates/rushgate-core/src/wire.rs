//! Lossless JSON of requests and answers, with which a client carries out verbs through a server.
//!
//! The serde form of a type is made for readers: it rounds durations, and it hides tokens and secrets. Here every field
//! is kept. The fields of a type are listed once, and the compiler checks that none is missing.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::*;

/// Version of this JSON, to be raised when a request or an answer changes.
pub const WIRE_VERSION: u32 = 1;

/// The store behind this server.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StoreView {
    /// Version of the store API. A client of another version must not use it.
    pub protocol: u32,
    /// Version of this server.
    pub version: String,
    /// The store's software and version.
    pub server: String,
    /// What an acknowledged write survives: `D0` to `D3`.
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub durability: Durability,
}

/// The answer of a verb.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SteppedView {
    /// The answer, in lossless JSON.
    pub answer: Value,
    /// For a page that ended early, because its entries are large or hidden: name of the last entry that was read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// A notification, which ends its stream.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HeardView {
    /// For a lock: the notification, in lossless JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notification: Option<Value>,
    /// Why the store cannot notify.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureView>,
}

/// Why a store cannot notify.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FailureView {
    /// Code of the problem.
    pub code: String,
    /// What is wrong.
    pub detail: String,
}

/// A value with a lossless JSON form.
pub(crate) trait Wire: Sized {
    /// The JSON.
    fn to_wire(&self) -> Value;

    /// The value of this JSON. `None` if it has another form or is out of range.
    fn from_wire(json: Value) -> Option<Self>;
}

/// The fields of an object. Reading one removes it.
pub(crate) struct Fields(Map<String, Value>);

impl Fields {
    pub(crate) fn of(json: Value) -> Option<Self> {
        match json {
            Value::Object(fields) => Some(Self(fields)),
            _ => None,
        }
    }

    /// A missing field counts as `null`, so that a field can be added that older clients do not send.
    fn value(&mut self, name: &str) -> Value {
        self.0.remove(name).unwrap_or_default()
    }

    pub(crate) fn take<T: Wire>(&mut self, name: &str) -> Option<T> {
        T::from_wire(self.value(name))
    }

    /// Takes a field of a request.
    pub(crate) fn ask<T: Wire>(&mut self, name: &str) -> Result<T> {
        self.take(name).ok_or_else(|| {
            Error::invalid(
                &format!("the field `{name}`"),
                "is missing, has the wrong type or is out of range",
            )
        })
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Refuses fields that were not read.
    pub(crate) fn end(self) -> Result<()> {
        match self.0.keys().next() {
            Some(name) => Err(Error::invalid(&format!("the field `{name}`"), "is unknown")),
            None => Ok(()),
        }
    }
}

/// An object with these fields.
pub(crate) fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Types whose serde form keeps everything.
macro_rules! as_serde {
    ($($type:ty)*) => {$(
        impl Wire for $type {
            fn to_wire(&self) -> Value {
                encoded(self)
            }

            fn from_wire(json: Value) -> Option<Self> {
                decoded(json)
            }
        }
    )*};
}

/// Only a map with keys that are no strings cannot be encoded, and no type here has one.
fn encoded(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

fn decoded<T: DeserializeOwned>(json: Value) -> Option<T> {
    serde_json::from_value(json).ok()
}

/// Names keep their spelling, as in a store: another spelling would be another record.
macro_rules! names {
    ($($type:ident)*) => {$(
        impl Wire for $type {
            fn to_wire(&self) -> Value {
                self.as_str().into()
            }

            fn from_wire(json: Value) -> Option<Self> {
                Self::as_stored(json.as_str()?).ok()
            }
        }
    )*};
}

/// Structs: an object with these fields.
macro_rules! structs {
    ($($type:ident { $($field:ident)* })*) => {$(
        impl Wire for $type {
            fn to_wire(&self) -> Value {
                let Self { $($field),* } = self;
                object([$((stringify!($field), $field.to_wire())),*])
            }

            fn from_wire(json: Value) -> Option<Self> {
                let mut fields = Fields::of(json)?;
                let read = Self { $($field: fields.take(stringify!($field))?),* };
                fields.is_empty().then_some(read)
            }
        }
    )*};
}

/// Enums: the name of a variant without fields, or an object with the name as its only field.
macro_rules! enums {
    ($($type:ident { $($variant:ident $(($($at:ident)*))? $({$($field:ident)*})?)* })*) => {$(
        impl Wire for $type {
            fn to_wire(&self) -> Value {
                match self {
                    $(Self::$variant $(($($at),*))? $({$($field),*})? =>
                        enums!(@write $variant $(($($at)*))? $({$($field)*})?),)*
                }
            }

            fn from_wire(json: Value) -> Option<Self> {
                let (name, json) = variant(json)?;
                $(if name == stringify!($variant) {
                    return enums!(@read json $variant $(($($at)*))? $({$($field)*})?);
                })*
                None
            }
        }
    )*};
    (@write $variant:ident) => { stringify!($variant).into() };
    (@write $variant:ident ($at:ident)) => { object([(stringify!($variant), $at.to_wire())]) };
    (@write $variant:ident ($($at:ident)*)) => {
        object([(stringify!($variant), Value::from(vec![$($at.to_wire()),*]))])
    };
    (@write $variant:ident {$($field:ident)*}) => {
        object([(stringify!($variant), object([$((stringify!($field), $field.to_wire())),*]))])
    };
    (@read $json:ident $variant:ident) => { $json.is_null().then_some(Self::$variant) };
    (@read $json:ident $variant:ident ($at:ident)) => { Wire::from_wire($json).map(Self::$variant) };
    (@read $json:ident $variant:ident ($($at:ident)*)) => {{
        let ($($at,)*) = Wire::from_wire($json)?;
        Some(Self::$variant($($at),*))
    }};
    (@read $json:ident $variant:ident {$($field:ident)*}) => {{
        let mut fields = Fields::of($json)?;
        let read = Self::$variant { $($field: fields.take(stringify!($field))?),* };
        fields.is_empty().then_some(read)
    }};
}

/// Name and content of a variant.
fn variant(json: Value) -> Option<(String, Value)> {
    match json {
        Value::String(name) => Some((name, Value::Null)),
        Value::Object(fields) if fields.len() == 1 => fields.into_iter().next(),
        _ => None,
    }
}

impl<T: Wire> Wire for Vec<T> {
    fn to_wire(&self) -> Value {
        self.iter().map(Wire::to_wire).collect()
    }

    fn from_wire(json: Value) -> Option<Self> {
        match json {
            Value::Array(items) => items.into_iter().map(T::from_wire).collect(),
            _ => None,
        }
    }
}

impl<T: Wire> Wire for Option<T> {
    fn to_wire(&self) -> Value {
        self.as_ref().map_or(Value::Null, Wire::to_wire)
    }

    fn from_wire(json: Value) -> Option<Self> {
        if json.is_null() { Some(None) } else { T::from_wire(json).map(Some) }
    }
}

impl<A: Wire, B: Wire> Wire for (A, B) {
    fn to_wire(&self) -> Value {
        vec![self.0.to_wire(), self.1.to_wire()].into()
    }

    fn from_wire(json: Value) -> Option<Self> {
        let [first, second] = decoded(json)?;
        Some((A::from_wire(first)?, B::from_wire(second)?))
    }
}

impl<K: Wire> Wire for Page<K> {
    fn to_wire(&self) -> Value {
        object([("after", self.after.to_wire()), ("limit", self.limit.to_wire())])
    }

    fn from_wire(json: Value) -> Option<Self> {
        let mut fields = Fields::of(json)?;
        Some(Self { after: fields.take("after")?, limit: fields.take("limit")? })
    }
}

impl Wire for Payload {
    fn to_wire(&self) -> Value {
        let base64 = BASE64_STANDARD.encode(self.bytes());
        object([("content_type", self.content_type().to_wire()), ("base64", base64.into())])
    }

    fn from_wire(json: Value) -> Option<Self> {
        let mut fields = Fields::of(json)?;
        let bytes = BASE64_STANDARD.decode(fields.value("base64").as_str()?).ok()?;
        Self::new(fields.take("content_type")?, bytes).ok()
    }
}

names! { BuyerId ContentType LockName OutboxId QueueName SaleId ScheduleId Sku TaskId TaskKey WorkerId }

as_serde! {
    () bool u8 u32 u64 String Duration
    BadReceipt Beacon Busy Cancelled ClientId Closed Commitment Completed Created DeadRequeued Dequeued DrawSecret
    Enqueued EventKind Fence Fired Finish Grant HaltReason HoldState HoldTime IfDead Lease Left Op OrderIntent Overflow
    Owner PastRun Priority Queued Rebuilt Released Rescheduled ReservationId Retried Revision RoomOrder SaleSecret SaleStatus
    Scheduled Settled StockChange StockChanged TaskEnd TaskEvents TaskExtended TaskProgress TaskReleased TaskState
    Ticket Timestamp Token UnitChoice UnitRange UniqueCleared Verdict Waits WorkerMode
}

structs! {
    Acquire { name token lease wait barging owner }
    Announce { id name version concurrency running lease }
    Snapshot {
        spec status generation seq halted rebuilt_by since receipts_until skus reservations units buyers deadlines
        events through failed contradictions
    }
    BuyerCount { buyer sku units }
    Claim { n lease worker }
    Claimed { tasks next_due }
    ClosedEntry { entrants at }
    Completion { ticket result discarded }
    DamagedSale { id damage }
    DeadLetter { id payload priority attempts max_attempts error died_at key past }
    Deadline { at seq reservation }
    Delivery { seq attempts entry }
    Drawn { entrants secret beacon }
    DueSchedules { now due next }
    Enter { sale buyer place }
    Entered { ticket room }
    Event { seq at kind reservation units }
    Extend { name token lease }
    FailedOrder { seq attempts retry_at reason }
    Failure { seq attempts reason retry_after }
    Finished { at how result }
    Fire { id revision runs next }
    Follow { sale worker generation through failed recovered n lease }
    Halt { reason since }
    Heartbeat { ticket progress }
    Hold { id buyer units state deadline seq generation }
    Holder { token fence owner since lease_until }
    Joined { serial again until room }
    KeyLimits { concurrency rate fifo }
    LedgerOrder { id buyer state generation seq units returned }
    Line { sku quantity }
    Listing { state prefix page }
    LockState { name holders waiters }
    NewSchedule { id recurrence payload priority max_attempts next paused as_of }
    NewTask {
        id payload due priority on_duplicate max_attempts key deadline unique_for after if_dead held_open part_of
    }
    OrderBatch { generation entries through latest }
    OrdersState { through behind_since failed worker_until }
    AdmissionSchedule { rate base since }
    QueueLimits { bound overflow concurrency rate per_key retention events }
    QueueStats { ready scheduled leased blocked dead done dropped lag_ms rate_until last_claim paused limits }
    Rate { n per }
    Receipt { sale generation seq id buyer units deadline }
    Relay { outbox tasks }
    Relayed { upto }
    ReleaseWith { name token queue task }
    ReservationRow { hold asked }
    Reserve { sale id buyer lines choice }
    Retention { age count }
    Retry { ticket delay error give_up }
    RoomRules { rate pass order from }
    RoomState { rules opened joined served admitted pace commitment closed_entry drawn now }
    SaleSpec { id skus hold opens_at closes_at ledger metadata secret }
    SaleState { spec status generation seq skus next_expiry halted receipts_until orders now }
    Schedule { id recurrence payload priority max_attempts next previous paused revision }
    SkuCounters {
        sku initial total free withdrawn fresh returned held confirmed withdrawn_count per_buyer
    }
    SkuSpec { sku units per_buyer }
    SkuState { sku total free held confirmed withdrawn per_buyer }
    Stocktake { total handed_out ahead }
    Switch { generation grace stock }
    Task { ticket payload priority attempt max_attempts key deadline }
    TaskPage { tasks next }
    TaskInfo { task state waits not_before lease_until worker progress replaced cancelled error past finished }
    TaskRelease { ticket delay }
    UnitRow { sku unit reservation }
    Waited { id end at result error }
    WaiterState { token owner since wait_until }
    WorkerInfo { id name version concurrency running since seen lease_until mode }
}

enums! {
    Acquired { Granted(grant) Queued(queued) Busy(busy) }
    Decision { Done(hold) Pending(hold) Refused(hold) Unknown Halted }
    Draw { EntryOpen(room) Drawn(room) }
    Due { Now After(delay) At(at) }
    Extended { Extended(grant) NotHeld }
    Followed { Batch(batch) Busy { until } }
    LedgerEntry {
        Reservation { sale generation seq id buyer units intent }
        Stock { sale sku seq total withdrawn per_buyer }
    }
    ListedSale { Sound(state) Damaged(damaged) }
    Load { Orders(orders) Free(sku units) Withdrawn(sku ranges) }
    Log { Queue(queue) Sale(sale) }
    Notification { Granted(grant) Handed(grant) Ask Revoked }
    OnDuplicate { Keep Replace Earliest Debounce { max_wait } }
    ReleasedWith { Released(enqueued) NotHeld NotTaken(enqueued) }
    Reserved {
        Reserved(hold) Replayed(hold) KeyReused SoldOut { sku free } AllHeld { sku free next_expiry }
        LimitReached { sku limit has } NotOpen { opens_at } Ended Halted { retry_at }
    }
    Restored {
        Restored(hold) Known(hold) Expired NoneLeft { sku free } LimitReached { sku limit has } Halted { retry_at }
        NotHonoured { why }
    }
    Selection { Ids(ids) All }
    Topic { Token(token) Ready(queue) Finished(queue id) Event(log after) }
}

impl Request {
    /// The page of a listing by name, which a server may answer in parts.
    pub fn page_mut(&mut self) -> Option<&mut Page> {
        match self {
            Self::List(list) => Some(&mut list.page),
            Self::Queues(queues) => Some(&mut queues.page),
            Self::Sales(sales) => Some(&mut sales.page),
            Self::Waited(waited) => Some(&mut waited.page),
            Self::Dead(dead) => Some(&mut dead.page),
            Self::Schedules(schedules) => Some(&mut schedules.page),
            Self::Workers(workers) => Some(&mut workers.page),
            _ => None,
        }
    }
}

impl Topic {
    /// Its lossless JSON.
    pub fn to_wire(&self) -> Value {
        Wire::to_wire(self)
    }

    /// The topic of this JSON.
    ///
    /// # Errors
    /// [`is_invalid`](Error::is_invalid) for JSON of another form.
    pub fn from_wire(json: Value) -> Result<Self> {
        Wire::from_wire(json).ok_or_else(|| Error::invalid("the topic", "is malformed"))
    }
}

impl Notification {
    /// Its lossless JSON.
    pub fn to_wire(&self) -> Value {
        Wire::to_wire(self)
    }

    /// The notification of this JSON; `None` for JSON of another form.
    pub fn from_wire(json: Value) -> Option<Self> {
        Wire::from_wire(json)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_request_survives_with_every_field() {
        let mut task =
            NewTask::new(TaskId::new("a").unwrap(), Payload::new(ContentType::json(), *b" {} \n").unwrap());
        task.due = Due::After(Duration::from_nanos(1_500));
        task.on_duplicate = OnDuplicate::Debounce { max_wait: Duration::from_micros(1) };
        task.after = vec![TaskId::as_stored("Zoe\u{308}").unwrap()];
        let relay = Relay { outbox: OutboxId::new("o").unwrap(), tasks: vec![(7, task)] };
        let request = Request::relay(QueueName::new("q").unwrap(), relay);
        let text = request.to_wire().to_string();
        let read = Request::from_wire("relay", serde_json::from_str(&text).unwrap()).unwrap();
        assert_eq!(format!("{read:?}"), format!("{request:?}"));
    }

    #[test]
    fn an_answer_survives_with_what_readers_are_not_shown() {
        let owner = Owner { host: "h".into(), pid: 1, label: "l".into() };
        let (since, token) = (Timestamp::from_micros(u64::MAX), Token::new(ClientId::from_u64(1), u64::MAX));
        let holder =
            Holder { token, fence: Fence::from_u64(2), owner: owner.clone(), since, lease_until: since };
        let waiters = vec![WaiterState { token, owner, since, wait_until: since }];
        let state = LockState { name: LockName::new("n").unwrap(), holders: vec![holder], waiters };
        let reply = Reply::Show(state.clone());
        let Ok(Reply::Show(read)) = Reply::from_wire("show", reply.to_wire()) else { panic!("{reply:?}") };
        assert_eq!(read, state);
    }

    #[test]
    fn what_has_another_form_is_refused_with_the_field() {
        let token = "0".repeat(32);
        for (json, words) in [
            (json!({ "name": "n" }), "`token`"),
            (json!({ "name": "two words", "token": token }), "`name`"),
            (json!({ "name": "n", "token": token, "more": 1 }), "`more` is unknown"),
            (json!([]), "an object"),
        ] {
            let error = Request::from_wire("release", json).unwrap_err();
            assert!(error.is_invalid() && error.to_string().contains(words), "{error}");
        }
        assert!(Request::from_wire("step", json!({})).unwrap_err().is_not_found());
        assert!(Topic::from_wire(json!({ "Ready": "q", "Token": token })).unwrap_err().is_invalid());
    }
}
