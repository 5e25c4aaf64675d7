//! Lock operations: encodes requests and decodes answers.

use rushgate_core::{
    Acquire, Acquired, Busy, ClientId, Error, Extend, Extended, Fence, Grant, Holder, LockName, LockState,
    Op, Owner, Queued, ReleaseWith, ReleasedWith, Result, Timestamp, Token, WaiterState, verb,
};

use crate::command::micros;
use crate::command::{Call, Command};
use crate::function::Function;
use crate::reply::{Fields, Packed, Reply, id_of, strange};
use crate::{keys, queue};

fn call(function: Function, name: &LockName) -> Call {
    Call::new(function, [keys::lock(name)])
}

pub(crate) fn acquire(ask: &Acquire, inbox: u64) -> Call {
    let args = Command::default()
        .arg(ask.token.to_bytes())
        .arg(ask.lease.as_micros().to_string())
        .arg(micros(ask.wait).to_string())
        .arg(if ask.barging { "1" } else { "0" })
        .arg(inbox.to_be_bytes())
        .arg(write_owner(&ask.owner));
    one_of_many(Function::LockAcquire, &ask.name, args)
}

pub(crate) fn release(name: &LockName, token: Token) -> Call {
    let args = Command::default().arg(token.to_bytes());
    one_of_many(Function::LockRelease, name, args)
}

pub(crate) fn release_with(op: Op, release: &ReleaseWith) -> Call {
    let ReleaseWith { name, token, queue: of, task } = release;
    let keys = [keys::lock(name), keys::queue(of), keys::replays(of, op.client()), keys::unique(of)];
    Call::new(Function::LockReleaseWith, keys)
        .arg(&op.to_bytes()[8..])
        .arg(token.to_bytes())
        .arg(task.id.as_str())
        .arg(queue::terms(task))
        .arg(queue::write_body(&task.payload))
}

pub(crate) fn read_released_with(reply: Reply) -> Result<ReleasedWith> {
    let mut fields = reply.list()?;
    match fields.int()? {
        0 => Ok(ReleasedWith::NotHeld),
        1 => Ok(ReleasedWith::Released(queue::read_put(&mut fields)?)),
        2 => Ok(ReleasedWith::NotTaken(queue::read_put(&mut fields)?)),
        _ => Err(strange("an unknown outcome")),
    }
}

/// A request that can share its call with requests for other locks.
fn one_of_many(function: Function, name: &LockName, args: Command) -> Call {
    Call::new(function, []).item_with_keys(1, keys::lock(name), args)
}

pub(crate) fn extend(extend: &Extend) -> Call {
    call(Function::LockExtend, &extend.name).arg(extend.token.to_bytes()).number(extend.lease.as_micros())
}

pub(crate) fn held(name: &LockName, token: Token) -> Call {
    call(Function::LockHeld, name).arg(token.to_bytes())
}

pub(crate) fn leave(verb: &verb::Leave) -> Call {
    call(Function::LockLeave, &verb.name).arg(verb.token.to_bytes())
}

pub(crate) fn release_all(name: &LockName, client: ClientId) -> Call {
    call(Function::LockReleaseAll, name).arg(client.as_u64().to_be_bytes())
}

pub(crate) fn force_release(verb: &verb::ForceRelease) -> Call {
    call(Function::LockForceRelease, &verb.name)
}

pub(crate) fn show(name: &LockName) -> Call {
    call(Function::LockShow, name)
}

pub(crate) fn read_acquired(reply: Reply) -> Result<Acquired> {
    let mut fields = reply.list()?;
    match fields.int()? {
        1 => Ok(Acquired::Granted(read_grant(&mut fields)?)),
        2 => Ok(Acquired::Queued(Queued {
            position: fields.int()?,
            check_after: duration(fields.int()?),
            fence: Fence::from_u64(fields.int()?),
        })),
        3 => Ok(Acquired::Busy(Busy { retry_after: duration(fields.int()?), waiters: fields.int()? })),
        _ => Err(strange("an unknown outcome")),
    }
}

fn duration(us: u64) -> std::time::Duration {
    std::time::Duration::from_micros(us)
}

fn read_grant(fields: &mut Fields) -> Result<Grant> {
    Ok(Grant {
        fence: Fence::from_u64(fields.int()?),
        lease_until: Timestamp::from_micros(fields.int()?),
        lease_left: duration(fields.int()?),
    })
}

pub(crate) fn read_held(reply: Reply) -> Result<Option<Grant>> {
    let mut fields = reply.list()?;
    if fields.is_empty() { Ok(None) } else { read_grant(&mut fields).map(Some) }
}

pub(crate) fn read_extended(reply: Reply) -> Result<Extended> {
    Ok(read_held(reply)?.map_or(Extended::NotHeld, Extended::Extended))
}

/// Process ID (4 bytes), length of the host name (1), host name, label.
fn write_owner(owner: &Owner) -> Vec<u8> {
    let mut bytes = owner.pid.to_be_bytes().to_vec();
    bytes.push(owner.host.len() as u8);
    bytes.extend_from_slice(owner.host.as_bytes());
    bytes.extend_from_slice(owner.label.as_bytes());
    bytes
}

fn read_owner(mut bytes: Packed<'_>) -> Result<Owner> {
    let pid = bytes.small(4)?;
    let host = bytes.text()?.to_owned();
    let label = crate::reply::str_of(bytes.0)?.to_owned();
    Ok(Owner { host, pid, label })
}

pub(crate) fn read_holder(mut fields: Fields) -> Result<Option<Holder>> {
    if fields.is_empty() {
        return Ok(None);
    }
    let token = Token::from_bytes(id_of(&fields.bytes()?)?);
    let (fence, lease_until) = (Fence::from_u64(fields.int()?), Timestamp::from_micros(fields.int()?));
    let info = fields.bytes()?;
    let mut info = Packed(&info);
    let since = Timestamp::from_micros(info.number(7)?);
    info.take(8)?;
    Ok(Some(Holder { token, fence, owner: read_owner(info)?, since, lease_until }))
}

pub(crate) fn read_state(name: LockName, reply: Reply) -> Result<LockState> {
    let mut fields = reply.list()?;
    let holders = read_holder(fields.list()?)?.into_iter().collect();
    let mut waiters = fields.list()?.each(|rows| {
        let token = Token::from_bytes(id_of(&rows.bytes()?)?);
        let row = rows.bytes()?;
        let mut row = Packed(&row);
        let ticket = row.number(7)?;
        row.take(7)?;
        let (since, until) = (row.number(7)?, row.number(7)?);
        row.take(8)?;
        let state = WaiterState {
            token,
            owner: read_owner(row)?,
            since: Timestamp::from_micros(since),
            wait_until: Timestamp::from_micros(until),
        };
        Ok((ticket, state))
    })?;
    waiters.sort_by_key(|(ticket, _)| *ticket);
    Ok(LockState { name, holders, waiters: waiters.into_iter().map(|(_, state)| state).collect() })
}

pub(crate) fn is_used(state: &LockState) -> bool {
    !state.holders.is_empty() || !state.waiters.is_empty()
}

pub(crate) fn bad_key() -> Error {
    strange("a key that is not a lock")
}
