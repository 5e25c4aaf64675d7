"""measure.py WORKLOAD DRIVER KEY=VALUE…: runs one driver once, and prints one line of JSON.

The driver leaves records of what happened. All figures are computed here, the same way for every driver.
"""
import array
import json
import os
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import ceiling

LIMIT = 100  # seconds; a drain that takes longer is cut off and marked
scratch = tempfile.TemporaryDirectory(prefix="rushgate-peers-")
workload, driver = sys.argv[1], shlex.split(sys.argv[2])
said = {key: int(value) for key, value in (word.split("=") for word in sys.argv[3:])}


def start(verb, out, **more):
    """Starts the driver. It writes its records to the directory `out`."""
    words = [f"{key}={value}" for key, value in {**said, **more}.items()]
    folder = Path(scratch.name, out)
    folder.mkdir(exist_ok=True)
    environment = dict(os.environ, PEERS_OUT=str(folder))
    return subprocess.Popen([*driver, verb, *words], env=environment, start_new_session=True, stdout=sys.stderr)


def run(verb, out, **more):
    process = start(verb, out, **more)
    try:
        code = process.wait(LIMIT)
    finally:
        end(process)
    if code != 0:
        sys.exit(f"{driver} {verb} ended with {code}")
    return records(out)


def end(*processes):
    for process in processes:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait()


