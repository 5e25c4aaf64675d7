//! The lock methods, each one step.

use std::time::Duration;

use rushgate_core::{
    Acquire, Acquired, Busy, ClientId, Enqueued, Extend, Extended, Fence, Grant, Holder, Left, LockName,
    LockState, Notification, Op, Owner, Page, Queued, ReleaseWith, Released, ReleasedWith, Timestamp, Token,
    Topic, WaiterState,
};
use rusqlite::Row;

use crate::fault::Result;
use crate::queue::enqueue;
use crate::read::Reader;
use crate::sql::sql;
use crate::step::Step;
use crate::stored::{json, micros, read_json, stored, time};

const TOKEN_BYTES: usize = 16;
/// Size of the list of latest releases in a row, in bytes.
const RELEASED_BYTES: usize = Released::REMEMBERED * TOKEN_BYTES;

/// The columns of a lock's row that the methods need.
struct LockRow {
    fence: u64,
    token: Option<Token>,
    lease_until: Timestamp,
    released: Vec<u8>,
    waiters: i64,
}

impl LockRow {
    fn load(step: &mut Step<'_>, name: &LockName) -> Result<Option<Self>> {
        step.row(sql!("lock/line", "lock"), [name.as_str()], |row| {
            Ok(Self {
                fence: row.get::<_, i64>(0)?.cast_unsigned(),
                token: row.get::<_, Option<[u8; 16]>>(1)?.map(Token::from_bytes),
                lease_until: time(row, 2)?,
                released: row.get(3)?,
                waiters: row.get(4)?,
            })
        })
    }

    fn live_holder(&self, now: Timestamp) -> Option<Token> {
        self.token.filter(|_| self.lease_until > now)
    }

    /// The answer to a release by a token that does not hold the lock.
    fn answer_late(&self, token: Token) -> Released {
        let mut released = self.released.chunks_exact(TOKEN_BYTES);
        if released.any(|earlier| earlier == token.to_bytes()) {
            Released::Released
        } else {
            Released::NotHeld
        }
    }
}

/// The first waiter.
struct First {
    ticket: i64,
    token: Token,
    lease: Duration,
    owner: Owner,
}

fn owner_at(row: &Row<'_>, at: usize) -> rusqlite::Result<Owner> {
    Ok(Owner { host: row.get(at)?, pid: row.get(at + 1)?, label: row.get(at + 2)? })
}

fn grant(fence: u64, until: Timestamp, now: Timestamp) -> Grant {
    Grant { fence: Fence::from_u64(fence), lease_until: until, lease_left: until.since(now) }
}

pub(crate) fn acquire(step: &mut Step<'_>, ask: &Acquire) -> Result<Acquired> {
    let until = step.now + ask.lease.get();
    let fence = step.value::<i64>(
        sql!("lock/acquire", "take_free"),
        (
            ask.name.as_str(),
            step.now_us(),
            ask.token.to_bytes(),
            stored(until),
            ask.owner.host.as_str(),
            ask.owner.pid,
            ask.owner.label.as_str(),
        ),
    )?;
    match fence {
        Some(fence) => Ok(Acquired::Granted(grant(fence.cast_unsigned(), until, step.now))),
        None => acquire_contended(step, ask),
    }
}

