//! The raw ceiling of Redis or Valkey: the server's own benchmark tool with the cheapest correct script.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rushgate_test::servers::{Kind, RedisServer};

use crate::table::quantile;

/// A server and its benchmark tool.
pub struct Ceiling<'a> {
    pub server: &'a RedisServer,
    pub kind: Kind,
}

/// Distinct names are drawn from this range.
const NAMES: &str = "1000000000";

/// Takes a free name for a limited time, and raises its fence.
const ACQUIRE: &str = "if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then \
    return redis.call('INCR', KEYS[2]) end return 0";
/// Releases, if the caller is the owner.
const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
/// Hands over, if the caller is the owner, and notifies the next.
const HAND_ON: &str = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end \
    redis.call('SET', KEYS[1], ARGV[3]) return redis.call('PUBLISH', ARGV[2], ARGV[3])";
/// Reserves the next unit, if one is left: repeats the answer to the same buyer, records the end of the hold,
/// and appends an event.
const RESERVE: &str = "local unit = redis.call('HGET', KEYS[2], ARGV[1]) if unit then return unit end \
    local sold = tonumber(redis.call('GET', KEYS[1])) if sold >= 1000000000 then return 0 end \
    unit = redis.call('INCR', KEYS[1]) redis.call('HSET', KEYS[2], ARGV[1], unit) \
    redis.call('ZADD', KEYS[3], ARGV[2], ARGV[1]) redis.call('RPUSH', KEYS[4], ARGV[1] .. ':' .. unit) return unit";
/// Enqueues, leases and completes 64 tasks with an ID and a payload, with as few commands as possible: one
/// record per ID, an index of due tasks, leases that expire, and no completion of an expired lease.
const ENQUEUE: &str = "local ids, z, h = {}, {}, {} for i = 1, 64 do ids[i] = ARGV[2 * i - 1] end \
    local now = redis.call('TIME')[1] \
    for i, known in ipairs(redis.call('HMGET', KEYS[2], unpack(ids))) do if not known then \
    z[#z + 1] = now z[#z + 1] = ids[i] h[#h + 1] = ids[i] h[#h + 1] = ARGV[2 * i] end end \
    if #h == 0 then return 0 end \
    redis.call('HSET', KEYS[2], unpack(h)) return redis.call('ZADD', KEYS[1], unpack(z))";
const CLAIM: &str = "local now, z = tonumber(redis.call('TIME')[1]), {} \
    if #redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now, 'LIMIT', 0, 1) > 0 then return 'a lease expired' end \
    local ids = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, 64) \
    if #ids == 0 then return {} end \
    for i, id in ipairs(ids) do z[2 * i - 1] = now + 60 z[2 * i] = id end \
    redis.call('ZREM', KEYS[1], unpack(ids)) redis.call('ZADD', KEYS[3], unpack(z)) \
    return { ids, redis.call('HMGET', KEYS[2], unpack(ids)) }";
/// The tool does not know which IDs were leased. So it names others, whose leases are checked, and completes
/// the tasks that have been leased longest.
const COMPLETE: &str = "local now, ids = tonumber(redis.call('TIME')[1]), redis.call('ZRANGE', KEYS[3], 0, 63) \
    for _, till in ipairs(redis.call('ZMSCORE', KEYS[3], unpack(ARGV))) do \
    if till and tonumber(till) < now then return 'a lease expired' end end \
    if #ids == 0 then return 0 end \
    redis.call('HDEL', KEYS[2], unpack(ids)) return redis.call('ZREM', KEYS[3], unpack(ids))";

/// Round trip of a PING, in microseconds.
fn ping(socket: &mut TcpStream) -> Result<f64> {
    let start = Instant::now();
    socket.write_all(b"PING\r\n")?;
    hear(socket)?;
    Ok(start.elapsed().as_secs_f64() * 1e6)
}

/// Reads the server's next message, which is short enough to arrive in one piece.
fn hear(socket: &mut TcpStream) -> Result<()> {
    ensure!(socket.read(&mut [0; 256])? > 0, "the server is there");
    Ok(())
}

/// Figures reported by the tool.
struct Found {
    per_second: f64,
    p50_us: f64,
}

