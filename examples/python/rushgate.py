"""Rushgate's locks, queues and sales for Python, through the function library on the server.

Install the library with `rushgate functions install`. docs/protocol.md describes the functions.

    gate = Rushgate(redis.Redis(port=6379))
    with gate.lock("order:42", wait=3) as held:
        print("fenced with", held.fence)

A `redis.RedisCluster` works too.
"""

import json
import os
import re
import socket
import struct
import time
import unicodedata
from contextlib import contextmanager, suppress

import redis
from redis.exceptions import ClusterError, RedisClusterException

PROTOCOL = 1
# Polling intervals in seconds, in case a notification was lost. A waiter for a lock polls after as many seconds as its
# position in the wait queue, up to this limit.
LOCK_SLEEP_MAX, QUEUE_SLEEP_MAX = 10, 5

LOCK = ["lock", "line", "waiters", "ends"]
QUEUE = [
    "meta", "records", "runs", "newcomers", "leases", "listeners",
    *(f"waiting{priority}" for priority in range(10)), "blocked", "held", "groups", "key_leases",
    "starts", "starts_until", "dead", "dead_ids", "done", "done_ids", "by_age", "by_deadline", "dependents",
    "dependencies", "results", "result_ids", "unsettled", "unsettled_ids", "events", "watchers",
]
SALE = ["row", "returned", "withdrawn", "buyers", "holds", "deadlines", "events", "failed"]

RECORD = {"arrival": 6, "turn": 1, "revision": 6, "first": 7, "due": 7, "priority": 1, "max": 2}
RUN = {"claim": 7, "turn": 1, "attempts": 2, "flags": 1, "until": 7, "due": 7}
HOLD = {"state": 1, "deadline": 7, "event": 6, "generation": 4, "lines": 2, "buyer": 1}

# Content types that are encoded in one byte.
SHORT_TYPES = {0: "application/octet-stream", 255: "application/json"}
KIND = "[A-Za-z0-9._:/-]{1,80}"

KEEP, REPLACE, EARLIEST, DEBOUNCE = range(4)
# Meanings of the numbers that the functions return.
ACQUIRED = [None, "granted", "in_line", "busy"]
RELEASED = ["lost", "released"]
ENQUEUED = [None, "added", "kept", "replaced", "full", "dropped", "displaced", "recent", "refused"]
COMPLETED = ["stale", "done", "requeued"]
RETRIED = ["stale", "scheduled", "dead", "requeued", "cancelled"]
RESERVED = [None, "reserved", "replayed", "key_reused", "sold_out", "all_held", "limit_reached", "not_open", "ended",
            "no_such_sku", "halted"]
DECIDED = ["unknown", "done", "pending", "refused", "halted"]
STATES = ["held", "confirming", "cancelling", "expiring", "confirmed", "cancelled", "expired", "rejected"]

# Errors after which a call is retried. A Cluster client raises its own until a replica has replaced a lost node.
UNREACHED = (redis.ConnectionError, redis.TimeoutError, ClusterError, RedisClusterException)


_forks = 0


def _forked():
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def process():
    """Identity of this process: its PID and the number of forks before it, because PIDs are reused."""
    return os.getpid(), _forks


class Lost(Exception):
    """The lock was lost. Another client may have held it since."""


