"""Constants of the Redis protocol and of the HTTP API: pure data, described in docs/protocol.md and docs/http.md.

Durations are in µs and sizes in bytes, unless the name says otherwise.
"""

from __future__ import annotations

from typing import Dict, Tuple

Layout = Tuple[Tuple[str, int], ...]
Range = Tuple[int, int]

PROTOCOL = 1
FUNCTION_PREFIX = "rushgate_1_"

# Key groups: the letter of the hash tag, and the endings of the keys in their order. A key is `rg:{TAG:NAME}:ENDING`.
KEY_GROUPS: Dict[str, Tuple[str, Tuple[str, ...]]] = {
    "answers": ("q", ("young", "old")),
    "attempts": ("s", ("attempts", "attempts_of", "attempt_servers")),
    "home": ("s", ("home",)),
    "lock": ("l", ("lock", "line", "waiters", "ends")),
    "queue": ("q", (
        "meta", "records", "runs", "newcomers", "leases", "listeners", "at_once", "waiting0", "waiting1", "waiting2",
        "waiting3", "waiting4", "waiting5", "waiting6", "waiting7", "waiting8", "waiting9", "blocked", "held",
        "groups", "key_leases", "starts", "starts_until", "dead", "dead_ids", "done", "done_ids", "by_age",
        "by_deadline", "dependents", "dependencies", "results", "result_ids", "unsettled", "unsettled_ids",
        "events", "watchers",
    )),
    "sale": ("s", ("row", "returned", "withdrawn", "buyers", "holds", "deadlines", "events", "failed")),
    "schedules": ("q", ("schedules", "schedule_ids", "schedule_moments")),
    "unique": ("q", ("unique",)),
    "workers": ("q", ("workers", "worker_ids", "worker_ends")),
}
KEY_PREFIX = "rg:"
# Group whose keys end in the client ID.
CLIENT_GROUP = "answers"

# Functions that this package calls, each with its key groups.
FUNCTIONS: Dict[str, Tuple[str, ...]] = {
    "version": (),
    "lock_acquire": ("lock",),
    "lock_confirm": ("lock",),
    "lock_extend": ("lock",),
    "lock_force_release": ("lock",),
    "lock_leave": ("lock",),
    "lock_release": ("lock",),
    "lock_show": ("lock",),
    "queue_announce": ("workers",),
    "queue_cancel": ("queue", "answers"),
    "queue_claim": ("queue", "answers"),
    "queue_clear_unique": ("unique", "answers"),
    "queue_close_batch": ("queue", "answers"),
    "queue_complete": ("queue", "answers"),
    "queue_dead": ("queue",),
    "queue_dead_letter": ("queue",),
    "queue_delete_dead": ("queue", "answers"),
    "queue_dequeue": ("queue", "answers"),
    "queue_dependents": ("queue",),
    "queue_due_schedules": ("schedules",),
    "queue_enqueue": ("queue", "answers", "unique"),
    "queue_extend": ("queue",),
    "queue_finish": ("queue", "answers"),
    "queue_fire": ("queue", "schedules"),
    "queue_limit": ("queue",),
    "queue_listen": ("queue",),
    "queue_pause": ("queue",),
    "queue_pop": ("queue", "answers"),
    "queue_release": ("queue", "answers"),
    "queue_replay": ("queue", "answers", "unique"),
    "queue_requeue_dead": ("queue", "answers"),
    "queue_reschedule": ("queue", "answers"),
    "queue_retry": ("queue", "answers"),
    "queue_ring": ("queue",),
    "queue_schedule": ("queue", "schedules"),
    "queue_schedules": ("schedules",),
    "queue_set_worker": ("workers",),
    "queue_stats": ("queue",),
    "queue_tasks": ("queue",),
    "queue_top": ("queue",),
    "queue_unique_until": ("unique",),
    "queue_unschedule": ("schedules",),
    "queue_waited": ("queue",),
    "queue_waits": ("queue",),
    "queue_watch": ("queue",),
    "queue_workers": ("workers",),
    "sale_cancel_hold": ("sale",),
    "sale_confirm": ("sale",),
    "sale_create": ("home", "sale"),
    "sale_end": ("sale",),
    "sale_expire": ("sale",),
    "sale_listen": ("sale",),
    "sale_open": ("sale",),
    "sale_reservation": ("sale",),
    "sale_reserve_by_key": ("sale",),
    "sale_restore": ("sale",),
    "sale_show": ("sale",),
}