impl Ceiling<'_> {
    /// Acquires and releases distinct names with `callers` callers: cycles per second.
    pub fn lock(&self, callers: u32) -> Result<f64> {
        let acquire = self.load(ACQUIRE)?;
        let release = self.load(RELEASE)?;
        let take = ["EVALSHA", &acquire, "2", "l:__rand_int__", "f:__rand_int__", "token", "10000"];
        let free = ["EVALSHA", &release, "1", "l:__rand_int__", "token"];
        let (take, free) = (self.run(200_000, callers, 1, &take)?, self.run(200_000, callers, 1, &free)?);
        Ok(1.0 / (1.0 / take.per_second + 1.0 / free.per_second))
    }

    /// Reserves one unit each for distinct buyers: reservations per second.
    pub fn reserve(&self, callers: u32) -> Result<f64> {
        let reserve = self.load(RESERVE)?;
        self.server.command(&["SET", "raw:sold", "0"]);
        let step = [
            "EVALSHA", &reserve, "4", "raw:sold", "raw:buyers", "raw:holds", "raw:events", "__rand_int__",
            "1700000000",
        ];
        Ok(self.run(200_000, callers, 1, &step)?.per_second)
    }

    /// Full cycle of tasks in batches of 64, limited by the server: tasks per second.
    pub fn queue(&self) -> Result<f64> {
        let keys = ["raw:due", "raw:tasks", "raw:leased"];
        let payload = "x".repeat(100);
        let (tasks, ids) = (["task:__rand_int__", &payload].repeat(64), ["task:__rand_int__"].repeat(64));
        let mut micros = 0.0;
        for (script, arguments) in [(ENQUEUE, tasks), (CLAIM, vec![]), (COMPLETE, ids)] {
            let script = self.load(script)?;
            let mut step = vec!["EVALSHA", &script, "3", keys[0], keys[1], keys[2]];
            step.extend(arguments);
            micros += 1e6 / self.run(8_000, 4, 4, &step)?.per_second;
        }
        Ok(64.0 * 1e6 / micros)
    }

    /// Median round trip of a PING on an idle server, in microseconds.
    pub fn round_trip(&self) -> Result<f64> {
        Ok(self.run(20_000, 1, 1, &["PING"])?.p50_us)
    }

    /// Round trip of a PING after `idle` time without requests: p99, in microseconds. Most of it is the
    /// wake-up of idle cores.
    pub fn round_trip_after(&self, idle: Duration, times: usize) -> Result<f64> {
        let mut socket = self.socket()?;
        let mut micros = Vec::with_capacity(times);
        for _ in 0..times {
            thread::sleep(idle);
            micros.push(ping(&mut socket)?);
        }
        Ok(quantile(&mut micros, 0.99))
    }

    /// Time from a release that notifies the next waiter to the arrival of the notification, on two blocking
    /// sockets and without a wait queue: p50, in microseconds.
    pub fn hand_over(&self, times: usize) -> Result<f64> {
        let hand_on = self.load(HAND_ON)?;
        let (mut giver, mut taker) = (self.socket()?, self.socket()?);
        taker.write_all(b"SUBSCRIBE in\r\n")?;
        hear(&mut taker)?;
        let (arrived, arrivals) = mpsc::channel();
        let pushes = thread::spawn(move || {
            // Until the receiver is dropped.
            while hear(&mut taker).is_ok() && arrived.send(Instant::now()).is_ok() {}
        });
        let mut micros = Vec::with_capacity(times);
        for _ in 0..times {
            self.server.command(&["SET", "raw:hot", "token"]);
            ping(&mut giver)?;
            let start = Instant::now();
            write!(giver, "EVALSHA {hand_on} 1 raw:hot token in next\r\n")?;
            hear(&mut giver)?;
            micros.push((arrivals.recv()? - start).as_secs_f64() * 1e6);
        }
        drop(arrivals);
        giver.write_all(b"PUBLISH in done\r\n")?;
        pushes.join().ok().context("the taker reads to the end")?;
        Ok(quantile(&mut micros, 0.5))
    }

    fn socket(&self) -> Result<TcpStream> {
        let socket = TcpStream::connect(("127.0.0.1", self.server.port()))?;
        socket.set_nodelay(true)?;
        Ok(socket)
    }

    /// Loads the script, and returns its name on the server.
    fn load(&self, script: &str) -> Result<String> {
        self.server.command(&["SCRIPT", "LOAD", script]);
        let named = self.server.command(&["EVAL", "return {ok = redis.sha1hex(ARGV[1])}", "0", script]);
        named.strip_prefix('+').map(str::to_owned).context("the server takes the script")
    }

    fn run(&self, requests: u64, callers: u32, pipeline: u32, step: &[&str]) -> Result<Found> {
        let tool = match self.kind {
            Kind::Redis => "redis-benchmark",
            Kind::Valkey => "valkey-benchmark",
        };
        let (port, requests) = (self.server.port().to_string(), requests.to_string());
        let (callers, pipeline) = (callers.to_string(), pipeline.to_string());
        let settings = [
            "-h", "127.0.0.1", "-p", &port, "-n", &requests, "-c", &callers, "-P", &pipeline, "-r", NAMES,
            "--csv",
        ];
        let output = Command::new(tool).args(settings).args(step).output();
        let output =
            output.with_context(|| format!("`{tool}` comes with the server: apt-get install redis-tools"))?;
        ensure!(output.status.success(), "{tool}: {}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        // "test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms",…
        let last = text.lines().rfind(|line| line.starts_with('"')).context("a row")?;
        // The name of the test may hold commas, so the columns are counted from the end.
        let cells: Vec<&str> = last.rsplit(',').map(|cell| cell.trim_matches('"')).collect();
        let cell =
            |at: usize| -> Result<f64> { Ok(cells.get(at).context("a column is missing")?.parse::<f64>()?) };
        Ok(Found { per_second: cell(6)?, p50_us: cell(3)? * 1e3 })
    }
}