/// Acquires a lock that is held or has waiters.
fn acquire_contended(step: &mut Step<'_>, ask: &Acquire) -> Result<Acquired> {
    let now = step.now;
    let Some(row) = LockRow::load(step, &ask.name)? else {
        return Err(rushgate_core::Error::bug("the row of a lock disappeared within a step").into());
    };
    if row.live_holder(now) == Some(ask.token) {
        return confirm(step, ask, &row);
    }
    if let Some(_other) = row.live_holder(now) {
        return stand_in_line(step, ask, grant(row.fence, row.lease_until, now));
    }
    end_expired(step, &ask.name, &row)?;
    let place = place(step, &ask.name, ask.token)?;
    if let Some((ticket, _)) = place {
        ask_again(step, ask, ticket)?;
    }
    let first = first(step, &ask.name)?;
    let mine = match &first {
        None => true,
        Some(first) => ask.barging || first.token == ask.token,
    };
    if mine {
        step.exec(sql!("lock/line", "leave"), (ask.name.as_str(), ask.token.to_bytes()))?;
        let fence = give(step, &ask.name, &row, ask.token, &ask.owner, now + ask.lease.get())?;
        recount(step, &ask.name)?;
        return Ok(Acquired::Granted(grant(fence, now + ask.lease.get(), now)));
    }
    let present = match first {
        Some(first) => hand_over(step, &ask.name, &row, first)?,
        None => grant(row.fence, now, now),
    };
    stand_in_line(step, ask, present)
}

/// Renews the lease of a token that already holds the lock, and ends its claim window.
fn confirm(step: &mut Step<'_>, ask: &Acquire, row: &LockRow) -> Result<Acquired> {
    let until = step.now + ask.lease.get();
    step.exec(sql!("lock/line", "lease"), (ask.name.as_str(), stored(until)))?;
    if row.waiters > 0 {
        step_out(step, &ask.name, ask.token)?;
    }
    Ok(Acquired::Granted(grant(row.fence, until, step.now)))
}

/// Removes the token from the wait queue, with its pending notification.
fn step_out(step: &mut Step<'_>, name: &LockName, token: Token) -> Result<()> {
    if step.exec(sql!("lock/line", "leave"), (name.as_str(), token.to_bytes()))? > 0 {
        recount(step, name)?;
        step.exec(sql!("lock/line", "told"), (client(token), token.to_bytes()))?;
    }
    Ok(())
}

fn client(token: Token) -> i64 {
    token.client().as_u64().cast_signed()
}

/// Adds the token to the wait queue. `present` is the latest grant.
fn stand_in_line(step: &mut Step<'_>, ask: &Acquire, present: Grant) -> Result<Acquired> {
    let now = step.now;
    let left = present.lease_left;
    if ask.wait.is_zero() {
        let waiters: i64 =
            step.value(sql!("lock/line", "waiting"), (ask.name.as_str(), stored(now)))?.unwrap_or_default();
        return Ok(Acquired::Busy(Busy { retry_after: left, waiters: waiters.cast_unsigned() }));
    }
    let mut at = place(step, &ask.name, ask.token)?;
    if let Some((_, wait_until)) = at
        && wait_until <= now
    {
        // Its first wait expired before its row was removed, so it joins the end of the wait queue.
        step.exec(sql!("lock/line", "leave"), (ask.name.as_str(), ask.token.to_bytes()))?;
        at = None;
    }
    let ticket = match at {
        Some((ticket, _)) => {
            ask_again(step, ask, ticket)?;
            ticket
        }
        None => join(step, ask)?,
    };
    let position: i64 =
        step.value(sql!("lock/line", "ahead"), (ask.name.as_str(), ticket, stored(now)))?.unwrap_or(1);
    Ok(Acquired::Queued(Queued {
        position: position.cast_unsigned(),
        check_after: left,
        fence: present.fence,
    }))
}

/// Makes a skipped waiter eligible again, and deletes its outdated notification.
fn ask_again(step: &mut Step<'_>, ask: &Acquire, ticket: i64) -> Result<()> {
    step.exec(sql!("lock/acquire", "ask_again"), (ask.name.as_str(), ticket))?;
    step.exec(sql!("lock/line", "told"), (client(ask.token), ask.token.to_bytes())).map(drop)
}