# Sorted sets that list the names of queues and sales.
DIRECTORIES = {"queue": "rg:queues", "sale": "rg:sales"}

# Ends of the keys of sorted sets that `why` reads, and the bytes before the task ID in their members.
LEASES_END, LEASE_HEAD = "leases", 8
WAITING_END, PLACE_HEAD = "waiting", 7

CLIENT_ID_BYTES = 8
OP_BYTES = 8
INBOX_BYTES = 8
TOKEN_BYTES = 16
SECRET_BYTES = 16
RESERVATION_DIGITS = 32

# Fixed parts of packed records: names and sizes, most significant byte first.
RECORD: Layout = (
    ("arrival", 6), ("turn", 1), ("revision", 6), ("first", 7), ("due", 7), ("priority", 1), ("max_attempts", 2),
)
RUN: Layout = (("claim", 7), ("turn", 1), ("attempts", 2), ("flags", 1), ("lease_until", 7), ("due", 7))
PAST_RUN: Layout = (("attempt", 2), ("began", 7), ("ended", 7), ("how", 1))
DEAD_LETTER: Layout = (("died", 7), ("attempts", 2), ("max_attempts", 2), ("priority", 1))
FINISHED: Layout = (("at", 7), ("how", 1))
SCHEDULE: Layout = (("revision", 6), ("paused", 1), ("next", 7), ("previous", 7), ("priority", 1), ("max_attempts", 2))
WORKER: Layout = (
    ("since_us", 7), ("seen_us", 7), ("lease_until_us", 7), ("mode", 1), ("concurrency", 3), ("running", 3),
)
HOLDER: Layout = (("since", 7), ("inbox", 8))
WAITER: Layout = (("ticket", 7), ("lease", 7), ("since", 7), ("until", 7), ("inbox", 8))
OWNER: Layout = (("pid", 4),)
HOLD: Layout = (("state", 1), ("deadline", 7), ("event", 6), ("generation", 4), ("lines", 2), ("buyer", 1))
UNITS: Layout = (("sku", 2), ("first", 4), ("last", 4))
SKU: Layout = (
    ("total", 4), ("next", 4), ("ahead", 4), ("returned", 4), ("held", 4), ("confirmed", 4), ("withdrawn", 4),
    ("per_buyer", 2),
)

# Sizes of single fields in packed records.
DEADLINE_BYTES = 7
KEY_LENGTH_BYTES = 1
WORKER_LENGTH_BYTES = 1
NOTE_LENGTH_BYTES = 1
PERCENT_BYTES = 1
PAST_LENGTH_BYTES = 2
PAST_TEXT_LENGTH_BYTES = 1
ERROR_LENGTH_BYTES = 2
RESULT_LENGTH_BYTES = 4
RUN_LENGTH_BYTES = 4
RECURRENCE_LENGTH_BYTES = 2
HOST_LENGTH_BYTES = 1
TYPE_LENGTH_BYTES = 1
NO_PERCENT = 255

# Values that are added to the priority of a record or of a dead letter.
PRIORITY_KEYED = 16
PRIORITY_HAS_PAST = 32
PRIORITY_HAS_DEADLINE = 64
PRIORITY_WAITS = 128

# Flags of a run.
RUN_LEASED = 1
RUN_CANCELLED = 2
RUN_FAILED = 4
RUN_REPLACED = 8
RUN_HAS_PAST = 64
RUN_HAS_NOTE = 128

