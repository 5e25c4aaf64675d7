"""table.py RESULTS: medians of the runs in Markdown, one table per workload."""
import json
import sys
from statistics import median

TITLES = {
    "L1": "L1: acquire and release of a lock that nobody else wants",
    "L2": "L2: 16 callers want one lock",
    "Q1": "Q1: enqueue of tasks of 40 bytes",
    "Q2": "Q2: drain of 100,000 tasks that do nothing",
    "Q3": "Q3: from enqueue to the start in an idle worker, a task each 5 ms",
    "Q4": "Q4: lateness, from the end of a delay of 1 s to the start in an idle worker, a task each ms",
    "Q5": "Q5: what a worker costs that has nothing to do, one of 10 processes",
    "S1": "S1: 200,000 buyers, one unit each, 256 at once",
}
COLUMNS = {
    "ops_per_s": "per second", "p50_us": "p50 µs", "p99_us": "p99 µs", "max_us": "worst µs",
    "hand_over_p50_us": "to another, p50 µs", "hand_overs": "times", "worst_wait_ms": "worst wait ms",
    "most": "most", "least": "least", "violations": "two at once", "put": "put", "done": "done",
    "twice": "given twice", "attempts": "attempts", "sold": "sold", "oversold": "oversold", "missing": "missing",
    "cpu_us": "CPU µs", "server_cpu_us": "server's",
    "calls_per_s": "calls a second", "cpu_us_per_s": "CPU µs a second", "server_cpu_us_per_s": "server's",
}
# For these columns, the table shows the worst run.
FAULTS = {"violations", "twice", "oversold", "missing"}


def cell(runs, column):
    figures = [run[column] for run in runs if run.get(column) is not None]
    if not figures:
        return "–"
    figure = max(figures) if column in FAULTS else median(figures)
    return f"{figure:,.1f}" if abs(figure) < 100 and figure % 1 else f"{figure:,.0f}"


rows = {}
for line in open(sys.argv[1], encoding="utf-8"):
    result = json.loads(line)
    rows.setdefault(result["workload"], {}).setdefault(result["row"], []).append(result)
for workload, named in rows.items():
    runs = [run for results in named.values() for run in results]
    columns = [column for column in COLUMNS if any(column in run for run in runs)]
    print(f"\n### {TITLES[workload]}\n\n| | runs | {' | '.join(COLUMNS[column] for column in columns)} |")
    print("|---" + "|--:" * (len(columns) + 1) + "|")
    for row, results in named.items():
        good = [run for run in results if "failed" not in run]
        cells = [str(len(good)), *(cell(good, column) for column in columns)]
        print(f"| {row} | {' | '.join(cells)} |")
