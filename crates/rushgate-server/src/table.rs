//! The table of routes. The router, the OpenAPI description and the authorization tests are generated from
//! it.

use hyper::http::Method;
use rushgate::queue::TaskEvent;
use rushgate::sale::Event;
use rushgate::wire::HeardView;

use crate::access::Role::{Buyer, Worker};
use crate::events::EVENT_STREAM;
use crate::metrics::OPENMETRICS;
use crate::openapi::Description;
use crate::problem::Code;
use crate::route::{KeyUse, Route, Row, row};
use crate::snapshot::Snapshot;
use crate::verbs::{lock, look, queue, room, sale, schedule, store, token, worker};

/// Body limit for one task: its content has up to 1 MiB, and base64 adds a third.
const TASK_MAX: usize = 2 << 20;
/// Body limit for a batch.
const BATCH_MAX: usize = 8 << 20;

fn get(path: &'static str, verb: &'static str, says: &'static str) -> Row {
    row(Method::GET, path, verb, says)
}

fn post(path: &'static str, verb: &'static str, says: &'static str) -> Row {
    row(Method::POST, path, verb, says)
}

fn put(path: &'static str, verb: &'static str, says: &'static str) -> Row {
    row(Method::PUT, path, verb, says)
}

fn delete(path: &'static str, verb: &'static str, says: &'static str) -> Row {
    row(Method::DELETE, path, verb, says)
}