# Content types that a body encodes in one byte. Any other is preceded by its length.
SHORT_TYPES = {0: "application/octet-stream", 255: "application/json"}

# Meanings of the numbers in answers, by position.
ACQUIRED = ("", "granted", "waiting", "busy")
RELEASED = ("not_held", "released")
ENQUEUED = ("", "added", "kept", "replaced", "full", "dropped", "displaced", "recent", "refused")
UNMET = ("unknown", "not_open", "taken")
COMPLETED = ("stale", "done", "requeued")
RETRIED = ("stale", "scheduled", "dead", "requeued", "cancelled")
TASK_RELEASED = ("stale", "waiting", "cancelled")
TASK_EXTENDED = ("lost", "extended", "cancelled")
CANCELLED = ("not_found", "removed", "marked")
WORKER_MODES = ("work", "quiet", "stop")
DEQUEUED = ("stale", "removed", "leased")
RESCHEDULED = ("not_found", "rescheduled", "leased", "too_late")
CLOSED = ("not_found", "closed", "not_open")
SCHEDULED = ("", "added", "changed", "unchanged", "full", "stale")
ENDS = ("done", "discarded", "cancelled", "dropped", "popped", "deleted", "dead")
PAST_ENDS = ("failed", "lost", "snoozed")
ON_DUPLICATE = ("keep", "replace", "earliest", "debounce")
MISSED = ("skip", "once", "all")
IF_DEAD = ("wait", "fail", "run")
OVERFLOW = ("refuse", "drop_new", "drop_oldest")
CREATED = ("exists", "created")
SALE_STATUS = ("created", "open", "ended")
RESERVED = (
    "", "reserved", "replayed", "key_reused", "sold_out", "all_held", "limit_reached", "not_open", "ended",
    "no_such_sku", "halted",
)
RESTORED = (
    "", "restored", "known", "", "none_left", "none_left", "limit_reached", "", "", "", "halted", "expired",
)
DECIDED = ("unknown", "done", "pending", "refused", "halted")
HOLD_STATES = ("held", "confirming", "cancelling", "expiring", "confirmed", "cancelled", "expired", "rejected")
FINAL_STATES = ("confirmed", "cancelled", "expired", "rejected")
HALT_REASONS = ("lost_writes", "operator", "rebuilding")

# Statuses that a function answers instead of a value.
AGAIN = b"AGAIN"
MISSING = b"MISSING"

# Codes of errors after which the same call may be sent again: the server executed nothing.
PASSING_ERRORS = (
    "LOADING", "READONLY", "CLUSTERDOWN", "TRYAGAIN", "MASTERDOWN", "NOREPLICAS", "BUSY", "MOVED", "ASK",
)

# Channel of an inbox, without its 16 hexadecimal digits, and the first bytes of its messages.
INBOX_PREFIX = "rg:in:"
GRANTED, REVOKED, TASKS_READY, TASK_FINISHED, SALE_CHANGED = b"A", b"R", b"Q", b"T", b"S"

# Longest sleeps of a waiter, in case a notification was lost.
LOCK_SLEEP_MAX = 10_000_000
LOCK_SLEEP_PER_POSITION = 1_000_000
QUEUE_SLEEP_MAX = 5_000_000
RESULT_SLEEP_MAX = 40_000_000
SALE_SLEEP_MAX = 5_000_000

# Receipts: prefix of the text, and what precedes the content under the signature.
RECEIPT_PREFIX = "rg1."
RECEIPT_DOMAIN = b"rushgate receipt 1\0"