fn join(step: &mut Step<'_>, ask: &Acquire) -> Result<i64> {
    let ticket = step.value(
        sql!("lock/acquire", "join"),
        (
            ask.name.as_str(),
            step.now_us(),
            ask.token.to_bytes(),
            micros(ask.lease.get()),
            stored(step.now + ask.wait),
            ask.owner.host.as_str(),
            ask.owner.pid,
            ask.owner.label.as_str(),
        ),
    )?;
    recount(step, &ask.name)?;
    Ok(ticket.unwrap_or_default())
}

/// The token's ticket in the wait queue, and when it stops waiting.
fn place(step: &mut Step<'_>, name: &LockName, token: Token) -> Result<Option<(i64, Timestamp)>> {
    step.row(sql!("lock/line", "place"), (name.as_str(), token.to_bytes()), |row| {
        Ok((row.get(0)?, time(row, 1)?))
    })
}

fn first(step: &mut Step<'_>, name: &LockName) -> Result<Option<First>> {
    step.row(sql!("lock/line", "first"), [name.as_str()], |row| {
        Ok(First {
            ticket: row.get(0)?,
            token: Token::from_bytes(row.get(1)?),
            lease: Duration::from_micros(row.get::<_, i64>(2)?.cast_unsigned()),
            owner: owner_at(row, 3)?,
        })
    })
}

fn recount(step: &mut Step<'_>, name: &LockName) -> Result<()> {
    step.exec(sql!("lock/line", "count"), [name.as_str()]).map(drop)
}

/// Cleans up a lock without a holder: a waiter that let its claim window pass keeps its position, and expired waiters
/// are removed.
fn end_expired(step: &mut Step<'_>, name: &LockName, row: &LockRow) -> Result<()> {
    if row.waiters == 0 {
        return Ok(());
    }
    if let Some(token) = row.token {
        step.exec(sql!("lock/line", "lapse"), (name.as_str(), token.to_bytes()))?;
    }
    let gone = step.exec(sql!("lock/line", "drop_dead"), (name.as_str(), step.now_us()))?;
    if gone > 0 { recount(step, name) } else { Ok(()) }
}

/// Writes a new holder and a new fencing token into the row.
fn give(
    step: &mut Step<'_>,
    name: &LockName,
    row: &LockRow,
    token: Token,
    owner: &Owner,
    until: Timestamp,
) -> Result<u64> {
    let fence = (row.fence + 1).max(step.now.as_micros());
    step.exec(
        sql!("lock/line", "grant"),
        (
            name.as_str(),
            fence.cast_signed(),
            token.to_bytes(),
            stored(until),
            step.now_us(),
            owner.host.as_str(),
            owner.pid,
            owner.label.as_str(),
        ),
    )?;
    Ok(fence)
}

/// Grants the lock to a waiter and notifies it.
///
/// A waiter that listens in this process will receive the notification, so it gets its full lease and leaves the wait
/// queue. Any other waiter gets the claim window, and keeps its position until it confirms.
fn hand_over(step: &mut Step<'_>, name: &LockName, row: &LockRow, to: First) -> Result<Grant> {
    let now = step.now;
    if step.listeners.hears(to.token) {
        let until = now + to.lease;
        let fence = give(step, name, row, to.token, &to.owner, until)?;
        step.exec(sql!("lock/line", "leave"), (name.as_str(), to.token.to_bytes()))?;
        recount(step, name)?;
        let grant = grant(fence, until, now);
        step.tell(Topic::Token(to.token), Some(Notification::Granted(grant)), usize::MAX);
        return Ok(grant);
    }
    let until = now + to.lease.min(Acquire::CLAIM_WINDOW);
    let fence = give(step, name, row, to.token, &to.owner, until)?;
    step.exec(sql!("lock/line", "granted"), (name.as_str(), to.ticket))?;
    tell_elsewhere(step, to.token, 0)?;
    Ok(grant(fence, until, now))
}

fn tell_elsewhere(step: &mut Step<'_>, token: Token, kind: i64) -> Result<()> {
    let at = step.now_us();
    step.exec(sql!("lock/line", "tell"), (client(token), token.to_bytes(), kind, at)).map(drop)
}

