"""The raw ceiling: the server's own benchmark tool, with the cheapest commands that do the work."""
import csv
import os
import subprocess
from urllib.parse import urlsplit

AT = urlsplit(os.environ.get("PEERS_URL", "redis://127.0.0.1:6379"))
WHERE = ["-h", AT.hostname, "-p", str(AT.port)]
SERVER = os.environ.get("PEERS_SERVER", "redis")
RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0"
SALE = (
    "if tonumber(redis.call('GET', KEYS[1])) <= 0 then return 0 end "
    "if redis.call('SADD', KEYS[2], ARGV[1]) == 0 then return 0 end redis.call('DECR', KEYS[1]) return 1"
)
# As long as the tasks of the drivers. No comma, because the tool does not quote its output.
TASK = "{i:1234567 p:0123456789abcdef______}"


def command(*words):
    output = subprocess.run([f"{SERVER}-cli", *WHERE, *words], capture_output=True, text=True, check=True)
    return output.stdout.strip()


def bench(n, callers, pipeline, *words):
    settings = ["-n", str(n), "-c", str(callers), "-P", str(pipeline), "-r", "1000000000", "--csv"]
    tool = [f"{SERVER}-benchmark", *WHERE, *settings, *words]
    output = subprocess.run(tool, capture_output=True, text=True, check=True).stdout
    row = list(csv.DictReader(output[output.index('"test"'):].splitlines()))[-1]
    return float(row["rps"]), float(row["p50_latency_ms"]) * 1e3, float(row["p99_latency_ms"]) * 1e3


def told(*steps):
    """Combined rate of consecutive steps, and the sum of their latencies."""
    rate = 1 / sum(1 / step[0] for step in steps)
    p50, p99 = (round(sum(step[i] for step in steps), 1) for i in (1, 2))
    return {"ops_per_s": round(rate, 1), "p50_us": p50, "p99_us": p99}


def measure(workload, said):
    callers, pipeline = said.get("callers", 1), said.get("pipeline", 1)
    # Long enough to be measurable, whatever the pipeline depth.
    n = 200_000 if callers * pipeline > 16 else 20_000
    if workload == "L1":
        release = command("SCRIPT", "LOAD", RELEASE)
        take = bench(n, callers, pipeline, "SET", "l:__rand_int__", "token", "NX", "PX", "10000")
        return told(take, bench(n, callers, pipeline, "EVALSHA", release, "1", "l:__rand_int__", "token"))
    if workload == "Q1":
        return told(bench(said["n"], callers, said.get("bulk", 1), "LPUSH", "q", TASK))
    if workload == "Q2":
        bench(2 * n, 50, 100, "LPUSH", "q", TASK)
        claim = bench(n, 50, pipeline, "LMOVE", "q", "busy", "RIGHT", "LEFT")
        return told(claim, bench(n, 50, pipeline, "RPOP", "busy"))
    if workload == "Q3":
        return {**told(bench(n, 1, 1, "PING"), bench(n, 1, 1, "PING")), "ops_per_s": None}
    if workload == "S1":
        sale = command("SCRIPT", "LOAD", SALE)
        command("SET", "stock", str(said["units"]))
        found = told(bench(said["n"], callers, pipeline, "EVALSHA", sale, "2", "stock", "buyers", "__rand_int__"))
        sold = int(command("SCARD", "buyers"))
        return {**found, "attempts": said["n"], "sold": sold, "oversold": max(0, sold - said["units"])}
    raise SystemExit(f"{workload} has no ceiling")