# Limits.
NAME_MAX = 200
LABEL_MAX = 200
HOST_MAX = 200
SCHEDULE_ID_MAX = 170
RECURRENCE_MAX = 4_096
KIND_MAX = 80
CONTENT_TYPE_MAX = 200
IDEMPOTENCY_KEY_MAX = 128
PAYLOAD_MAX = 1_048_576
RESULT_MAX = 65_536
ERROR_MAX = 2_000
MOMENT_MAX = 9_007_199_254_740_991
DELAY_MAX = 34_560_000_000_000
LEASE: Range = (10_000, 86_400_000_000)
WAIT: Range = (0, 86_400_000_000)
DELAY: Range = (0, DELAY_MAX)
PERIOD: Range = (1_000, DELAY_MAX)
INTERVAL: Range = (1_000_000, DELAY_MAX)
MOMENT: Range = (0, MOMENT_MAX)
PRIORITY: Range = (0, 9)
ATTEMPTS: Range = (1, 1_000)
PERCENT: Range = (0, 100)
BATCH: Range = (1, 1_000)
AFTER_MAX = 1_000
BOUND: Range = (0, MOMENT_MAX)
CONCURRENCY: Range = (1, 1_000_000)
RATE: Range = (1, 10_000)
RETAINED: Range = (1, 1_000_000)
EVENTS: Range = (1, 100_000)
WAITED_PAGE: Range = (1, 100)
SCHEDULE_PAGE: Range = (1, 10_000)
WORKER_PAGE: Range = (1, 10_000)
HOLD_TIME: Range = (10_000, 2_592_000_000_000)
SKUS: Range = (1, 1_000)
SKU_UNITS: Range = (1, 10_000_000)
PER_BUYER: Range = (1, 10_000)
LINES: Range = (1, 32)
QUANTITY: Range = (1, 1_000)
EXPIRE_MAX = 1_000

# First and last of each range of characters that a name may not contain because they are invisible.
INVISIBLE: Tuple[Range, ...] = (
    (0xAD, 0xAD), (0x34F, 0x34F), (0x61C, 0x61C), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F),
    (0x200B, 0x200F), (0x202A, 0x202E), (0x2060, 0x206F), (0x3164, 0x3164), (0xFDD0, 0xFDEF), (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0), (0xFFF0, 0xFFFB), (0x1BCA0, 0x1BCA3), (0x1D173, 0x1D17A), (0xE0000, 0xE0FFF),
)

# Defaults. Durations are in seconds.
DEFAULT_LEASE = 30.0
DEFAULT_PRIORITY = 5
DEFAULT_ATTEMPTS = 20
DEFAULT_HOLD = 300.0
DEFAULT_PER_BUYER = 1
DEFAULT_TIMEOUT = 5.0
DEFAULT_RETRY_FOR = 10.0
DEFAULT_CONCURRENCY = 16
DEFAULT_GRACE = 10.0

# How many due tasks, and how many leased or scheduled ones, `why` reads; and how many running tasks it lists.
WHY_AHEAD = 1_000
WHY_LISTED = 10_000
WHY_RUNNING = 10
WHY_TRIES = 5

# HTTP API. The longest wait of one request is in seconds.
HTTP_WAIT_MAX = 60
HTTP_PROBLEM = "application/problem+json"
HTTP_REPLAYED = "idempotency-replayed"
# Codes after which the same request may be sent again soon.
HTTP_PASSING = ("unavailable", "outcome_unknown", "closing", "idempotency_in_flight", "request_timeout")
# Outcomes of sales, by the codes of the API.
HTTP_RESERVED = {
    "idempotency_key_reused": "key_reused", "sold_out": "sold_out", "all_held": "all_held",
    "limit_reached": "limit_reached", "sale_not_open": "not_open", "sale_ended": "ended", "sale_halted": "halted",
}
HTTP_RESTORED = {
    "sold_out": "none_left", "limit_reached": "limit_reached", "hold_expired": "expired",
    "receipt_refused": "not_honored", "sale_halted": "halted",
}
HTTP_DECIDED = {"not_found": "unknown", "decided": "refused", "sale_halted": "halted"}