/// Hands a lock without a holder to the first waiter, or leaves it free.
fn serve(step: &mut Step<'_>, name: &LockName, row: &LockRow, released: Option<Token>) -> Result<()> {
    let released: Vec<u8> = released.into_iter().flat_map(Token::to_bytes).collect();
    step.exec(sql!("lock/line", "clear"), (name.as_str(), step.now_us(), released, RELEASED_BYTES))?;
    end_expired(step, name, row)?;
    if row.waiters > 0
        && let Some(first) = first(step, name)?
    {
        hand_over(step, name, row, first)?;
    }
    Ok(())
}

pub(crate) fn release(step: &mut Step<'_>, name: &LockName, token: Token) -> Result<Released> {
    let quick = (name.as_str(), token.to_bytes(), step.now_us(), RELEASED_BYTES);
    if step.exec(sql!("lock/release", "quick"), quick)? > 0 {
        return Ok(Released::Released);
    }
    let Some(row) = LockRow::load(step, name)? else { return Ok(Released::NotHeld) };
    match row.live_holder(step.now) {
        Some(holder) if holder == token => {
            step.exec(sql!("lock/line", "leave"), (name.as_str(), token.to_bytes()))?;
            recount(step, name)?;
            serve(step, name, &row, Some(token))?;
            Ok(Released::Released)
        }
        Some(_) => Ok(row.answer_late(token)),
        None => {
            if row.token.is_some() {
                serve(step, name, &row, None)?;
            }
            Ok(row.answer_late(token))
        }
    }
}

pub(crate) fn extend(step: &mut Step<'_>, leases: &[Extend]) -> Result<Vec<Extended>> {
    leases.iter().map(|lease| extend_one(step, lease)).collect()
}

fn extend_one(step: &mut Step<'_>, lease: &Extend) -> Result<Extended> {
    let until = step.now + lease.lease.get();
    let params = (lease.name.as_str(), lease.token.to_bytes(), stored(until), step.now_us());
    let extended = step.row(sql!("lock/extend", "extend"), params, |row| {
        Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get::<_, i64>(1)?))
    })?;
    let Some((fence, waiters)) = extended else { return Ok(Extended::NotHeld) };
    if waiters > 0 {
        step_out(step, &lease.name, lease.token)?;
    }
    Ok(Extended::Extended(grant(fence, until, step.now)))
}

pub(crate) fn leave(step: &mut Step<'_>, name: &LockName, token: Token) -> Result<Left> {
    let Some(row) = LockRow::load(step, name)? else { return Ok(Left::Nothing) };
    if row.live_holder(step.now) == Some(token) {
        release(step, name, token)?;
        return Ok(Left::Lock);
    }
    let Some((_, wait_until)) = place(step, name, token)? else { return Ok(Left::Nothing) };
    step_out(step, name, token)?;
    // A waiter whose wait has expired has left the queue, even if its row still exists.
    Ok(if wait_until > step.now { Left::Line } else { Left::Nothing })
}

pub(crate) fn release_with(step: &mut Step<'_>, op: Op, release_with: &ReleaseWith) -> Result<ReleasedWith> {
    let ReleaseWith { name, token, queue, task } = release_with;
    let holder = LockRow::load(step, name)?.and_then(|row| row.live_holder(step.now));
    if holder != Some(*token) {
        let kept = step.row(sql!("lock/released_with", "kept"), [op.to_bytes()], |row| read_json(row, 0))?;
        return Ok(kept.map_or(ReleasedWith::NotHeld, ReleasedWith::Released));
    }
    match enqueue::enqueue(step, queue, std::slice::from_ref(task))?.pop() {
        Some(refused @ (Enqueued::Full { .. } | Enqueued::Refused { .. })) => {
            Ok(ReleasedWith::NotTaken(refused))
        }
        Some(enqueued) => {
            release(step, name, *token)?;
            let row = (op.to_bytes(), step.now_us(), json(&enqueued)?);
            step.exec(sql!("lock/released_with", "keep"), row)?;
            Ok(ReleasedWith::Released(enqueued))
        }
        None => Err(rushgate_core::Error::bug("the store returned no answer for an enqueued task").into()),
    }
}

