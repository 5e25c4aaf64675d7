//! Hand-written scripts, over one connection shared by all callers: the least that such a result costs.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use redis::{Script, ScriptInvocation, Value, cmd};

use crate::record::{Records, now};
use crate::{Content, Settings, pause, together, url};

/// A lease and the next fencing token. No wait queue, no owner, and no answer to a repeated call.
const ACQUIRE: &str = "if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return false end \
    return redis.call('INCR', KEYS[2])";
const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end return redis.call('DEL', KEYS[1])";
const LEASE_MS: u64 = 10_000;

pub async fn lock(settings: &Settings) -> Result<()> {
    let connection = redis::Client::open(url())?.get_multiplexed_async_connection().await?;
    let (records, end) = (Records::new()?, settings.end());
    together(settings.get("callers"), |n| {
        let (mut connection, records) = (connection.clone(), records.clone());
        let (acquire, release) = (Script::new(ACQUIRE), Script::new(RELEASE));
        async move {
            for cycle in 0.. {
                if Instant::now() >= end {
                    break;
                }
                let (name, token, asked) =
                    (format!("{{lock:{n}:{cycle}}}"), u128::from(n) << 64 | cycle, now());
                let mut step = acquire.key(&name);
                let step = step.key(format!("{name}:fence")).arg(&token.to_le_bytes()).arg(LEASE_MS);
                let fence: Option<u64> = step.invoke_async(&mut connection).await?;
                fence.context("nobody else wants the lock")?;
                let _: u64 =
                    release.key(&name).arg(&token.to_le_bytes()).invoke_async(&mut connection).await?;
                records.add([n, asked, now(), 0]);
            }
            Ok(())
        }
    })
    .await?;
    records.write()
}

/// A record per task ID and a list of IDs. No priorities, due times, capacity or answer to a repeated call. The third key
/// is for `drain`: its list has 7 bytes before each ID.
const PUT: &str = "local before = KEYS[3] and '\\0\\0\\0\\0\\0\\0\\0' or '' for at = 1, #ARGV, 2 do \
        if redis.call('HSETNX', KEYS[1], ARGV[at], ARGV[at + 1]) == 1 then \
            redis.call('RPUSH', KEYS[2], before .. ARGV[at]) end end";

pub async fn put(settings: &Settings) -> Result<()> {
    let connection = redis::Client::open(url())?.get_multiplexed_async_connection().await?;
    let (first, n) = (settings.get("first"), settings.get("n"));
    let (bulk, callers) = (settings.get("bulk").max(1), settings.get("callers").max(1));
    let (records, gap, begun) = (Records::new()?, settings.millis("gap_ms"), tokio::time::Instant::now());
    let is_for_drain = settings.get("concurrency") > 0;
    together(callers, |caller| {
        let (mut connection, records, script) = (connection.clone(), records.clone(), Script::new(PUT));
        async move {
            for start in (first + caller * bulk..first + n).step_by((callers * bulk) as usize) {
                if !gap.is_zero() {
                    tokio::time::sleep_until(begun + gap * (start - first) as u32).await;
                }
                let numbers = start..(start + bulk).min(first + n);
                let asked = now();
                let mut step = script.key("{queue}:records");
                step.key("{queue}:waiting");
                if is_for_drain {
                    step.key("{queue}:runs");
                }
                for i in numbers.clone() {
                    let header = if is_for_drain { header() } else { Vec::new() };
                    step.arg(format!("task:{i}"))
                        .arg([header, serde_json::to_vec(&Content::new(i))?].concat());
                }
                let () = step.invoke_async(&mut connection).await?;
                records.add([start, asked, now(), numbers.end - start]);
            }
            Ok(())
        }
    })
    .await?;
    records.write()
}

/// Blocks in the server until there is a task, and reads its record. No lease: a worker that dies loses its task.
pub async fn work() -> Result<()> {
    let mut connection = redis::Client::open(url())?.get_multiplexed_async_connection().await?;
    let records = Records::new()?;
    records.keep_writing();
    loop {
        let found: Option<(String, String)> =
            cmd("BLPOP").arg("{queue}:waiting").arg(0.2).query_async(&mut connection).await?;
        let Some((_, id)) = found else { continue };
        let content: Vec<u8> =
            cmd("HGET").arg("{queue}:records").arg(id).query_async(&mut connection).await?;
        let content: Content = serde_json::from_slice(&content)?;
        records.add([content.i, now(), 0, 0]);
    }
}

/// What Rushgate keeps of a task and of a run, a lease and a claim number for each task, a pause, and answers to repeated
/// calls. No due times, limits, deadlines, retries, dependencies, events or wake-ups, and hardly any checks.
const CLAIM: &str = include_str!("../../../scripts/claim.lua");
const COMPLETE: &str = include_str!("../../../scripts/complete.lua");
const CLAIMED_MAX: u64 = 100;
/// Length of the part of a record before its payload: place, revision, first, priority and attempts.
const HEADER_BYTES: usize = 23;
const FIRST_FROM: usize = 13;
const PRIORITY_AT: usize = 20;
/// A task without a key, of the default priority, that was due when it was enqueued.
const PRIORITY: u8 = 37;

