//! Generates `clients/contract.json`: what a client of the functions has to know and no program should write by hand.

use rushgate_core::{
    Claim, ClientId, Coded, Completion, EventKind, HaltReason, HoldState, HoldTime, IfDead, Kind, Lease,
    LockName, MAX_LINES, MAX_NAME_BYTES, MAX_UNITS_PER_LINE, NewSchedule, NewTask, Overflow, PastEnd,
    Payload, QueueLimits, QueueName, SaleId, SaleSpec, SaleStatus, TaskEnd, WorkerMode,
};
use serde_json::{Map, Value, json};

use super::header::{Argument, Header};
use crate::function::Function;
use crate::keys::{self, Group};
use crate::library::{NAME, PROTOCOL};

pub(super) fn contract() -> String {
    let functions: Map<_, _> =
        Function::ALL.iter().map(|of| (of.bare_name().to_owned(), function(&of.header()))).collect();
    let contract = json!({
        "protocol": PROTOCOL,
        "library": NAME,
        "groups": groups(),
        // The words of each number.
        "codes": {
            "event_kind": EventKind::ALL,
            "halt_reason": HaltReason::ALL,
            "hold_state": HoldState::ALL,
            "if_dead": IfDead::ALL,
            "overflow": Overflow::ALL,
            "past_end": PastEnd::ALL,
            "sale_status": SaleStatus::ALL,
            "task_end": TaskEnd::ALL,
            "worker_mode": WorkerMode::ALL,
        },
        "limits": {
            "name_bytes": MAX_NAME_BYTES,
            "kind_bytes": Kind::MAX_BYTES,
            "payload_bytes": Payload::MAX_BYTES,
            "result_bytes": Completion::RESULT_MAX,
            "schedule_id_bytes": NewSchedule::ID_MAX,
            "lease_us": Lease::MAX.as_micros() as u64,
            "hold_us": HoldTime::MAX.as_micros() as u64,
            "delay_us": NewTask::DELAY_MAX.as_micros() as u64,
            "tasks_per_call": Claim::BATCH_MAX,
            "events": QueueLimits::EVENTS_MAX,
            "skus": SaleSpec::SKUS_MAX,
            "units_of_sku": SaleSpec::UNITS_MAX,
            "per_buyer": SaleSpec::PER_BUYER_MAX,
            "lines_per_cart": MAX_LINES,
            "units_per_line": MAX_UNITS_PER_LINE,
        },
        "functions": functions,
    });
    format!("{contract:#}\n")
}

/// The endings of the keys of each group. A key is `rg:{TAG:NAME}:ENDING`, in the replay cache with `:CLIENT` behind it.
fn groups() -> Value {
    let (lock, queue) = (LockName::new("NAME"), QueueName::new("NAME"));
    let (Ok(lock), Ok(queue), Ok(sale)) = (lock, queue, SaleId::new("NAME")) else {
        unreachable!("they are names")
    };
    let nobody = ClientId::from_u64(0);
    let of = |tag: &str, group: &Group| json!({ "tag": tag, "endings": group.endings() });
    json!({
        "lock": of("l", &keys::lock(&lock)),
        "queue": of("q", &keys::queue(&queue)),
        "answers": of("q", &keys::replays(&queue, nobody)),
        "schedules": of("q", &keys::schedules(&queue)),
        "workers": of("q", &keys::workers(&queue)),
        "attempts": of("s", &keys::attempts(&sale)),
        "unique": of("q", &keys::unique(&queue)),
        "sale": of("s", &keys::sale(&sale)),
        "home": of("s", &keys::sale_home(&sale)),
        "room": of("s", &keys::room(&sale)),
    })
}

fn function(header: &Header<'_>) -> Value {
    let groups: Vec<_> = header.keys.iter().map(|keys| format!("{:?}", keys.group).to_lowercase()).collect();
    let names = |of: &[Argument<'_>]| of.iter().map(|of| of.name.to_owned()).collect::<Vec<_>>();
    let mut function =
        json!({ "groups": groups, "arguments": names(&header.arguments), "flags": header.flags });
    if let Some(each) = &header.each {
        function["each"] =
            json!({ "of": each.what, "min": each.least, "max": each.most, "arguments": names(&each.parts) });
    }
    function
}