pub(crate) fn release_all(step: &mut Step<'_>, client: ClientId) -> Result<u64> {
    let prefix = client.as_u64().to_be_bytes();
    let of_client = |row: &Row<'_>| Ok((row.get::<_, String>(0)?, Token::from_bytes(row.get(1)?)));
    let waiting = step.rows(sql!("lock/release_all", "waiting"), [prefix], of_client)?;
    for (name, token) in waiting {
        let name = LockName::new(name)?;
        let holds = LockRow::load(step, &name)?.and_then(|row| row.live_holder(step.now)) == Some(token);
        if !holds {
            leave(step, &name, token)?;
        }
    }
    let held = step.rows(sql!("lock/release_all", "held"), (prefix, step.now_us()), of_client)?;
    for (name, token) in &held {
        release(step, &LockName::new(name)?, *token)?;
    }
    Ok(held.len() as u64)
}

pub(crate) fn force_release(step: &mut Step<'_>, name: &LockName) -> Result<Option<Holder>> {
    let now = step.now_us();
    let holder = step.row(sql!("lock/show", "holder"), (name.as_str(), now), read_holder)?;
    let Some(row) = LockRow::load(step, name)? else { return Ok(None) };
    let Some(holder) = holder else {
        if row.token.is_some() {
            serve(step, name, &row, None)?;
        }
        return Ok(None);
    };
    step.exec(sql!("lock/line", "leave"), (name.as_str(), holder.token.to_bytes()))?;
    recount(step, name)?;
    serve(step, name, &row, None)?;
    step.tell(Topic::Token(holder.token), Some(Notification::Revoked), usize::MAX);
    if !step.listeners.hears(holder.token) {
        tell_elsewhere(step, holder.token, 1)?;
    }
    Ok(Some(holder))
}

fn read_holder(row: &Row<'_>) -> rusqlite::Result<Holder> {
    Ok(Holder {
        token: Token::from_bytes(row.get(0)?),
        fence: Fence::from_u64(row.get::<_, i64>(1)?.cast_unsigned()),
        owner: owner_at(row, 2)?,
        since: time(row, 5)?,
        lease_until: time(row, 6)?,
    })
}

pub(crate) fn held(reader: &Reader<'_>, name: &LockName, token: Token) -> Result<Option<Grant>> {
    let params = (name.as_str(), token.to_bytes(), stored(reader.now));
    reader.row(sql!("lock/held", "held"), params, |row| {
        Ok(grant(row.get::<_, i64>(0)?.cast_unsigned(), time(row, 1)?, reader.now))
    })
}

pub(crate) fn show(reader: &Reader<'_>, name: &LockName) -> Result<LockState> {
    let params = (name.as_str(), stored(reader.now));
    let holders = reader.rows(sql!("lock/show", "holder"), params, read_holder)?;
    let waiters = reader.rows(sql!("lock/show", "waiters"), params, |row| {
        Ok(WaiterState {
            token: Token::from_bytes(row.get(0)?),
            owner: owner_at(row, 1)?,
            since: time(row, 4)?,
            wait_until: time(row, 5)?,
        })
    })?;
    Ok(LockState { name: name.clone(), holders, waiters })
}

pub(crate) fn list(reader: &Reader<'_>, page: &Page) -> Result<Vec<LockState>> {
    let params = (&page.after, stored(reader.now), page.limit);
    let names = reader.rows(sql!("lock/list", "names"), params, |row| row.get::<_, String>(0))?;
    names.iter().map(|name| show(reader, &LockName::new(name)?)).collect()
}