fn header() -> Vec<u8> {
    let mut header = vec![0; HEADER_BYTES];
    header[FIRST_FROM..PRIORITY_AT].copy_from_slice(&now().to_be_bytes()[1..]);
    header[PRIORITY_AT] = PRIORITY;
    header
}

/// Claims tasks under leases, and completes them. A loop for each hundred tasks that may be claimed at a time.
pub async fn drain(settings: &Settings) -> Result<()> {
    let connection = redis::Client::open(url())?.get_multiplexed_async_connection().await?;
    let records = Records::new()?;
    records.keep_writing();
    let loops = (settings.get("concurrency") + settings.get("prefetch")).div_ceil(CLAIMED_MAX);
    together(loops, |n| {
        let (mut connection, records) = (connection.clone(), records.clone());
        let (claim, complete) = (Script::new(CLAIM), Script::new(COMPLETE));
        async move {
            for call in 0_u64.. {
                let op = |kind: u64| format!("{}:{n}:{call}:{kind}", std::process::id());
                let mut step = keys(&claim);
                step.arg(CLAIMED_MAX).arg("worker").arg(op(0));
                let answer: Vec<Vec<Value>> = step.invoke_async(&mut connection).await?;
                let [_, _, tasks @ ..] = &answer.concat()[..] else {
                    pause(Duration::from_millis(1)).await;
                    continue;
                };
                let mut step = keys(&complete);
                for task in tasks.chunks(3) {
                    let [Value::BulkString(id), Value::BulkString(record), Value::BulkString(run)] = task
                    else {
                        bail!("an ID, a record and a run")
                    };
                    let content: Content = serde_json::from_slice(&record[HEADER_BYTES..])?;
                    records.add([content.i, now(), 0, 0]);
                    step.arg(id).arg(claim_number(run)?);
                }
                let done: Vec<Vec<u64>> = step.arg(op(1)).invoke_async(&mut connection).await?;
                ensure!(done.concat().len() == tasks.len() / 3, "every claim is the latest of its task");
            }
            Ok(())
        }
    })
    .await
}

/// The first seven bytes of a run, and its eighth.
fn claim_number(run: &[u8]) -> Result<u64> {
    let (number, rest) = run.split_at_checked(7).context("a run has a claim number")?;
    let number = number.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    Ok(number + u64::from(*rest.first().context("a run has a turn")?))
}

fn keys(script: &Script) -> ScriptInvocation<'_> {
    let mut step = script.key("{queue}:waiting");
    for key in ["records", "leases", "runs", "settings", "answers"] {
        step.key(format!("{{queue}}:{key}"));
    }
    step
}

/// It counts units and buyers, but has no holds, unit numbers, orders or answer to a repeated call.
const SELL: &str = "if tonumber(redis.call('GET', KEYS[1])) <= 0 then return 0 end \
    if redis.call('SADD', KEYS[2], ARGV[1]) == 0 then return 0 end \
    redis.call('DECR', KEYS[1]) return 1";

/// The same with what a reservation leaves: a hold of a numbered unit with a deadline, found again if the call is
/// repeated, and an entry in a log. No SKUs, no limits but one unit a buyer, and no confirmation.
const HOLD: &str = "local hold = redis.call('HGET', KEYS[3], ARGV[2]) if hold then return hold end \
    local unit = redis.call('GET', KEYS[1]) if tonumber(unit) <= 0 then return 0 end \
    if redis.call('HSETNX', KEYS[2], ARGV[1], 1) == 0 then return 0 end \
    redis.call('DECR', KEYS[1]) \
    local now = redis.call('TIME') local till = now[1] + 600 \
    hold = till .. ' ' .. unit .. ' ' .. ARGV[1] redis.call('HSET', KEYS[3], ARGV[2], hold) \
    redis.call('ZADD', KEYS[4], till, ARGV[2]) \
    redis.call('RPUSH', KEYS[5], now[1] .. now[2] .. ' ' .. unit .. ' ' .. ARGV[2]) return hold";

pub async fn sale(settings: &Settings) -> Result<()> {
    let mut connection = redis::Client::open(url())?.get_multiplexed_async_connection().await?;
    let (callers, buyers, holds) = (settings.get("callers"), settings.get("n"), settings.get("holds") == 1);
    cmd("SET").arg("{sale}:stock").arg(settings.get("units")).exec_async(&mut connection).await?;
    let records = Records::new()?;
    together(callers, |n| {
        let (mut connection, records) = (connection.clone(), records.clone());
        let script = Script::new(if holds { HOLD } else { SELL });
        async move {
            for buyer in (n..buyers).step_by(callers as usize) {
                let (asked, reservation) = (now(), u128::from(buyer).to_le_bytes());
                let mut step = script.key("{sale}:stock");
                step.key("{sale}:buyers").arg(buyer);
                if holds {
                    step.key("{sale}:holds").key("{sale}:deadlines").key("{sale}:log").arg(&reservation);
                }
                let answer: Value = step.invoke_async(&mut connection).await?;
                records.add([buyer, asked, now(), (answer != Value::Int(0)).into()]);
            }
            Ok(())
        }
    })
    .await?;
    records.write()
}
