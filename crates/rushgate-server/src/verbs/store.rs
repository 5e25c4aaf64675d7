//! The store API: any verb, for clients that have no store of their own. Requests and answers are those of
//! [`Request`], in lossless JSON.

use std::borrow::Cow;

use futures_util::FutureExt;
use hyper::http::{HeaderName, HeaderValue, Response};
use rushgate::lock::{LockState, Token};
use rushgate::queue::{Listing, TaskInfo, TaskPage};
use rushgate::store::{Effect, Log, Page, Reply as Replied, Request, Target, Topic, WIRE_VERSION, verb};
use rushgate::wire::{FailureView, HeardView, SteppedView, StoreView};
use rushgate::{Error, Rushgate};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::Part;
use crate::access::{Caller, Role};
use crate::body::Body;
use crate::call::{Call, PathParams};
use crate::events;
use crate::problem::{Code, Problem};
use crate::reply::{Answer, Reply};
use crate::scope::Kind;

/// Header with the incarnation of the store, which changes when it may have lost writes.
const INCARNATION: HeaderName = HeaderName::from_static("rushgate-incarnation");

pub(crate) async fn describe(call: Call) -> Answer<StoreView> {
    let info = call.app.client.info();
    Ok(Reply::ok(StoreView {
        protocol: WIRE_VERSION,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        server: info.server,
        durability: info.durability,
    }))
}

/// An object whose fields depend on the verb or the topic.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct Fields(Map<String, Value>);

impl JsonSchema for Fields {
    /// Without a name: which fields there are depends on the verb, and unknown ones are refused.
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "StoreRequest".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object", "additionalProperties": true, "description": "A request to the store, in lossless JSON." })
    }
}

pub(crate) async fn step(call: Call<Fields>) -> Answer<SteppedView> {
    let Call { app, caller, path, body: Fields(fields), .. } = call;
    let mut request = Request::from_wire(path.get("verb"), fields.into())?;
    permit(&caller, &request)?;
    let stepped = match (request.page_mut().cloned(), request) {
        (Some(whole), request) => page(&app.client, &caller, request, whole).await?,
        (None, Request::Tasks(listing)) => tasks(&app.client, listing).await?,
        (None, request) => {
            let answer = hidden(&caller, pass_on(&app.client, request).await?).to_wire();
            SteppedView { answer, next: None }
        }
    };
    let reply = Reply::ok(stepped);
    Ok(match HeaderValue::try_from(app.client.incarnation()) {
        Ok(incarnation) => reply.header(INCARNATION, incarnation),
        Err(_) => reply,
    })
}

/// Sends a request to the store. The hints of a store are for its clients too.
async fn pass_on(client: &Rushgate, request: Request) -> Result<Replied, Problem> {
    client.pass_on(request).await.map_err(|error| {
        let hint = error.hint_text().filter(|_| error.is_not_found()).map(str::to_owned);
        let problem = Problem::from(error);
        match hint {
            Some(hint) => problem.hint(&hint),
            None => problem,
        }
    })
}

/// Whether a request is an action of an operator, for the audit log.
pub(crate) fn is_action(path: &PathParams) -> bool {
    let (name, is) = (path.get("verb"), |name: &str| {
        Request::VERBS.iter().any(|(verb, effect)| *verb == name && *effect != Effect::Read)
    });
    is(name) && least(name) == Role::Operator
}

/// The role that a verb needs.
fn least(name: &str) -> Role {
    match name {
        "acquire" | "release" | "release_with" | "extend" | "held" | "leave" | "release_all" | "show"
        | "list" | "enqueue" | "top" | "pop" | "claim" | "complete" | "retry" | "release_tasks"
        | "extend_tasks" | "dequeue" | "cancel" | "reschedule" | "unique_until" | "clear_unique"
        | "close_batch" | "waits" | "waited" | "dependents" | "announce" | "workers" | "task" | "tasks"
        | "stats" | "queues" | "dead" | "dead_letter" | "schedule" | "schedules" | "due_schedules"
        | "fire" | "relay" | "confirm" | "cancel_hold" | "reservation" => Role::Worker,
        _ => Role::Operator,
    }
}

