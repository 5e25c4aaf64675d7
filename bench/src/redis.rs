//! Rows of a store on a server.

use anyhow::{Context, Result};
use rushgate_test::servers::{Kind, RedisServer, RedisSetup};
use tokio::runtime::Runtime;

use crate::ceiling::Ceiling;
use crate::table::{LENGTH, Table, median};
use crate::{ours, queues};

const CALLERS: u32 = 64;
/// Number of tasks from which the memory per task is computed.
const TASKS: u64 = 100_000;

pub fn measure(table: &Table, runtime: &Runtime, kind: Kind) -> Result<()> {
    let name = format!("{kind:?}");
    table.head(&format!(
        "{name}, in memory, on loopback; raw: the server's own benchmark tool with the cheapest correct script"
    ));
    let setup = RedisSetup::new(kind).with(&["--appendonly", "no"]);
    let server = setup.start();
    let ceiling = Ceiling { server: &server, kind };
    let url = server.url();
    let fresh = || drop(server.command(&["FLUSHALL"]));
    table.row(
        &format!("{name}: lock cycles/s, 64 callers"),
        || {
            fresh();
            runtime.block_on(ours::lock(&url, CALLERS.into(), LENGTH))
        },
        || {
            fresh();
            ceiling.lock(CALLERS)
        },
    )?;
    table.row(
        &format!("{name}: reservations/s, 64 callers"),
        || {
            fresh();
            runtime.block_on(ours::reserve(&url, CALLERS.into(), LENGTH))
        },
        || {
            fresh();
            ceiling.reserve(CALLERS)
        },
    )?;
    table.row(
        &format!("{name}: queue cycles/s, in batches of 64"),
        || {
            fresh();
            runtime.block_on(ours::queue_in_batches(&url, LENGTH))
        },
        || {
            fresh();
            ceiling.queue()
        },
    )?;
    let hand_over = || {
        fresh();
        Ok(runtime.block_on(runtime.spawn(ours::hand_over(url.clone())))??.0)
    };
    table.row(&format!("{name}: hand-over of a lock, p50 µs, to a PING"), hand_over, || {
        ceiling.round_trip()
    })?;
    table.row(&format!("{name}: hand-over of a lock, p50 µs, to bare sockets"), hand_over, || {
        ceiling.hand_over(ours::TIMES)
    })?;
    table.row(
        &format!("{name}: pick-up by an idle worker, p99 µs, to a PING"),
        || {
            fresh();
            Ok(runtime.block_on(runtime.spawn(ours::pick_up(url.clone())))??.1)
        },
        // The worker's machine is idle too.
        || ceiling.round_trip_after(ours::SETTLED, ours::TIMES),
    )?;
    let fresh_url = || {
        fresh();
        Ok(url.clone())
    };
    queues::measure(table, runtime, &name, &fresh_url, Some(&|| told(&server)))?;
    let row = format!("{name}: bytes for a waiting task of 100 bytes");
    if table.wants(&row) {
        let weights = (0..3).map(|_| {
            fresh();
            weight(runtime, &server)
        });
        println!("{row:<52} {:>12.1}", median(weights.collect::<Result<_>>()?));
    }
    Ok(())
}

/// Function calls, and microseconds of CPU time.
fn told(server: &RedisServer) -> Result<(f64, f64)> {
    let script = "local calls, cpu = 0, 0
        for n in string.gmatch(redis.call('INFO', 'commandstats'), 'cmdstat_fcall:calls=(%d+)') do calls = calls + n end
        for n in string.gmatch(redis.call('INFO', 'cpu'), 'used_cpu_%a+:([%d.]+)') do cpu = cpu + n * 1000000 end
        return { calls, cpu }";
    let told = server.ask(&["EVAL", script, "0"]);
    let mut numbers = told.iter().rev().filter_map(|word| word.parse::<f64>().ok());
    let cpu = numbers.next().context("the server reports its CPU time")?;
    Ok((numbers.next().context("the server reports its calls")?, cpu))
}

/// Memory per task, by the server's own figure.
fn weight(runtime: &Runtime, server: &RedisServer) -> Result<f64> {
    let used = || -> Result<f64> {
        let script = "return tonumber(string.match(redis.call('INFO', 'memory'), 'used_memory:(%d+)'))";
        Ok(server.command(&["EVAL", script, "0"]).trim_start_matches(':').parse()?)
    };
    let before = used()?;
    runtime.block_on(ours::fill(&server.url(), TASKS))?;
    Ok((used()? - before) / TASKS as f64)
}