def records(out):
    numbers = array.array("Q")
    for path in Path(scratch.name, out).iterdir():
        whole = path.read_bytes()
        numbers.frombytes(whole[: len(whole) // 32 * 32])
    return sorted(zip(*[iter(numbers)] * 4), key=lambda record: record[1])


def count(out):
    return sum(path.stat().st_size // 32 for path in Path(scratch.name, out).iterdir())


def quantile(figures, share):
    figures = sorted(figures)
    return round(figures[int((len(figures) - 1) * share)] / 1e3, 1) if figures else None


def rate(ops, first, last):
    """Operations per second. Both times are in nanoseconds."""
    return round(ops * 1e9 / (last - first), 1) if last > first else None


def calls(found):
    """Figures from records with the start, the end and the result of each call."""
    times = [record[2] - record[1] for record in found]
    seconds = min(record[1] for record in found), max(record[2] for record in found)
    return {"ops": len(found), "ops_per_s": rate(len(found), *seconds), "p50_us": quantile(times, 0.5), "p99_us": quantile(times, 0.99)}


def uncontended():
    return calls(run("lock", "out"))


def contended():
    cycles = sorted(run("lock", "out", hot=1), key=lambda record: record[2])
    to_another, overlaps, free = [], 0, 0
    for before, after in zip(cycles, cycles[1:]):
        if before[0] != after[0]:
            to_another.append(max(0, after[2] - before[3]))
    for _, _, got, leaving in cycles:
        # The next caller got the lock before the previous one began to release it.
        overlaps += got < free
        free = max(free, leaving)
    had = [sum(record[0] == caller for record in cycles) for caller in range(said["callers"])]
    return {
        "ops": len(cycles),
        "ops_per_s": rate(len(cycles), cycles[0][1], cycles[-1][3]),
        "hand_over_p50_us": quantile(to_another, 0.5),
        "hand_overs": len(to_another),
        "worst_wait_ms": round(max(got - asked for _, asked, got, _ in cycles) / 1e6, 1),
        "most": max(had),
        "least": min(had),
        # Without a hold time, overlaps cannot be seen.
        "violations": overlaps if said.get("hold_ms") else None,
    }


def enqueue():
    found = run("put", "out")
    told = calls(found)
    ops = sum(record[3] for record in found)
    told["ops"], told["ops_per_s"] = ops, rate(ops, found[0][1], max(record[2] for record in found))
    return {**told, "missing": said["n"] - ops}


def cpu():
    """CPU seconds of the finished drivers and of the server."""
    drivers = resource.getrusage(resource.RUSAGE_CHILDREN)
    info = dict(line.split(":") for line in ceiling.command("INFO", "cpu").splitlines() if ":" in line)
    return [drivers.ru_utime + drivers.ru_stime, float(info["used_cpu_user"]) + float(info["used_cpu_sys"])]


def drain():
    global spent
    run("put", "put", bulk=1000)
    spent = cpu()
    # Created before the workers start.
    Path(scratch.name, "work").mkdir()
    workers = [start("work", "work") for _ in range(said["workers"])]
    began = last = time.monotonic()
    seen = 0
    while time.monotonic() - began < said.get("limit", LIMIT):
        time.sleep(0.05)
        if count("work") != seen:
            seen, last = count("work"), time.monotonic()
        # Wait slightly longer after the last task, to catch tasks that run twice.
        if time.monotonic() - last > (0.5 if seen >= said["n"] else 15):
            break
    end(*workers)
    found = records("work")
    done = len({record[0] for record in found})
    told = {"ops": done, "done": done, "twice": len(found) - done, "put": said["n"]}
    return {**told, "ops_per_s": rate(done, found[0][1], found[-1][1]) if found else None}


def pick_up():
    warm_up, n = 50, said["n"]
    Path(scratch.name, "work").mkdir()
    worker = start("work", "work")
    try:
        run("put", "first", n=1, gap_ms=0)
        deadline = time.monotonic() + 60
        while count("work") < 1 and time.monotonic() < deadline:
            time.sleep(0.05)
        asked = {record[0]: record[1] for record in run("put", "put", n=warm_up + n, first=1)}
        deadline = time.monotonic() + 60
        while count("work") < 1 + warm_up + n and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        end(worker)
    began = {record[0]: record[1] for record in records("work")}
    times = [began[i] - asked[i] for i in range(1 + warm_up, 1 + warm_up + n) if i in began and i in asked]
    told = {"p50_us": quantile(times, 0.5), "p99_us": quantile(times, 0.99), "max_us": quantile(times, 1)}
    return {**told, "missing": n - len(times)}


def server_calls():
    info = dict(line.split(":") for line in ceiling.command("INFO", "stats").splitlines() if ":" in line)
    return int(info["total_commands_processed"])


def computed(processes):
    """CPU seconds of running processes and their children."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(") ", 1)[1].split()
        except OSError:
            continue
        # The process group is the driver's, because it was started in its own session.
        if int(fields[2]) in processes:
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def idle():
    """Cost of idle workers, each in a process of its own."""
    Path(scratch.name, "work").mkdir()
    workers = [start("work", "work") for _ in range(said["workers"])]
    try:
        run("put", "put", n=said["workers"], gap_ms=0)
        deadline = time.monotonic() + 60
        while count("work") < said["workers"] and time.monotonic() < deadline:
            time.sleep(0.05)
        done = count("work")
        # Until the last worker has polled again and sleeps.
        time.sleep(5)
        groups = {worker.pid for worker in workers}

        def look():
            return time.monotonic(), computed(groups), cpu()[1], server_calls()

        before = look()
        time.sleep(said["seconds"])
        after = look()
    finally:
        end(*workers)
    seconds, ours, servers, calls = (last - first for first, last in zip(before, after))
    each = seconds * said["workers"]
    return {
        "missing": said["workers"] - done,
        # Without the three calls that this measurement makes.
        "calls_per_s": round(max(0, calls - 3) / each, 2),
        "cpu_us_per_s": round(ours * 1e6 / each, 1),
        "server_cpu_us_per_s": round(servers * 1e6 / each, 1),
    }


def sale():
    found = run("sale", "out")
    sold = sum(record[3] for record in found)
    return {**calls(found), "attempts": len(found), "sold": sold, "oversold": max(0, sold - said["units"])}


WORKLOADS = {"L1": uncontended, "L2": contended, "Q1": enqueue, "Q2": drain, "Q3": pick_up, "Q4": pick_up, "Q5": idle, "S1": sale}
if driver == ["ceiling"]:
    told = ceiling.measure(workload, said)
else:
    spent = cpu()
    told = WORKLOADS[workload]()
    if told.get("ops"):
        micros = [(after - before) * 1e6 / told["ops"] for before, after in zip(spent, cpu())]
        told["cpu_us"], told["server_cpu_us"] = round(micros[0], 1), round(micros[1], 1)
print(json.dumps({"workload": workload, **told}))