/// Reads a page in parts, so that one request cannot fill the server's memory. Entries that the caller may not see
/// are left out.
async fn page(
    client: &Rushgate,
    caller: &Caller,
    request: Request,
    whole: Page,
) -> Result<SteppedView, Problem> {
    request.check()?;
    let ask = async |part: Page| {
        let (mut asked, limit) = (request.clone(), part.limit as usize);
        if let Some(page) = asked.page_mut() {
            *page = part;
        }
        let Value::Array(entries) = hidden(caller, pass_on(client, asked).await?).to_wire() else {
            return Err(Problem::from(Error::bug("a listing has no entries")));
        };
        let last = entries.last().filter(|_| entries.len() >= limit);
        Ok(Part { next: last.and_then(|last| name_of(&request, last)), entries })
    };
    let Part { mut entries, next } = Part::of_page(whole, weight_of, ask).await?;
    entries.retain(|entry| may_see(caller, &request, entry));
    Ok(SteppedView { answer: entries.into(), next })
}

/// Reads a page of tasks in parts. It may be short, and its cursor continues it.
async fn tasks(client: &Rushgate, listing: verb::Tasks) -> Result<SteppedView, Problem> {
    let verb::Tasks { queue, listing } = listing;
    listing.check()?;
    let ask = async |page| match pass_on(
        client,
        Request::tasks(queue.clone(), Listing { page, ..listing.clone() }),
    )
    .await?
    {
        Replied::Tasks(TaskPage { tasks: entries, next }) => Ok(Part { entries, next }),
        _ => Err(Problem::from(Error::bug("the answer of another verb"))),
    };
    let Part { entries: tasks, next } =
        Part::of_page(listing.page.clone(), |entry: &TaskInfo| entry.task.payload.bytes().len(), ask).await?;
    Ok(SteppedView { answer: Replied::Tasks(TaskPage { tasks, next }).to_wire(), next: None })
}

/// Name of an entry of a listing, in the order of the listing.
fn name_of(listing: &Request, entry: &Value) -> Option<String> {
    let name = match listing {
        Request::Queues(_) => entry,
        Request::List(_) => &entry["name"],
        Request::Sales(_) => match entry.get("Sound") {
            Some(sound) => &sound["spec"]["id"],
            None => &entry["Damaged"]["id"],
        },
        _ => &entry["id"],
    };
    name.as_str().map(str::to_owned)
}

fn may_see(caller: &Caller, listing: &Request, entry: &Value) -> bool {
    let kind = match listing.target() {
        Target::LockList => Kind::Lock,
        Target::QueueList => Kind::Queue,
        Target::SaleList => Kind::Sale,
        _ => return true,
    };
    name_of(listing, entry).is_some_and(|name| caller.may(kind, &name))
}

/// Bytes of the texts of an entry, payloads among them.
fn weight_of(entry: &Value) -> usize {
    match entry {
        Value::String(text) => text.len(),
        Value::Array(entries) => entries.iter().map(weight_of).sum(),
        Value::Object(fields) => fields.values().map(weight_of).sum(),
        _ => 0,
    }
}

/// The answer without the tokens of locks, which are secrets of their holders. An operator may have them.
fn hidden(caller: &Caller, mut reply: Replied) -> Replied {
    let hide = |lock: &mut LockState| {
        lock.holders.iter_mut().for_each(|holder| holder.token = Token::from_bytes([0; 16]));
        lock.waiters.iter_mut().for_each(|waiter| waiter.token = Token::from_bytes([0; 16]));
    };
    match &mut reply {
        Replied::List(locks) if caller.role < Role::Operator => locks.iter_mut().for_each(hide),
        Replied::Show(lock) if caller.role < Role::Operator => hide(lock),
        _ => {}
    }
    reply
}