class Rushgate:
    """A client of one server or Cluster. Create one per thread.

    A forked process can use the clients of its parent. In the child, each becomes a separate client with its own
    connections. Locks held by the parent stay with the parent.
    """

    def __init__(self, server: redis.Redis | redis.RedisCluster):
        # Answers and notifications are bytes, so the client must not decode them.
        if server.get_encoder().decode_responses:
            raise ValueError("Rushgate needs a client of its own, without decode_responses")
        self._server, self._process = server, None
        protocol, version, *_ = self.call("version", [], [])
        if protocol != PROTOCOL:
            raise RuntimeError(f"Rushgate {version} on the server speaks protocol {protocol}, this file {PROTOCOL}")

    @property
    def server(self):
        """The redis-py client."""
        self._own()
        return self._server

    @property
    def client(self):
        """Eight random bytes that identify this client."""
        self._own()
        return self._client

    def _own(self):
        """Resets the client in a forked process, which must not share client ID, counter or connection with its parent."""
        if self._process == process():
            return
        self._process, self._client, self._numbers, self._inbox = process(), os.urandom(8), 0, None
        # A pool of redis-py detects the fork; a client with a single connection does not.
        connection = getattr(self._server, "connection", None)
        if connection and connection.pid != os.getpid():
            self._server.connection = None

    def call(self, function, keys, arguments, patience=5):
        """Calls a function of the library. Retries for `patience` seconds after a lost connection; the call's token or op
        makes repeats idempotent."""
        words = ["FCALL", f"rushgate_1_{function}", len(keys), *keys, *arguments]
        until = time.monotonic() + patience
        while True:
            try:
                answer = self.server.execute_command(*words, **self._where(keys))
            except UNREACHED:
                if time.monotonic() >= until:
                    raise
                time.sleep(0.02)
                continue
            except redis.ResponseError as refusal:
                if "Function not found" not in str(refusal):
                    raise
                what = f"the server has no function rushgate_1_{function}: run `rushgate functions install`"
                raise RuntimeError(what) from refusal
            if answer != b"AGAIN":
                return answer

    def _where(self, keys):
        """The Cluster node that owns the keys. Otherwise redis-py would first ask another node which arguments are keys."""
        if keys and isinstance(self.server, redis.RedisCluster):
            return {"target_nodes": self.server.get_node_from_key(keys[0])}
        return {}

    def number(self):
        """Eight bytes, unique within this client."""
        self._own()
        self._numbers += 1
        return struct.pack(">Q", self._numbers)

    def owner(self, label="python"):
        """Host, process and label, shown to operators."""
        host = socket.gethostname().encode()[:60]
        return struct.pack(">IB", os.getpid(), len(host)) + host + label.encode()

    def inbox(self):
        """Subscription for notifications from the server."""
        self._own()
        if self._inbox is None:
            self._inbox = Inbox(self.server)
        return self._inbox

    @contextmanager
    def lock(self, name, lease=15, wait=0):
        """Holds a lock while the block runs. Yields `None` if the lock was not acquired within the wait.

        An exception of the block is reraised. If the release then fails too, a note on the exception says why.
        """
        held = self.acquire(name, lease, wait)
        try:
            yield held
        except BaseException as fault:
            try:
                if held:
                    held.release()
            except Exception as why:
                if hasattr(fault, "add_note"):
                    fault.add_note(f"the lock `{name}` was not released: {why!r}")
            raise
        if held:
            held.release()

    def acquire(self, name, lease=15, wait=0):
        """Acquires a lock; `None` if it is not free within `wait` seconds. Waiters are served in FIFO order."""
        keys, token = under(f"rg:{{l:{nfc(name)}}}:", LOCK), self.client + self.number()
        inbox = self.inbox() if wait > 0 else None
        until = time.monotonic() + wait
        try:
            while True:
                left = max(until - time.monotonic(), 0)
                [(outcome, number, check_after, *_)] = self.call("lock_acquire", keys, [
                    token, us(lease), us(left), 0, inbox.id if inbox else bytes(8), self.owner(),
                ])
                outcome = meaning(ACQUIRED, outcome)
                if outcome == "granted":
                    return Held(self, keys, token, number)
                if left <= 0:
                    break
                place = number if outcome == "in_line" else 1
                inbox.wait(min(left, max(check_after / 1e6, 0.001), place, LOCK_SLEEP_MAX))
        except BaseException:
            # Leaving the wait queue also releases a grant whose answer was lost.
            with suppress(Exception):
                self.call("lock_leave", keys, [token], patience=1)
            raise
        if wait > 0:
            self.call("lock_leave", keys, [token])
        return None

    def queue(self, name):
        """A queue by name."""
        return Queue(self, name)

    def sale(self, sale):
        """An existing sale."""
        return Sale(self, sale)


