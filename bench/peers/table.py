"""table.py RESULTS [PAGE]: medians of the runs in Markdown, one table per workload. With a page, replaces its tables."""
import json
import pathlib
import re
import sys
from statistics import median

COLUMNS = {
    "ops_per_s": "per second", "p50_us": "p50 µs", "p99_us": "p99 µs", "max_us": "max µs",
    "hand_over_p50_us": "hand-over p50 µs", "hand_overs": "hand-overs", "worst_wait_ms": "worst wait ms",
    "most": "most", "least": "least", "violations": "overlaps", "put": "enqueued", "done": "done",
    "twice": "delivered twice", "attempts": "attempts", "sold": "sold", "oversold": "oversold", "missing": "missing",
    "cpu_us": "CPU µs", "server_cpu_us": "server CPU µs",
    "calls_per_s": "calls/s", "cpu_us_per_s": "CPU µs/s", "server_cpu_us_per_s": "server CPU µs/s",
}
RATES = {"L1": "cycles/s", "L2": "grants/s", "Q1": "tasks/s", "Q2": "tasks/s", "S1": "attempts/s"}
# For these columns, the table shows the worst run.
FAULTS = {"violations", "twice", "oversold", "missing"}


def cell(runs, column):
    figures = [run[column] for run in runs if run.get(column) is not None]
    if not figures:
        return "–"
    figure = max(figures) if column in FAULTS else median(figures)
    return f"{figure:,.1f}" if abs(figure) < 100 and figure % 1 else f"{figure:,.0f}"


def table(workload, named):
    """The table of a workload, from the runs of its rows."""
    all_runs = [run for runs in named.values() for run in runs]
    columns = [column for column in COLUMNS if any(run.get(column) is not None for run in all_runs)]
    heads = [RATES.get(workload, COLUMNS[column]) if column == "ops_per_s" else COLUMNS[column] for column in columns]
    lines = [f"| | {' | '.join(heads)} |", "|---" + "|--:" * len(columns) + "|"]
    for row, runs in named.items():
        good = [run for run in runs if "failed" not in run]
        note = "" if len(good) == len(runs) else f" ({len(good)} of {len(runs)} runs)"
        lines.append(f"| {row}{note} | {' | '.join(cell(good, column) for column in columns)} |")
    return "\n".join(lines) + "\n"


def replaced(page, workload, text):
    """The page with another table under the heading of the workload."""
    found = re.compile(rf"(^## {workload}:.*?\n)((?:\|[^\n]*\n)+)", re.MULTILINE | re.DOTALL)
    page, n = found.subn(lambda part: part[1] + text, page, count=1)
    assert n == 1, f"no table of {workload}"
    return page


rows = {}
for line in open(sys.argv[1], encoding="utf-8"):
    result = json.loads(line)
    rows.setdefault(result["workload"], {}).setdefault(result["row"], []).append(result)
for workload, named in rows.items():
    print(f"\n### {workload}\n\n{table(workload, named)}", end="")
if len(sys.argv) > 2:
    path = pathlib.Path(sys.argv[2])
    page = path.read_text(encoding="utf-8")
    for workload, named in rows.items():
        page = replaced(page, workload, table(workload, named))
    path.write_text(page, encoding="utf-8")