/// All routes.
pub(crate) fn routes() -> Vec<Route> {
    [
        look_routes(),
        lock_routes(),
        queue_routes(),
        dead_routes(),
        worker_routes(),
        schedule_routes(),
        sale_routes(),
        room_routes(),
        reservation_routes(),
        store_routes(),
        token_routes(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn look_routes() -> Vec<Route> {
    vec![
        get("/healthz", "healthz", "Check that the process answers").for_anybody().work(look::healthz),
        get("/readyz", "readyz", "Check that store and ledger answer, and what acknowledged writes survive")
            .for_anybody()
            .work(look::readyz),
        get("/openapi.json", "openapi", "Get the OpenAPI description")
            .for_anybody()
            .tagged(&[])
            .write::<_, _, Description, _, _, _>("application/json", look::openapi),
        get("/metrics", "metrics", "Get metrics as OpenMetrics text")
            .needs(Worker)
            .write::<_, _, String, _, _, _>(OPENMETRICS, look::metrics),
        get("/v1/events", "events", "Stream a snapshot of everything every second (server-sent events)")
            .write::<_, _, Snapshot, _, _, _>(EVENT_STREAM, look::events),
        get("/v1/audit-log", "audit_log", "List the latest admin actions of the audit log, newest first")
            .refuses(&[Code::NotFound])
            .work(look::audit_log),
    ]
}

fn lock_routes() -> Vec<Route> {
    vec![
        get("/v1/locks", "list_locks", "List the locks that are held or waited for")
            .tagged(&[])
            .needs(Worker)
            .work(lock::list),
        get("/v1/locks/{lock}", "show_lock", "Get a lock's holder and its wait queue")
            .tagged(&[])
            .needs(Worker)
            .work(lock::show),
        post("/v1/locks/{lock}/acquire", "acquire", "Acquire a lock, or join its wait queue")
            .needs(Worker)
            .key(KeyUse::Token)
            .waits()
            .succeeds(&[201])
            .refuses(&[Code::LockBusy])
            .work(lock::acquire),
        post("/v1/locks/{lock}/extend", "extend_lock", "Extend the lease of a lock")
            .needs(Worker)
            .refuses(&[Code::NotHeld])
            .work(lock::extend),
        post("/v1/locks/{lock}/release", "release", "Release a lock and hand it to the next waiter")
            .needs(Worker)
            .refuses(&[Code::NotHeld])
            .work(lock::release),
        post("/v1/locks/{lock}/release-with", "release_with", "Release a lock and enqueue a task atomically")
            .needs(Worker)
            .key(KeyUse::Answers)
            .body_max(TASK_MAX)
            .succeeds(&[200, 201])
            .refuses(&[Code::NotHeld, Code::QueueFull, Code::Unmet])
            .work(lock::release_with),
        post("/v1/locks/{lock}/force-release", "force_release", "Force-release a lock")
            .work(lock::force_release),
    ]
}

fn queue_routes() -> Vec<Route> {
    vec![
        get("/v1/queues", "queues", "List the queues").tagged(&[]).needs(Worker).work(queue::list),
        get("/v1/queues/{queue}", "stats", "Get a queue's task counts, lag and limits")
            .tagged(&["lag_ms"])
            .needs(Worker)
            .work(queue::stats),
        post("/v1/queues/{queue}/tasks", "enqueue", "Enqueue a task")
            .needs(Worker)
            .key(KeyUse::Answers)
            .body_max(TASK_MAX)
            .succeeds(&[200, 201])
            .refuses(&[Code::QueueFull, Code::Unmet])
            .work(queue::enqueue),
        post("/v1/queues/{queue}/batch", "enqueue_all", "Enqueue up to 1,000 tasks atomically")
            .needs(Worker)
            .key(KeyUse::Answers)
            .body_max(BATCH_MAX)
            .work(queue::enqueue_all),
        get("/v1/queues/{queue}/tasks", "tasks", "List a queue's tasks: live ones, or those in one state")
            .tagged(&[])
            .needs(Worker)
            .work(queue::tasks),
        get(
            "/v1/queues/{queue}/tasks/{task}",
            "task",
            "Get a live or retained task, or wait until it finishes",
        )
        .tagged(&[])
        .needs(Worker)
        .waits()
        .refuses(&[Code::NotFound, Code::NothingKept, Code::Dead])
        .work(queue::task),
        delete("/v1/queues/{queue}/tasks/{task}", "cancel", "Cancel a task, or ask its worker to stop")
            .needs(Worker)
            .refuses(&[Code::NotFound])
            .work(queue::cancel),
        post("/v1/queues/{queue}/tasks/{task}/reschedule", "reschedule", "Change when a waiting task is due")
            .needs(Worker)
            .key(KeyUse::Answers)
            .refuses(&[Code::NotFound, Code::Leased])
            .work(queue::reschedule),
        delete(
            "/v1/queues/{queue}/tasks/{task}/unique",
            "clear_unique",
            "Clear the uniqueness window of an ID",
        )
        .needs(Worker)
        .refuses(&[Code::NotFound])
        .work(queue::clear_unique),
        post(
            "/v1/queues/{queue}/tasks/{task}/close",
            "close_batch",
            "Close a batch: its callback runs when all members have finished",
        )
        .needs(Worker)
        .key(KeyUse::Answers)
        .refuses(&[Code::NotFound, Code::NotOpen])
        .work(queue::close_batch),
        get(
            "/v1/queues/{queue}/tasks/{task}/waits",
            "waits",
            "Get what a live task waits for, and the progress",
        )
        .needs(Worker)
        .refuses(&[Code::NotFound])
        .work(queue::waits),
        get(
            "/v1/queues/{queue}/tasks/{task}/waited",
            "waited",
            "List the finished tasks that a live task waited for, with results",
        )
        .needs(Worker)
        .work(queue::waited),
        get(
            "/v1/queues/{queue}/tasks/{task}/dependents",
            "dependents",
            "List the live tasks that wait for a task",
        )
        .needs(Worker)
        .work(queue::dependents),
        get("/v1/queues/{queue}/tasks/{task}/why", "why", "Explain why a task is not running")
            .needs(Worker)
            .work(queue::why),
        get("/v1/queues/{queue}/top", "top", "Peek at the first due tasks").needs(Worker).work(queue::top),
        post("/v1/queues/{queue}/pop", "pop", "Pop the first due tasks: lost if the client dies")
            .needs(Worker)
            .key(KeyUse::Answers)
            .work(queue::pop),
        post("/v1/queues/{queue}/claim", "claim", "Claim the first due tasks under a lease, or wait for one")
            .needs(Worker)
            .key(KeyUse::Answers)
            .waits()
            .work(queue::claim),
        post("/v1/queues/{queue}/complete", "complete", "Complete claimed tasks")
            .needs(Worker)
            .key(KeyUse::Answers)
            .body_max(BATCH_MAX)
            .refuses(&[Code::Stale])
            .work(queue::complete),
        post("/v1/queues/{queue}/retry", "retry", "Retry failed tasks, or turn them into dead letters")
            .needs(Worker)
            .key(KeyUse::Answers)
            .body_max(BATCH_MAX)
            .refuses(&[Code::Stale])
            .work(queue::retry),
        post(
            "/v1/queues/{queue}/release",
            "release_tasks",
            "Release claimed tasks: they return to the queue unclaimed",
        )
        .needs(Worker)
        .key(KeyUse::Answers)
        .body_max(BATCH_MAX)
        .refuses(&[Code::Stale])
        .work(queue::release_tasks),
        post("/v1/queues/{queue}/extend", "extend_tasks", "Extend the leases of claimed tasks")
            .needs(Worker)
            .body_max(BATCH_MAX)
            .refuses(&[Code::Stale])
            .work(queue::extend),
        post("/v1/queues/{queue}/dequeue", "dequeue", "Remove a task if it is unchanged since it was read")
            .needs(Worker)
            .refuses(&[Code::Stale, Code::Leased])
            .work(queue::dequeue),
        post("/v1/queues/{queue}/pause", "pause", "Pause a queue").work(queue::pause),
        post("/v1/queues/{queue}/resume", "resume", "Resume a queue").work(queue::resume),
        put("/v1/queues/{queue}/limits", "limit", "Set a queue's limits and retention").work(queue::limit),
        get(
            "/v1/queues/{queue}/history",
            "queue_history",
            "Get the recent past of a queue, one point per second",
        )
        .needs(Worker)
        .work(queue::history),
        get(
            "/v1/queues/{queue}/events",
            "queue_events",
            "Stream the events of a queue's tasks (server-sent events)",
        )
        .write::<_, _, TaskEvent, _, _, _>(EVENT_STREAM, queue::events),
    ]
}

fn dead_routes() -> Vec<Route> {
    vec![
        get("/v1/queues/{queue}/dead", "dead", "List a queue's dead letters")
            .tagged(&[])
            .needs(Worker)
            .work(queue::dead),
        post(
            "/v1/queues/{queue}/dead/requeue",
            "requeue_dead",
            "Requeue dead letters with all their attempts",
        )
        .body_max(BATCH_MAX)
        .work(queue::requeue_dead),
        post("/v1/queues/{queue}/dead/delete", "delete_dead", "Delete dead letters")
            .body_max(BATCH_MAX)
            .work(queue::delete_dead),
    ]
}

fn worker_routes() -> Vec<Route> {
    vec![
        get("/v1/queues/{queue}/workers", "workers", "List the workers of a queue, busy and idle")
            .tagged(&[])
            .needs(Worker)
            .work(worker::workers),
        put(
            "/v1/queues/{queue}/workers/{worker}",
            "announce",
            "Announce a worker, and learn what it is to do",
        )
        .needs(Worker)
        .work(worker::announce),
        delete("/v1/queues/{queue}/workers/{worker}", "end_worker", "Say that a worker has ended")
            .needs(Worker)
            .work(worker::end_worker),
        put(
            "/v1/queues/{queue}/workers/{worker}/mode",
            "set_worker",
            "Quiet or stop a worker, or let it work",
        )
        .refuses(&[Code::NotFound])
        .work(worker::set_worker),
    ]
}

fn schedule_routes() -> Vec<Route> {
    vec![
        get("/v1/queues/{queue}/schedules", "schedules", "List a queue's schedules")
            .tagged(&[])
            .needs(Worker)
            .work(schedule::schedules),
        get("/v1/queues/{queue}/schedules/{schedule}", "find_schedule", "Get a schedule")
            .tagged(&[])
            .needs(Worker)
            .refuses(&[Code::NotFound])
            .work(schedule::find_schedule),
        put("/v1/queues/{queue}/schedules/{schedule}", "schedule", "Create or change a schedule")
            .needs(Worker)
            .body_max(TASK_MAX)
            .succeeds(&[200, 201])
            .refuses(&[Code::QueueFull, Code::Stale])
            .work(schedule::schedule),
        delete("/v1/queues/{queue}/schedules/{schedule}", "unschedule", "Delete a schedule")
            .refuses(&[Code::NotFound])
            .work(schedule::unschedule),
        post("/v1/queues/{queue}/schedules/{schedule}/pause", "pause_schedule", "Pause a schedule")
            .refuses(&[Code::NotFound])
            .work(schedule::pause_schedule),
        post(
            "/v1/queues/{queue}/schedules/{schedule}/resume",
            "resume_schedule",
            "Resume a schedule from now on",
        )
        .refuses(&[Code::NotFound])
        .work(schedule::resume_schedule),
        post("/v1/queues/{queue}/schedules/{schedule}/run", "run_schedule", "Run a schedule now")
            .key(KeyUse::Answers)
            .succeeds(&[200, 201])
            .refuses(&[Code::NotFound, Code::QueueFull])
            .work(schedule::run_schedule),
    ]
}

fn sale_routes() -> Vec<Route> {
    vec![
        get("/v1/sales", "sales", "List the sales").needs(Buyer).work(sale::sales),
        post("/v1/sales", "create", "Create a sale without opening it")
            .key(KeyUse::Answers)
            .body_max(1 << 20)
            .succeeds(&[201])
            .refuses(&[Code::Exists])
            .work(sale::create),
        get("/v1/sales/{sale}", "sale", "Get a sale and its stock")
            .tagged(&["now_us", "orders.worker_until_us"])
            .needs(Buyer)
            .refuses(&[Code::NotFound])
            .work(sale::sale),
        get("/v1/sales/{sale}/metadata", "metadata", "Get what shop pages show of a sale")
            .tagged(&[])
            .needs(Buyer)
            .refuses(&[Code::NotFound])
            .work(sale::metadata),
        post("/v1/sales/{sale}/open", "open", "Open a sale, from its opening time on if it has one")
            .refuses(&[Code::NotFound, Code::SaleEnded])
            .work(sale::open),
        post("/v1/sales/{sale}/end", "end", "End a sale permanently: holds can still be decided")
            .refuses(&[Code::NotFound])
            .work(sale::end),
        post("/v1/sales/{sale}/halt", "halt_sale", "Halt a sale with a ledger until it is rebuilt")
            .refuses(&[Code::NotFound])
            .work(sale::halt_sale),
        post("/v1/sales/{sale}/rebuild", "rebuild", "Rebuild a sale from the ledger and resume it")
            .refuses(&[Code::NotFound, Code::Stale])
            .work(sale::rebuild),
        get(
            "/v1/sales/{sale}/orders/failed",
            "failed_orders",
            "List orders that the ledger could not record",
        )
        .tagged(&[])
        .refuses(&[Code::NotFound])
        .work(sale::failed_orders),
        post(
            "/v1/sales/{sale}/orders/retry",
            "retry_orders",
            "Retry orders that the ledger could not record",
        )
        .refuses(&[Code::NotFound])
        .work(sale::retry_orders),
        post("/v1/sales/{sale}/stock", "stock", "Add units, or withdraw free ones permanently")
            .key(KeyUse::AnswersRequired)
            .refuses(&[Code::NotFound, Code::NotEnough, Code::ChangeTooLarge, Code::SaleHalted])
            .work(sale::stock),
        get("/v1/sales/{sale}/audit", "audit", "Audit a sale").refuses(&[Code::NotFound]).work(sale::audit),
        get(
            "/v1/sales/{sale}/history",
            "sale_history",
            "Get the recent past of a sale, one point per second",
        )
        .refuses(&[Code::NotFound])
        .work(sale::history),
        get("/v1/sales/{sale}/events", "sale_events", "Stream the events of a sale (server-sent events)")
            .refuses(&[Code::NotFound])
            .write::<_, _, Event, _, _, _>(EVENT_STREAM, sale::events),
    ]
}

fn room_routes() -> Vec<Route> {
    vec![
        put("/v1/sales/{sale}/room", "set_room", "Open a sale's waiting room, or change its rules")
            .refuses(&[Code::NotFound])
            .work(room::set_room),
        get("/v1/sales/{sale}/room", "room", "Get a sale's waiting room: the same for every reader")
            .needs(Buyer)
            .refuses(&[Code::NotFound])
            .work(room::room),
        delete("/v1/sales/{sale}/room", "close_room", "Close a waiting room: all buyers may reserve")
            .refuses(&[Code::NotFound])
            .work(room::close),
        post("/v1/sales/{sale}/room/close-entry", "close_entry", "Close the entry to the draw, once")
            .refuses(&[Code::NotFound])
            .work(room::close_entry),
        post(
            "/v1/sales/{sale}/room/draw",
            "draw",
            "Draw the order of admission, once, and begin to admit buyers",
        )
        .refuses(&[Code::NotFound, Code::EntryOpen, Code::Stale])
        .work(room::draw),
        post("/v1/sales/{sale}/tickets", "join", "Join a waiting room")
            .needs(Buyer)
            .proves()
            .succeeds(&[200, 201])
            .refuses(&[
                Code::NotFound,
                Code::RoomClosed,
                Code::ProofNeeded,
                Code::ProofRefused,
                Code::CheckUnavailable,
            ])
            .work(room::join),
        post("/v1/sales/{sale}/passes", "enter", "Get an admission token, or wait for the buyer's turn")
            .needs(Buyer)
            .waits()
            .succeeds(&[201, 202])
            .refuses(&[Code::NotFound, Code::NotInLine, Code::PassMissed, Code::RoomClosed])
            .work(room::enter),
    ]
}

fn reservation_routes() -> Vec<Route> {
    const REFUSALS: &[Code] = &[
        Code::NotFound,
        Code::SoldOut,
        Code::AllHeld,
        Code::LimitReached,
        Code::SaleNotOpen,
        Code::SaleEnded,
        Code::SaleHalted,
        Code::PassNeeded,
        Code::PassExpired,
        Code::PassRefused,
        Code::ProofNeeded,
        Code::ProofRefused,
        Code::CheckUnavailable,
    ];
    const DECISIONS: &[Code] = &[Code::NotFound, Code::Decided, Code::SaleHalted];
    vec![
        post("/v1/sales/{sale}/reservations", "reserve", "Reserve units: all lines or none")
            .needs(Buyer)
            .proves()
            .counts()
            .key(KeyUse::Buyer)
            .succeeds(&[200, 202])
            .refuses(REFUSALS)
            .work(sale::reserve),
        get(
            "/v1/sales/{sale}/reservations/{reservation}",
            "reservation",
            "Get a reservation, or wait until it is decided",
        )
        .tagged(&[])
        .needs(Buyer)
        .waits()
        .refuses(&[Code::NotFound])
        .work(sale::reservation),
        post(
            "/v1/sales/{sale}/reservations/{reservation}/confirm",
            "confirm",
            "Confirm a reservation that is paid for",
        )
        .needs(Worker)
        .waits()
        .succeeds(&[200, 202])
        .refuses(DECISIONS)
        .work(sale::confirm),
        post("/v1/sales/{sale}/reservations/{reservation}/cancel", "cancel_hold", "Cancel a reservation")
            .needs(Buyer)
            .waits()
            .succeeds(&[200, 202])
            .refuses(DECISIONS)
            .work(sale::cancel_hold),
        post("/v1/sales/{sale}/restore", "restore", "Restore a reservation from its receipt")
            .needs(Buyer)
            .body_max(BATCH_MAX)
            .succeeds(&[200, 201])
            .refuses(&[
                Code::NotFound,
                Code::SoldOut,
                Code::LimitReached,
                Code::HoldExpired,
                Code::ReceiptRefused,
                Code::SaleHalted,
            ])
            .work(sale::restore),
    ]
}

fn token_routes() -> Vec<Route> {
    vec![
        get("/v1/tokens", "tokens", "List the API tokens and signing keys, without secrets")
            .refuses(&[Code::NoTokens])
            .work(token::list),
        post("/v1/tokens", "create_token", "Create an API token")
            .succeeds(&[201])
            .refuses(&[Code::NoTokens])
            .work(token::create),
        post("/v1/tokens/keys", "create_key", "Create a key with which a shop signs tokens for its buyers")
            .succeeds(&[201])
            .refuses(&[Code::NoTokens])
            .work(token::create_key),
        delete(
            "/v1/tokens/{token}",
            "revoke_token",
            "Revoke a token, or a key with every token that it signed",
        )
        .refuses(&[Code::NotFound, Code::NoTokens])
        .work(token::revoke),
    ]
}

fn store_routes() -> Vec<Route> {
    vec![
        get("/v1/store", "store", "Get version and durability of the store API")
            .needs(Worker)
            .work(store::describe),
        post("/v1/store/{verb}", "step", "Carry out any verb of the store, for a client without a store")
            .needs(Worker)
            .body_max(BATCH_MAX)
            .refuses(&[Code::NotFound])
            .acts(store::is_action)
            .work(store::step),
        post("/v1/store/listen", "listen", "Stream one notification of the store (server-sent events)")
            .needs(Worker)
            .write::<_, _, HeardView, _, _, _>(EVENT_STREAM, store::listen),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_route_has_a_verb_of_its_own_and_a_sentence() {
        let routes = routes();
        let verbs: BTreeSet<_> = routes.iter().map(|route| route.verb).collect();
        let places: BTreeSet<_> = routes.iter().map(|route| (route.method.as_str(), route.path)).collect();
        assert_eq!((verbs.len(), places.len()), (routes.len(), routes.len()));
        for route in &routes {
            assert!(!route.says.ends_with('.') && route.says.len() <= 90, "{}", route.verb);
        }
    }

    #[test]
    fn only_what_says_nothing_of_anybodys_things_is_for_anybody() {
        for route in routes() {
            let is_open = ["/healthz", "/readyz", "/openapi.json"].contains(&route.path);
            assert_eq!(route.needs.is_none(), is_open, "{}", route.path);
        }
    }

    #[test]
    fn buyers_come_to_sales_only_and_cannot_say_that_they_paid() {
        let theirs: Vec<_> = routes().into_iter().filter(|route| route.needs == Some(Buyer)).collect();
        let verbs: Vec<_> = theirs.iter().map(|route| route.verb).collect();
        assert_eq!(
            verbs,
            [
                "sales", "sale", "metadata", "room", "join", "enter", "reserve", "reservation",
                "cancel_hold", "restore"
            ]
        );
    }
}