class Held:
    """A held lock. The protected resource should reject a lower `fence` than it has seen.

    It belongs to the process that acquired it: in a forked process, `extend` and `release` raise `Lost` and change nothing.
    """

    def __init__(self, gate, keys, token, fence):
        self.gate, self.keys, self.token, self.fence = gate, keys, token, fence
        self._process = process()

    def _check_process(self):
        if self._process != process():
            raise Lost("the lock belongs to the process that acquired it, of which this one is a fork")

    def extend(self, lease):
        """Extends the lease to `lease` seconds from now."""
        self._check_process()
        if not self.gate.call("lock_extend", self.keys, [self.token, us(lease)]):
            raise Lost

    def release(self):
        """Releases the lock."""
        self._check_process()
        [outcome] = self.gate.call("lock_release", self.keys, [self.token])
        if meaning(RELEASED, outcome) == "lost":
            raise Lost


class Queue:
    """A queue with at most one live task per ID."""

    def __init__(self, gate, name):
        name = nfc(name)
        self.gate, self.name = gate, name
        self.keys = under(f"rg:{{q:{name}}}:", QUEUE)
        self.unique = under(f"rg:{{q:{name}}}:", ["unique"])
        gate.server.zadd("rg:queues", {name: 0})

    def enqueue(
        self, *ids, payload=b"", delay=0, priority=5, on_duplicate=KEEP, max_wait=None, max_attempts=20, unique_for=None,
        key=None, kind=None,
    ):
        """Enqueues tasks. Returns False if the queue is full.

        - `payload`: bytes are stored as is; anything else becomes JSON.
        - `delay`, `unique_for`, `max_wait`: seconds.
        - `unique_for`: uniqueness window. The ID is not enqueued again within it, even once its task is done.
        - `max_wait`: required by `DEBOUNCE`; the longest time that later calls can postpone the run.
        - `key`: tasks with the same key form a FIFO group, and groups take turns.
        - `kind`: selects the worker's handler.
        """
        if (on_duplicate == DEBOUNCE) != (max_wait is not None):
            raise ValueError("DEBOUNCE needs max_wait, and nothing else takes it")
        body = body_of(payload, kind)
        terms = f"+{us(max(delay, 0))} {priority} {on_duplicate} {us(max_wait or 0)} {max_attempts}"
        terms += (f"!{us(unique_for)}" if unique_for else "") + (f" {nfc(key)}" if key else "")
        # The first task is preceded by the request's op, the others by an empty string.
        arguments = [part for task in ids for part in ("", nfc(task), terms, body)][1:]
        answers = iter(self._once("enqueue", arguments, self.unique)[0])
        outcomes = set()
        for number in answers:
            outcome = meaning(ENQUEUED, number)
            outcomes.add(outcome)
            # Revision, capacity, time or reason; some outcomes have a task ID as well.
            next(answers)
            if outcome in ("displaced", "refused"):
                next(answers)
        return outcomes.isdisjoint(["full", "refused"])

    def claim(self, n=1, lease=30, wait=0):
        """Claims due tasks under a lease. Waits up to `wait` seconds for the first one."""
        until = time.monotonic() + wait
        while True:
            [[next_due, wakes, *rows]] = self._once("claim", [n, us(lease), f"python:{os.getpid()}"])
            left = until - time.monotonic()
            if rows or left <= 0:
                return [Task(self, *rows[at:at + 3]) for at in range(0, len(rows), 3)]
            self._sleep(wakes, min(left, QUEUE_SLEEP_MAX if next_due == b"" else next_due / 1e6, QUEUE_SLEEP_MAX))

    def _sleep(self, wakes, seconds):
        """Sleeps until a task is enqueued, for at most `seconds`. Returns at once if one was enqueued since the claim."""
        inbox = self.gate.inbox()
        missed, _ = self.gate.call("queue_listen", self.keys, [inbox.id.hex(), wakes])
        if missed == 0:
            inbox.wait(max(seconds, 0.001))

    def _once(self, verb, arguments, more=[]):
        """An idempotent call: repeating it has no further effect and returns the same answer."""
        client = self.gate.client.hex()
        answers = under(f"rg:{{q:{self.name}}}:", [f"young:{client}", f"old:{client}"])
        return self.gate.call(f"queue_{verb}", self.keys + answers + more, [self.gate.number(), *arguments])