/// Refuses what role or scopes of the caller do not cover.
fn permit(caller: &Caller, request: &Request) -> Result<(), Problem> {
    must_be(caller, least(request.name()), request.name())?;
    match request.target() {
        Target::Lock(lock) => must_cover(caller, Kind::Lock, lock.as_str()),
        Target::LockAndQueue(lock, queue) => {
            must_cover(caller, Kind::Lock, lock.as_str())?;
            must_cover(caller, Kind::Queue, queue.as_str())
        }
        Target::Leases(leases) => {
            leases.iter().try_for_each(|lease| must_cover(caller, Kind::Lock, lease.name.as_str()))
        }
        // No lock has an empty name, so only a scope of all locks covers it.
        Target::AnyLock => must_cover(caller, Kind::Lock, ""),
        Target::Queue(queue) => must_cover(caller, Kind::Queue, queue.as_str()),
        Target::Sale(sale) => {
            must_act_for_every_buyer(caller)?;
            must_cover(caller, Kind::Sale, sale.as_str())
        }
        // `may_see` filters the entries.
        Target::LockList | Target::QueueList => Ok(()),
        Target::SaleList => must_act_for_every_buyer(caller),
    }
}

/// Refuses a token for one buyer, because the store's verbs on a sale act for any.
fn must_act_for_every_buyer(caller: &Caller) -> Result<(), Problem> {
    match caller.buyer {
        None => Ok(()),
        Some(_) => {
            Err(Problem::new(Code::Forbidden, "a token for one buyer cannot use sales through the store API"))
        }
    }
}

fn must_be(caller: &Caller, least: Role, what: &str) -> Result<(), Problem> {
    if caller.role >= least {
        return Ok(());
    }
    let (least, role) = (least.word(), caller.role.word());
    let detail = format_args!("`{what}` requires the role {least}; the token has {role}");
    Err(Problem::new(Code::Forbidden, detail))
}

fn must_cover(caller: &Caller, kind: Kind, name: &str) -> Result<(), Problem> {
    if caller.may(kind, name) {
        return Ok(());
    }
    let detail = format_args!("the token's scopes do not cover this {}", kind.word());
    Err(Problem::new(Code::Forbidden, detail))
}

/// Streams one notification. The stream begins when the store listens, and ends after the longest wait.
pub(crate) async fn listen(call: Call<Fields>) -> Result<Response<Body>, Problem> {
    let Call { app, caller, body: Fields(fields), .. } = call;
    let topic = Topic::from_wire(fields.into())?;
    match &topic {
        // Only who acquires a lock knows the token.
        Topic::Token(_) => {}
        Topic::Ready(queue) | Topic::Finished(queue, _) => must_cover(&caller, Kind::Queue, queue.as_str())?,
        Topic::Event(Log::Queue(queue), _) => {
            must_be(&caller, Role::Operator, "listen to events")?;
            must_cover(&caller, Kind::Queue, queue.as_str())?;
        }
        Topic::Event(Log::Sale(sale), _) => {
            must_be(&caller, Role::Operator, "listen to events")?;
            must_act_for_every_buyer(&caller)?;
            must_cover(&caller, Kind::Sale, sale.as_str())?;
        }
    }
    let heard = app.client.listen(topic).map(|heard| match heard {
        Ok(notification) => {
            HeardView { notification: notification.map(|notification| notification.to_wire()), failure: None }
        }
        Err(error) => {
            let problem = Problem::from(error);
            let (code, detail) = (problem.code().word().to_owned(), problem.detail().to_owned());
            HeardView { notification: None, failure: Some(FailureView { code, detail }) }
        }
    });
    // JSON and texts always serialize.
    let heard = heard.map(|heard| serde_json::to_string(&heard).unwrap_or_default());
    Ok(events::of_one(heard, app.closing.clone(), app.longest_wait))
}
