//! `rushgate lock show` and `ls`.

use anyhow::Result;
use rushgate::Rushgate;
use rushgate::lock::{Holder, LockState, Owner, Token};
use rushgate::store::Page;

use crate::args::lock::{LsArgs, OfLock};
use crate::exit::Exit;
use crate::output::{Output, Table, moment};

/// Head of the table of locks.
pub(crate) const HEAD: [&str; 5] = ["LOCK", "HOLDER", "SINCE", "WAITING", "LABEL"];

pub(super) async fn ls(client: &Rushgate, args: LsArgs, output: Output) -> Result<Exit> {
    let (is_first, page) = (args.after.is_empty(), Page::after(args.after, args.n));
    let locks = client.locks(page).await?;
    if locks.is_empty() {
        output.remark(if is_first { "no locks are held or waited for" } else { "no more locks" });
    }
    output.data(&locks, Table::new(HEAD, locks.iter().map(row)))
}

/// A row of the table of locks.
pub(crate) fn row(lock: &LockState) -> [String; 5] {
    let holder = lock.holders.first();
    [
        lock.name.to_string(),
        holder.map_or("-".to_owned(), |holder| owner(&holder.owner)),
        holder.map_or("-".to_owned(), |holder| moment(holder.since)),
        lock.waiters.len().to_string(),
        holder.map_or(String::new(), |holder| holder.owner.label.clone()),
    ]
}

pub(super) async fn show(client: &Rushgate, args: OfLock, output: Output) -> Result<Exit> {
    let state = client.lock(&args.name)?.state().await?;
    output.data(&state, text(&state))
}

fn text(state: &LockState) -> String {
    let mut text = match state.holders.first() {
        Some(holder) => format!(
            "{} is held by {}\nfence {}, {}, lease until {}\n",
            state.name,
            who(holder),
            holder.fence,
            token(holder),
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

/// A server hides tokens from workers: it answers with zeros.
fn token(holder: &Holder) -> String {
    if holder.token == Token::from_bytes([0; 16]) {
        return "token hidden".to_owned();
    }
    format!("token {}", holder.token)
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