class Task:
    """A claimed task. Complete or retry it before its lease expires; otherwise another worker gets it.

    `payload` is decoded by `content_type`: JSON is parsed, text is a `str`, and everything else is `bytes`.
    """

    def __init__(self, queue, task, record, run):
        record, run = unpack(record, RECORD), unpack(run, RUN)
        self.queue, self.id = queue, task.decode()
        self.attempt, self.claim = run["attempts"], run["claim"] + run["turn"]
        body, self.key = record["rest"], None
        # A deadline is flagged by 64 in the priority and stored before the rest. A key is flagged by 16 and stored before
        # the body.
        if record["priority"] >= 64:
            body = body[7:]
        if record["priority"] % 64 >= 16:
            self.key, body = body[1:1 + body[0]].decode(), body[1 + body[0]:]
        self.content_type, self.kind, self.payload = content_of(body)

    def complete(self):
        """Completes the task. False if its lease was lost: another worker has it or has completed it."""
        [[outcome]] = self.queue._once("complete", [self.id, self.claim])
        return meaning(COMPLETED, outcome) != "stale"

    def retry(self, error, delay=0, give_up=False):
        """Fails the attempt: the task is due again after `delay` seconds, or becomes a dead letter."""
        outcome, *_ = self.queue._once("retry", [self.id, self.claim, us(delay), int(give_up), error])
        return meaning(RETRIED, outcome) != "stale"


class Sale:
    """A sale of numbered units. Create it with `rushgate sale create`, and audit it with `rushgate sale audit`."""

    def __init__(self, gate, sale):
        self.gate, self.id = gate, nfc(sale)
        self._read()

    def reserve(self, buyer, key, cart, same=False):
        """Reserves units, all or nothing. `cart` maps each SKU to a quantity.

        Repeating the call with the same key returns the same answer. `halted` means that the sale is halted: retry at
        `retry_at_us`.
        """
        names = [sku[0] for sku in self.spec["skus"]]
        lines = []
        for sku, quantity in cart.items():
            sku = nfc(sku)
            lines += [names.index(sku) if sku in names else -1, quantity]
        answer = self._call("reserve_by_key", [nfc(key), nfc(buyer), int(same), *lines])
        outcome = meaning(RESERVED, answer[0])
        if outcome in ("reserved", "replayed"):
            return {"outcome": outcome, "reservation": answer[2].hex(), **self._hold(answer[1])}
        return {"outcome": outcome} | ({"retry_at_us": answer[1]} if outcome == "halted" else {})

    def confirm(self, reservation):
        """Confirms a hold after payment. `refused`: refund the payment. `halted`: not decided yet, retry."""
        return self._decide("confirm", reservation)

    def cancel(self, reservation):
        """Cancels a hold. `halted`: not decided yet, retry."""
        return self._decide("cancel_hold", reservation)

    def _decide(self, verb, reservation):
        [[outcome, *_]] = self._call(verb, [bytes.fromhex(reservation)])
        return meaning(DECIDED, outcome)

    def _call(self, verb, arguments):
        while True:
            answer = self.gate.call(f"sale_{verb}", self.keys, [self.secret, *arguments])
            if answer != b"MISSING":
                return answer
            secret = self.secret
            self._read()
            if self.secret == secret:
                raise RuntimeError(f"the keys of the sale `{self.id}` are missing")

    def _read(self):
        home = self.gate.server.get(f"rg:{{s:{self.id}}}:home")
        if home is None:
            raise KeyError(f"there is no sale `{self.id}`")
        self.spec = json.loads(home)
        self.secret = bytes.fromhex(self.spec["secret"])
        self.keys = under(f"rg:{{s:{self.id}}}:", SALE)

    def _hold(self, packed):
        hold = unpack(packed, HOLD)
        rest = hold["rest"][hold["buyer"] + hold["lines"]:]
        ranges = [struct.unpack(">HII", rest[at:at + 10]) for at in range(0, len(rest), 10)]
        return {
            "units": [(self.spec["skus"][sku][0], unit) for sku, first, last in ranges for unit in range(first, last + 1)],
            "state": meaning(STATES, hold["state"]),
            "deadline_us": hold["deadline"],
        }


