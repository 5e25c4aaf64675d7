//! `rushgate lock show` and `ls`.

use anyhow::Result;
use rushgate::{Holder, LockState, Owner, Page, Rushgate, WaiterState};
use serde::Serialize;

use crate::args::lock::{LsArgs, ShowArgs};
use crate::exit::Exit;
use crate::output::{Output, Table, moment};

/// A lock as JSON.
#[derive(Serialize)]
struct LockView<'a> {
    name: &'a str,
    holder: Option<HolderView<'a>>,
    waiters: Vec<WaiterView<'a>>,
}

/// A holder as JSON.
#[derive(Serialize)]
pub(super) struct HolderView<'a> {
    token: String,
    fence: u64,
    #[serde(flatten)]
    owner: &'a Owner,
    since_us: u64,
    lease_until_us: u64,
}

/// A waiter as JSON.
#[derive(Serialize)]
struct WaiterView<'a> {
    position: usize,
    token: String,
    #[serde(flatten)]
    owner: &'a Owner,
    since_us: u64,
    wait_until_us: u64,
}

impl<'a> From<&'a LockState> for LockView<'a> {
    fn from(state: &'a LockState) -> Self {
        let waiter = |(at, waiter): (usize, &'a WaiterState)| WaiterView {
            position: at + 1,
            token: waiter.token.to_string(),
            owner: &waiter.owner,
            since_us: waiter.since.as_micros(),
            wait_until_us: waiter.wait_until.as_micros(),
        };
        Self {
            name: state.name.as_str(),
            holder: state.holders.first().map(HolderView::from),
            waiters: state.waiters.iter().enumerate().map(waiter).collect(),
        }
    }
}

impl<'a> From<&'a Holder> for HolderView<'a> {
    fn from(holder: &'a Holder) -> Self {
        Self {
            token: holder.token.to_string(),
            fence: holder.fence.as_u64(),
            owner: &holder.owner,
            since_us: holder.since.as_micros(),
            lease_until_us: holder.lease_until.as_micros(),
        }
    }
}

pub(super) async fn ls(gate: &Rushgate, args: LsArgs, output: Output) -> Result<Exit> {
    let locks = gate.locks(Page { after: args.after, limit: args.n }).await?;
    let views: Vec<_> = locks.iter().map(LockView::from).collect();
    let rows = locks.iter().map(|lock| {
        let holder = lock.holders.first();
        [
            lock.name.to_string(),
            holder.map_or("-".to_owned(), |holder| owner(&holder.owner)),
            holder.map_or("-".to_owned(), |holder| moment(holder.since)),
            lock.waiters.len().to_string(),
            holder.map_or(String::new(), |holder| holder.owner.label.clone()),
        ]
    });
    output.data(&views, Table::new(["LOCK", "HOLDER", "SINCE", "WAITING", "LABEL"], rows))?;
    Ok(Exit::Done)
}

pub(super) async fn show(gate: &Rushgate, args: ShowArgs, output: Output) -> Result<Exit> {
    let state = gate.lock(&args.name)?.state().await?;
    output.data(&LockView::from(&state), text(&state))?;
    Ok(Exit::Done)
}

fn text(state: &LockState) -> String {
    let mut text = match state.holders.first() {
        Some(holder) => format!(
            "{} is held by {}\nfence {}, token {}, lease until {}\n",
            state.name,
            who(holder),
            holder.fence,
            holder.token,
            moment(holder.lease_until),
        ),
        None => format!("{} is free\n", state.name),
    };
    let rows = state.waiters.iter().enumerate().map(|(at, waiter)| {
        let position = (at + 1).to_string();
        [position, owner(&waiter.owner), moment(waiter.since), waiter.owner.label.clone()]
    });
    text += &Table::new(["PLACE", "WAITER", "SINCE", "LABEL"], rows).to_string();
    text
}

fn owner(owner: &Owner) -> String {
    format!("{}:{}", owner.host, owner.pid)
}

/// The holder in words.
pub(crate) fn who(holder: &Holder) -> String {
    let Owner { host, pid, label } = &holder.owner;
    let label = if label.is_empty() { String::new() } else { format!(" ({label})") };
    format!("process {pid} on {host}{label} since {}", moment(holder.since))
}
