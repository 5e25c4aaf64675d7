//! The table of routes. The router, the description of the API and the test of who may do what are all made of it.

use hyper::http::Method;

use crate::access::Role::{Buyer, Worker};
use crate::events::{EVENT_STREAM, EventView, SnapshotView, TaskEventView};
use crate::metrics::OPENMETRICS;
use crate::openapi::Description;
use crate::problem::Code;
use crate::route::{KeyUse, Route, Row, row};
use crate::verbs::{lock, look, queue, room, sale, schedule};

/// A body with one task: its content has 1 MiB at most, and base64 makes a third more of it.
const TASK_MAX: usize = 2 << 20;
/// A body with many.
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

/// Every route.
pub(crate) fn routes() -> Vec<Route> {
    [
        look_routes(),
        lock_routes(),
        queue_routes(),
        dead_routes(),
        schedule_routes(),
        sale_routes(),
        room_routes(),
        reservation_routes(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn look_routes() -> Vec<Route> {
    vec![
        get("/healthz", "healthz", "Says that the process answers.").for_anybody().work(look::healthz),
        get("/readyz", "readyz", "Says that the store answers, and what an acknowledged write survives.")
            .for_anybody()
            .work(look::readyz),
        get("/openapi.json", "openapi", "Describes every route.")
            .for_anybody()
            .tagged(&[])
            .write::<_, _, Description, _, _>("application/json", look::openapi),
        get("/metrics", "metrics", "Counts requests, and says how the store stands, as OpenMetrics text.")
            .needs(Worker)
            .write::<_, _, String, _, _>(OPENMETRICS, look::metrics),
        get("/v1/events", "events", "Sends a snapshot of everything each second, as server-sent events.")
            .write::<_, _, SnapshotView, _, _>(EVENT_STREAM, look::events),
    ]
}

fn lock_routes() -> Vec<Route> {
    vec![
        get("/v1/locks", "list_locks", "Lists the locks that are held or waited for.")
            .tagged(&[])
            .needs(Worker)
            .work(lock::list),
        get("/v1/locks/{lock}", "show_lock", "Shows who holds a lock and who waits.")
            .tagged(&[])
            .needs(Worker)
            .work(lock::show),
        post("/v1/locks/{lock}/acquire", "acquire", "Takes a lock, or waits in line for it.")
            .needs(Worker)
            .key(KeyUse::Token)
            .waits()
            .succeeds(&[201])
            .refuses(&[Code::LockBusy])
            .work(lock::acquire),
        post("/v1/locks/{lock}/extend", "extend_lock", "Starts the lease of a lock's holder anew.")
            .needs(Worker)
            .refuses(&[Code::NotHeld])
            .work(lock::extend),
        post("/v1/locks/{lock}/release", "release", "Gives a lock up and hands it to the first in line.")
            .needs(Worker)
            .refuses(&[Code::NotHeld])
            .work(lock::release),
        post(
            "/v1/locks/{lock}/release-with",
            "release_with",
            "Gives a lock up and puts a task into a queue, in one step: both, or neither.",
        )
        .needs(Worker)
        .key(KeyUse::Answers)
        .body_max(TASK_MAX)
        .succeeds(&[200, 201])
        .refuses(&[Code::NotHeld, Code::QueueFull, Code::QueueReserved, Code::Unmet])
        .work(lock::release_with),
        post("/v1/locks/{lock}/force-release", "force_release", "Takes a lock from whoever holds it.")
            .work(lock::force_release),
    ]
}

fn queue_routes() -> Vec<Route> {
    vec![
        get("/v1/queues", "queues", "Lists the queues.").tagged(&[]).needs(Worker).work(queue::list),
        get("/v1/queues/{queue}", "stats", "Says how many tasks a queue has in each state, and its lag.")
            .tagged(&["lag_ms"])
            .needs(Worker)
            .work(queue::stats),
        post("/v1/queues/{queue}/tasks", "enqueue", "Puts a task in.")
            .needs(Worker)
            .key(KeyUse::Answers)
            .body_max(TASK_MAX)
            .succeeds(&[200, 201])
            .refuses(&[Code::QueueFull, Code::Unmet, Code::QueueReserved])
            .work(queue::enqueue),
        post("/v1/queues/{queue}/batch", "enqueue_all", "Puts up to 1,000 tasks in, in one step.")
            .needs(Worker)
            .key(KeyUse::Answers)
            .body_max(BATCH_MAX)
            .refuses(&[Code::QueueReserved])
            .work(queue::enqueue_all),
        get(
            "/v1/queues/{queue}/tasks",
            "tasks",
            "Lists the tasks of a queue by id: the live ones, or those in a state.",
        )
        .tagged(&[])
        .needs(Worker)
        .work(queue::tasks),
        get(
            "/v1/queues/{queue}/tasks/{task}",
            "task",
            "Shows a task that is live, or done and kept; or waits for its end.",
        )
        .tagged(&[])
        .needs(Worker)
        .waits()
        .refuses(&[Code::NotFound, Code::NothingKept, Code::Dead])
        .work(queue::task),
        delete("/v1/queues/{queue}/tasks/{task}", "cancel", "Removes a task, or tells whoever works on it.")
            .needs(Worker)
            .refuses(&[Code::NotFound, Code::QueueReserved])
            .work(queue::cancel),
        delete(
            "/v1/queues/{queue}/tasks/{task}/unique",
            "lift",
            "Ends the time for which an id is unique: it may be put in again.",
        )
        .needs(Worker)
        .refuses(&[Code::NotFound])
        .work(queue::lift),
        post(
            "/v1/queues/{queue}/tasks/{task}/close",
            "close_batch",
            "Lets a task that is held open take no more parts: it runs when all of them are over.",
        )
        .needs(Worker)
        .key(KeyUse::Answers)
        .refuses(&[Code::NotFound, Code::NotOpen, Code::QueueReserved])
        .work(queue::close_batch),
        get(
            "/v1/queues/{queue}/tasks/{task}/waits",
            "waits",
            "Says what a live task waits for, and how far that has come.",
        )
        .needs(Worker)
        .refuses(&[Code::NotFound])
        .work(queue::waits),
        get(
            "/v1/queues/{queue}/tasks/{task}/waited",
            "waited",
            "Lists those that a live task waited for and that are over, with their results.",
        )
        .needs(Worker)
        .work(queue::waited),
        get("/v1/queues/{queue}/tasks/{task}/why", "why", "Says what keeps a task from running now.")
            .needs(Worker)
            .work(queue::why),
        get("/v1/queues/{queue}/top", "top", "Looks at the first due tasks without taking them.")
            .needs(Worker)
            .work(queue::top),
        post(
            "/v1/queues/{queue}/pop",
            "pop",
            "Takes the first due tasks for good: if the taker dies they are lost.",
        )
        .needs(Worker)
        .key(KeyUse::Answers)
        .refuses(&[Code::QueueReserved])
        .work(queue::pop),
        post(
            "/v1/queues/{queue}/claim",
            "claim",
            "Takes the first due tasks under a lease, or waits for one.",
        )
        .needs(Worker)
        .key(KeyUse::Answers)
        .waits()
        .refuses(&[Code::QueueReserved])
        .work(queue::claim),
        post("/v1/queues/{queue}/complete", "complete", "Ends claimed tasks that are done.")
            .needs(Worker)
            .key(KeyUse::Answers)
            .body_max(BATCH_MAX)
            .refuses(&[Code::Stale, Code::QueueReserved])
            .work(queue::complete),
        post(
            "/v1/queues/{queue}/retry",
            "retry",
            "Ends claimed tasks that failed: they wait again, or are dead.",
        )
        .needs(Worker)
        .key(KeyUse::Answers)
        .body_max(BATCH_MAX)
        .refuses(&[Code::Stale, Code::QueueReserved])
        .work(queue::retry),
        post(
            "/v1/queues/{queue}/give-back",
            "give_back",
            "Gives claimed tasks back as if they had not been claimed.",
        )
        .needs(Worker)
        .key(KeyUse::Answers)
        .body_max(BATCH_MAX)
        .refuses(&[Code::Stale, Code::QueueReserved])
        .work(queue::give_back),
        post("/v1/queues/{queue}/extend", "extend_tasks", "Starts the leases of claimed tasks anew.")
            .needs(Worker)
            .body_max(BATCH_MAX)
            .refuses(&[Code::Stale, Code::QueueReserved])
            .work(queue::extend),
        post("/v1/queues/{queue}/dequeue", "dequeue", "Removes a task if it is as it was when it was read.")
            .needs(Worker)
            .refuses(&[Code::Stale, Code::Leased, Code::QueueReserved])
            .work(queue::dequeue),
        post("/v1/queues/{queue}/pause", "pause", "Stops giving tasks out.")
            .refuses(&[Code::QueueReserved])
            .work(queue::pause),
        post("/v1/queues/{queue}/resume", "resume", "Gives tasks out again.")
            .refuses(&[Code::QueueReserved])
            .work(queue::resume),
        put("/v1/queues/{queue}/limits", "limit", "Sets what a queue puts up with.")
            .refuses(&[Code::QueueReserved])
            .work(queue::limit),
        get(
            "/v1/queues/{queue}/events",
            "queue_events",
            "Sends what happens to the tasks of a queue, as it happens (server-sent events).",
        )
        .write::<_, _, TaskEventView, _, _>(EVENT_STREAM, queue::events),
    ]
}

fn dead_routes() -> Vec<Route> {
    vec![
        get("/v1/queues/{queue}/dead", "dead", "Lists the tasks that failed for good.")
            .tagged(&[])
            .needs(Worker)
            .work(queue::dead),
        post(
            "/v1/queues/{queue}/dead/retry",
            "retry_dead",
            "Puts dead letters back, with all attempts before them.",
        )
        .body_max(BATCH_MAX)
        .refuses(&[Code::QueueReserved])
        .work(queue::retry_dead),
        post("/v1/queues/{queue}/dead/delete", "delete_dead", "Deletes dead letters.")
            .body_max(BATCH_MAX)
            .refuses(&[Code::QueueReserved])
            .work(queue::delete_dead),
    ]
}

fn schedule_routes() -> Vec<Route> {
    vec![
        get("/v1/queues/{queue}/schedules", "schedules", "Lists the schedules of a queue.")
            .tagged(&[])
            .needs(Worker)
            .work(schedule::schedules),
        get("/v1/queues/{queue}/schedules/{schedule}", "find_schedule", "Shows a schedule.")
            .tagged(&[])
            .needs(Worker)
            .refuses(&[Code::NotFound])
            .work(schedule::find_schedule),
        put(
            "/v1/queues/{queue}/schedules/{schedule}",
            "schedule",
            "Enters a schedule, or changes the one of that id.",
        )
        .needs(Worker)
        .body_max(TASK_MAX)
        .succeeds(&[200, 201])
        .refuses(&[Code::QueueFull, Code::Stale, Code::QueueReserved])
        .work(schedule::schedule),
        delete("/v1/queues/{queue}/schedules/{schedule}", "unschedule", "Takes a schedule out.")
            .refuses(&[Code::NotFound])
            .work(schedule::unschedule),
        post(
            "/v1/queues/{queue}/schedules/{schedule}/pause",
            "pause_schedule",
            "Has a schedule stand still.",
        )
        .refuses(&[Code::NotFound])
        .work(schedule::pause_schedule),
        post(
            "/v1/queues/{queue}/schedules/{schedule}/resume",
            "resume_schedule",
            "Has a schedule go on from now.",
        )
        .refuses(&[Code::NotFound])
        .work(schedule::resume_schedule),
        post(
            "/v1/queues/{queue}/schedules/{schedule}/run",
            "run_schedule",
            "Puts a task of a schedule in at once.",
        )
        .key(KeyUse::Answers)
        .succeeds(&[200, 201])
        .refuses(&[Code::NotFound, Code::QueueFull])
        .work(schedule::run_schedule),
    ]
}

fn sale_routes() -> Vec<Route> {
    vec![
        get("/v1/sales", "sales", "Lists the sales.").needs(Buyer).work(sale::sales),
        post("/v1/sales", "create", "Makes a sale, not yet open.")
            .key(KeyUse::Answers)
            .body_max(1 << 20)
            .succeeds(&[201])
            .refuses(&[Code::Exists])
            .work(sale::create),
        get("/v1/sales/{sale}", "sale", "Shows a sale and its stock.")
            .tagged(&["now_us"])
            .needs(Buyer)
            .refuses(&[Code::NotFound])
            .work(sale::sale),
        post("/v1/sales/{sale}/open", "open", "Opens a sale, from its opening time if it has one.")
            .refuses(&[Code::NotFound, Code::SaleEnded])
            .work(sale::open),
        post("/v1/sales/{sale}/end", "end", "Ends a sale for good; holds can still be decided.")
            .refuses(&[Code::NotFound])
            .work(sale::end),
        post("/v1/sales/{sale}/pause", "pause_sale", "Stops a sale with a ledger until it is rebuilt.")
            .refuses(&[Code::NotFound])
            .work(sale::pause),
        post("/v1/sales/{sale}/rebuild", "rebuild", "Rebuilds a sale from the ledger, and has it go on.")
            .refuses(&[Code::NotFound, Code::Stale])
            .work(sale::rebuild),
        post(
            "/v1/sales/{sale}/orders/retry",
            "retry_orders",
            "Retries orders of a sale that are dead letters.",
        )
        .body_max(BATCH_MAX)
        .refuses(&[Code::NotFound])
        .work(sale::retry_orders),
        post(
            "/v1/sales/{sale}/orders/delete",
            "delete_orders",
            "Deletes orders of a sale that are dead letters.",
        )
        .body_max(BATCH_MAX)
        .refuses(&[Code::NotFound])
        .work(sale::delete_orders),
        post("/v1/sales/{sale}/orders/pause", "pause_orders", "Stops giving orders to order workers.")
            .refuses(&[Code::NotFound])
            .work(sale::pause_orders),
        post("/v1/sales/{sale}/orders/resume", "resume_orders", "Gives orders to order workers again.")
            .refuses(&[Code::NotFound])
            .work(sale::resume_orders),
        post("/v1/sales/{sale}/stock", "stock", "Adds units, or withdraws free ones for good.")
            .key(KeyUse::AnswersRequired)
            .refuses(&[Code::NotFound, Code::NotEnough, Code::ChangeTooLarge, Code::SalePaused])
            .work(sale::stock),
        get(
            "/v1/sales/{sale}/audit",
            "audit",
            "Adds up a sale again, and says whether every promise was kept.",
        )
        .refuses(&[Code::NotFound])
        .work(sale::audit),
        get(
            "/v1/sales/{sale}/events",
            "sale_events",
            "Sends the events of a sale as they happen (server-sent events).",
        )
        .refuses(&[Code::NotFound])
        .write::<_, _, EventView, _, _>(EVENT_STREAM, sale::events),
    ]
}

fn room_routes() -> Vec<Route> {
    vec![
        put("/v1/sales/{sale}/room", "set_room", "Opens a sale's waiting room, or gives it other rules.")
            .refuses(&[Code::NotFound])
            .work(room::set_room),
        get("/v1/sales/{sale}/room", "room", "Shows a sale's waiting room: the same for everybody.")
            .needs(Buyer)
            .refuses(&[Code::NotFound])
            .work(room::room),
        delete("/v1/sales/{sale}/room", "close_room", "Takes a waiting room away: everybody may buy.")
            .refuses(&[Code::NotFound])
            .work(room::close),
        post("/v1/sales/{sale}/room/close-entry", "close_entry", "Fixes who takes part in the draw, once.")
            .refuses(&[Code::NotFound])
            .work(room::close_entry),
        post("/v1/sales/{sale}/room/draw", "draw", "Draws who goes first, once, and begins to let them in.")
            .refuses(&[Code::NotFound, Code::EntryOpen, Code::Stale])
            .work(room::draw),
        post("/v1/sales/{sale}/tickets", "join", "Takes a place in the waiting room.")
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
        post("/v1/sales/{sale}/passes", "enter", "Gives a pass, or waits for the buyer's turn.")
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
        Code::SalePaused,
        Code::PassNeeded,
        Code::PassExpired,
        Code::PassRefused,
        Code::ProofNeeded,
        Code::ProofRefused,
        Code::CheckUnavailable,
    ];
    const DECISIONS: &[Code] = &[Code::NotFound, Code::Decided, Code::SalePaused];
    vec![
        post("/v1/sales/{sale}/reservations", "reserve", "Reserves units: all lines or none.")
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
            "Shows a reservation, or waits for its end.",
        )
        .tagged(&[])
        .needs(Buyer)
        .waits()
        .refuses(&[Code::NotFound])
        .work(sale::reservation),
        post(
            "/v1/sales/{sale}/reservations/{reservation}/confirm",
            "confirm",
            "Confirms a reservation: it is paid for.",
        )
        .needs(Worker)
        .waits()
        .succeeds(&[200, 202])
        .refuses(DECISIONS)
        .work(sale::confirm),
        post("/v1/sales/{sale}/reservations/{reservation}/cancel", "cancel_hold", "Calls a reservation off.")
            .needs(Buyer)
            .waits()
            .succeeds(&[200, 202])
            .refuses(DECISIONS)
            .work(sale::cancel_hold),
        post("/v1/sales/{sale}/restore", "restore", "Gives a buyer back what a receipt promises.")
            .needs(Buyer)
            .body_max(BATCH_MAX)
            .succeeds(&[200, 201])
            .refuses(&[
                Code::NotFound,
                Code::SoldOut,
                Code::LimitReached,
                Code::HoldExpired,
                Code::ReceiptRefused,
                Code::SalePaused,
            ])
            .work(sale::restore),
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
            assert!(route.says.ends_with('.') && route.says.len() <= 90, "{}", route.verb);
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
            ["sales", "sale", "room", "join", "enter", "reserve", "reservation", "cancel_hold", "restore"]
        );
    }
}
