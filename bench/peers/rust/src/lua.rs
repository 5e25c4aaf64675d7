//! Hand-written scripts, over one connection shared by all callers: the least that such a result costs.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
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

/// A record per task ID and a list of IDs. No priorities, due times, capacity or answer to a repeated call.
const PUT: &str = "for at = 1, #ARGV, 2 do \
        if redis.call('HSETNX', KEYS[1], ARGV[at], ARGV[at + 1]) == 1 then redis.call('RPUSH', KEYS[2], ARGV[at]) end \
    end";

pub async fn put(settings: &Settings) -> Result<()> {
    let connection = redis::Client::open(url())?.get_multiplexed_async_connection().await?;
    let (first, n) = (settings.get("first"), settings.get("n"));
    let (bulk, callers) = (settings.get("bulk").max(1), settings.get("callers").max(1));
    let (records, gap, begun) = (Records::new()?, settings.millis("gap_ms"), tokio::time::Instant::now());
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
                for i in numbers.clone() {
                    step.arg(format!("task:{i}")).arg(serde_json::to_vec(&Content::new(i))?);
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

/// A lease and a claim number for each task. No priorities, due times, keys, limits or answer to a repeated call.
const CLAIM: &str = "local clock = redis.call('TIME') local now = clock[1] * 1000000 + clock[2] \
    local ids = redis.call('LRANGE', KEYS[1], '0', ARGV[1] - 1) if not ids[1] then return {} end \
    redis.call('LTRIM', KEYS[1], #ids, '-1') \
    local records, till = redis.call('HMGET', KEYS[2], unpack(ids)), string.format('%.0f', now + ARGV[2]) \
    local runs, leases, answer = {}, {}, {} \
    for n, id in ipairs(ids) do local run = struct.pack('>I7I2', now + n, 1) .. ARGV[3] \
        runs[2 * n - 1], runs[2 * n], leases[2 * n - 1], leases[2 * n] = id, run, till, id \
        answer[3 * n - 2], answer[3 * n - 1], answer[3 * n] = id, records[n], run end \
    redis.call('HSET', KEYS[3], unpack(runs)) redis.call('ZADD', KEYS[4], unpack(leases)) return answer";
const COMPLETE: &str = "local ids, done = {}, {} for n = 1, #ARGV / 2 do ids[n] = ARGV[2 * n - 1] end \
    for n, run in ipairs(redis.call('HMGET', KEYS[3], unpack(ids))) do \
        if run == ARGV[2 * n] then done[#done + 1] = ids[n] end end \
    redis.call('HDEL', KEYS[3], unpack(done)) redis.call('HDEL', KEYS[2], unpack(done)) \
    redis.call('ZREM', KEYS[4], unpack(done)) return #done";
const CLAIMED_MAX: u64 = 100;

/// Claims tasks under leases, and completes them. A loop for each hundred tasks that may be claimed at a time.
pub async fn drain(settings: &Settings) -> Result<()> {
    let connection = redis::Client::open(url())?.get_multiplexed_async_connection().await?;
    let records = Records::new()?;
    records.keep_writing();
    let loops = (settings.get("concurrency") + settings.get("prefetch")).div_ceil(CLAIMED_MAX);
    together(loops, |_| {
        let (mut connection, records) = (connection.clone(), records.clone());
        let (claim, complete) = (Script::new(CLAIM), Script::new(COMPLETE));
        async move {
            loop {
                let mut step = keys(&claim);
                step.arg(CLAIMED_MAX).arg(LEASE_MS * 1000).arg("worker");
                let claimed: Vec<(String, Vec<u8>, Vec<u8>)> = step.invoke_async(&mut connection).await?;
                if claimed.is_empty() {
                    pause(Duration::from_millis(1)).await;
                    continue;
                }
                let mut step = keys(&complete);
                for (id, content, run) in &claimed {
                    let content: Content = serde_json::from_slice(content)?;
                    records.add([content.i, now(), 0, 0]);
                    step.arg(id).arg(run);
                }
                let done: usize = step.invoke_async(&mut connection).await?;
                ensure!(done == claimed.len(), "every claim is the latest of its task");
            }
        }
    })
    .await
}

fn keys(script: &Script) -> ScriptInvocation<'_> {
    let mut step = script.key("{queue}:waiting");
    step.key("{queue}:records").key("{queue}:runs").key("{queue}:leases");
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