class Inbox:
    """A subscription. A message is only a hint, so its content is ignored; the state is on the server."""

    def __init__(self, server):
        self.id, self._server, self._messages = os.urandom(8), server, None

    def _subscribe(self):
        """In a Cluster, subscribes at any node, because every node receives all messages. redis-py requires one by name."""
        is_cluster = isinstance(self._server, redis.RedisCluster)
        where = {"node": self._server.get_random_node()} if is_cluster else {}
        self._messages = self._server.pubsub(**where)
        self._messages.subscribe(f"rg:in:{self.id.hex()}")
        self._messages.get_message(timeout=3)

    def wait(self, seconds):
        """Sleeps until a message arrives, for at most `seconds`. If it has to subscribe first, it returns at once: ask again."""
        try:
            if self._messages is None:
                self._subscribe()
            else:
                self._messages.get_message(timeout=seconds)
        except UNREACHED:
            # The next wait subscribes again.
            self._messages = None
            time.sleep(0.02)


def nfc(name):
    """A name in Normalization Form C. The server compares bytes, and Rust programs normalize names too."""
    return unicodedata.normalize("NFC", name.decode() if isinstance(name, bytes) else str(name))


def under(beginning, endings):
    """Keys with a common prefix."""
    return [beginning + ending for ending in endings]


def meaning(names, number):
    """Meaning of a number. An unknown number belongs to a later protocol, so it is an error."""
    if not (0 <= number < len(names) and names[number]):
        raise RuntimeError(f"the server answered {number}, which protocol {PROTOCOL} does not know")
    return names[number]


def us(seconds):
    """Seconds as whole microseconds."""
    return round(seconds * 1_000_000)


def unpack(packed, sizes):
    """Reads big-endian integers of the given sizes in bytes. The remaining bytes are the `rest`."""
    fields = {}
    for name, size in sizes.items():
        fields[name], packed = int.from_bytes(packed[:size], "big"), packed[size:]
    return fields | {"rest": packed}


def body_of(payload, kind):
    """Encodes the content type, with the kind as a parameter, followed by the payload."""
    is_bytes = isinstance(payload, bytes)
    content = payload if is_bytes else json.dumps(payload).encode()
    if kind is None:
        return (b"\0" if is_bytes else b"\xff") + content
    if not re.fullmatch(KIND, kind):
        raise ValueError(f"the kind `{kind}` is not 1 to 80 of A-Z, a-z, 0-9 and . _ : / -")
    content_type = f'application/{"octet-stream" if is_bytes else "json"};kind="{kind}"'.encode()
    return bytes([len(content_type)]) + content_type + content


def content_of(body):
    """Decodes a body into the content type without the kind, the kind, and the payload."""
    length = body[0]
    if length in SHORT_TYPES:
        content_type, content = SHORT_TYPES[length], body[1:]
    else:
        content_type, content = body[1:1 + length].decode(), body[1 + length:]
    essence, *parameters = re.findall(r'(?:[^;"]|"[^"]*")+', content_type)
    kinds = [re.fullmatch(f'(?i:kind)="?({KIND})"?', parameter) for parameter in parameters]
    content_type = ";".join([essence, *(of for of, kind in zip(parameters, kinds) if not kind)])
    return content_type, next((kind[1] for kind in kinds if kind), None), decoded(essence.lower(), content)


def decoded(essence, content):
    """Decodes a payload by its media type. Invalid content stays bytes."""
    try:
        if essence == "application/json" or essence.endswith("+json"):
            return json.loads(content)
        return content.decode() if essence.startswith("text/") else content
    except ValueError:
        return content
