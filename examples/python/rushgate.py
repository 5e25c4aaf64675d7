"""Rushgate's locks, queues and sales from Python, by the function library.

The functions are installed by `rushgate functions install`; docs/protocol.md says what each is given and answers.

    gate = Rushgate(redis.Redis(port=6379))
    with gate.lock("order:42", wait=3) as held:
        print("fenced with", held.fence)

A `redis.RedisCluster` will do as well.
"""

import json
import os
import re
import socket
import struct
import time
from contextlib import contextmanager, suppress

import redis
from redis.exceptions import ClusterError, RedisClusterException

PROTOCOL = 10
CLAIM_WINDOW_US = 2_000_000
# The longest sleeps without asking, in seconds: what a lost wake-up costs. In a lock's line it is one for each place.
LOCK_SLEEP_MAX, QUEUE_SLEEP_MAX = 10, 5

LOCK = ["s", "q", "w", "x"]
QUEUE = ["m", "r", "t", "n", "l", "x", "xi", "y"] + [f"d{priority}" for priority in range(10)] + ["g", "gh", "gm"]
SALE = ["c", "f", "w", "b", "h", "d", "e"]

RECORD = {"arrival": 6, "turn": 1, "revision": 6, "first": 7, "due": 7, "priority": 1, "max": 2}
RUN = {"claim": 7, "turn": 1, "attempts": 2, "flags": 1, "until": 7, "due": 7}
HOLD = {"state": 1, "deadline": 7, "event": 6, "generation": 4, "lines": 2, "buyer": 1}

# Content types of one byte.
SHORT_TYPES = {0: "application/octet-stream", 255: "application/json"}
KIND = "[A-Za-z0-9._:/-]{1,80}"

KEEP, REPLACE, EARLIEST, DEBOUNCE = range(4)
# What the numbers mean that functions answer.
ACQUIRED = [None, "granted", "in_line", "busy"]
RELEASED = ["lost", "released"]
ENQUEUED = [None, "added", "kept", "replaced", "full", "dropped", "displaced", "recent", "refused"]
COMPLETED = ["stale", "done", "requeued"]
RETRIED = ["stale", "scheduled", "dead", "requeued", "cancelled"]
RESERVED = [None, "reserved", "replayed", "key_reused", "sold_out", "all_held", "limit_reached", "not_open", "ended",
            "no_such_sku", "paused"]
DECIDED = ["unknown", "done", "pending", "refused", "paused"]
STATES = ["held", "confirming", "cancelling", "expiring", "confirmed", "cancelled", "expired", "rejected"]

# After these a call is sent again. A Cluster has some of its own until a replica has taken a lost node's place.
UNREACHED = (redis.ConnectionError, redis.TimeoutError, ClusterError, RedisClusterException)


_forks = 0


def _forked():
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def process():
    """This process: its id, and the number of forks before it, because a process id may come back."""
    return os.getpid(), _forks


class Lost(Exception):
    """The lock had been lost: another may have held it since."""


class Rushgate:
    """A client of one server, or of one Cluster. Make one for each thread.

    A forked process may use the clients of its parent. Each becomes a client of its own there, with its own connections;
    locks that the parent holds stay with the parent.
    """

    def __init__(self, server: redis.Redis | redis.RedisCluster):
        # Answers and wake-ups are bytes; whoever wants text elsewhere keeps a client of their own.
        if server.get_encoder().decode_responses:
            raise ValueError("Rushgate needs a client of its own, without decode_responses")
        self._server, self._process = server, None
        protocol, version = self.call("version", [], [])
        if protocol != PROTOCOL:
            raise RuntimeError(f"Rushgate {version} on the server speaks protocol {protocol}, this file {PROTOCOL}")

    @property
    def server(self):
        """The client of redis-py."""
        self._own()
        return self._server

    @property
    def client(self):
        """Eight bytes that no other client has."""
        self._own()
        return self._client

    def _own(self):
        """Starts over in a forked process: two processes must not share a client id, a count or a connection."""
        if self._process == process():
            return
        self._process, self._client, self._numbers, self._inbox = process(), os.urandom(8), 0, None
        # A pool of redis-py detects the fork; a client with a single connection does not.
        connection = getattr(self._server, "connection", None)
        if connection and connection.pid != os.getpid():
            self._server.connection = None

    def call(self, function, keys, arguments, patience=5):
        """Calls a function. While the connection is lost the same call is sent again: its token or op keeps it from being
        carried out twice."""
        words = ["FCALL", f"rushgate_{function}", len(keys), *keys, *arguments]
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
                what = f"the server has no function rushgate_{function}: run `rushgate functions install`"
                raise RuntimeError(what) from refusal
            if answer != b"AGAIN":
                return answer

    def _where(self, keys):
        """The node of a Cluster that has the keys: redis-py itself would first ask another which words are keys."""
        if keys and isinstance(self.server, redis.RedisCluster):
            return {"target_nodes": self.server.get_node_from_key(keys[0])}
        return {}

    def number(self):
        """Eight bytes that this client never used before."""
        self._own()
        self._numbers += 1
        return struct.pack(">Q", self._numbers)

    def owner(self, label="python"):
        """Who this is, for people who look."""
        host = socket.gethostname().encode()[:60]
        return struct.pack(">IB", os.getpid(), len(host)) + host + label.encode()

    def inbox(self):
        """Where the server wakes this client."""
        self._own()
        if self._inbox is None:
            self._inbox = Inbox(self.server)
        return self._inbox

    @contextmanager
    def lock(self, name, lease=15, wait=0):
        """Holds a lock while the block runs. `None` is given if others had it all the time.

        An exception of the block comes out of it. If the lock could not be released then, a note of the exception says why.
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
        """A lock in hand, or `None` if others had it all the time. Waiting is a place in line, first come first served."""
        keys, token = under(f"rg:{{l:{name}}}:", LOCK), self.client + self.number()
        inbox = self.inbox() if wait > 0 else None
        until = time.monotonic() + wait
        try:
            while True:
                left = max(until - time.monotonic(), 0)
                [(outcome, number, check_after, *_)] = self.call("lock_acquire", keys, [
                    token, us(lease), us(left), 0, CLAIM_WINDOW_US, inbox.id if inbox else bytes(8), self.owner(),
                ])
                outcome = meaning(ACQUIRED, outcome)
                if outcome == "granted":
                    return Held(self, keys, token, number)
                if left <= 0:
                    break
                place = number if outcome == "in_line" else 1
                inbox.wait(min(left, max(check_after / 1e6, 0.001), place, LOCK_SLEEP_MAX))
        except BaseException:
            # Leaving also releases a grant whose answer did not arrive.
            with suppress(Exception):
                self.call("lock_leave", keys, [token, CLAIM_WINDOW_US], patience=1)
            raise
        if wait > 0:
            self.call("lock_leave", keys, [token, CLAIM_WINDOW_US])
        return None

    def queue(self, name):
        """A queue."""
        return Queue(self, name)

    def sale(self, sale):
        """A sale that exists."""
        return Sale(self, sale)


class Held:
    """A lock in hand. What it protects should refuse a smaller fence than it has seen.

    It belongs to the process that acquired it: in a forked one, `extend` and `release` raise `Lost` and change nothing.
    """

    def __init__(self, gate, keys, token, fence):
        self.gate, self.keys, self.token, self.fence = gate, keys, token, fence
        self._process = process()

    def _check_process(self):
        if self._process != process():
            raise Lost("the lock belongs to the process that acquired it, of which this one is a fork")

    def extend(self, lease):
        """Starts the lease anew, for so many seconds from now."""
        self._check_process()
        if not self.gate.call("lock_extend", self.keys, [self.token, us(lease)]):
            raise Lost

    def release(self):
        """Gives the lock up."""
        self._check_process()
        [outcome] = self.gate.call("lock_release", self.keys, [self.token, CLAIM_WINDOW_US])
        if meaning(RELEASED, outcome) == "lost":
            raise Lost


class Queue:
    """One record per task id."""

    def __init__(self, gate, name):
        self.gate, self.name = gate, name
        self.keys = under(f"rg:{{q:{name}}}:", QUEUE)
        self.unique = under(f"rg:{{q:{name}}}:", ["u"])
        gate.server.zadd("rg:queues", {name: 0})

    def enqueue(
        self, *ids, payload=b"", delay=0, priority=5, on_duplicate=KEEP, max_wait=None, max_attempts=20, unique_for=None,
        key=None, kind=None,
    ):
        """Puts tasks in; bytes stay, anything else becomes JSON. Those of a key stand in line. False if the queue is full.

        An id that is put in with `unique_for` is passed over for so many seconds, even once its task is done. `DEBOUNCE`
        needs `max_wait`, in seconds: the longest that later calls can put off the run. By its `kind` a worker finds the
        handler of a task.
        """
        if (on_duplicate == DEBOUNCE) != (max_wait is not None):
            raise ValueError("DEBOUNCE needs max_wait, and nothing else takes it")
        body = body_of(payload, kind)
        terms = f"+{us(max(delay, 0))} {priority} {on_duplicate} {us(max_wait or 0)} {max_attempts}"
        terms += (f"!{us(unique_for)}" if unique_for else "") + (f" {key}" if key else "")
        # The op of the request stands before its first task, and nothing before the others.
        arguments = [part for task in ids for part in ("", task, terms, body)][1:]
        answers = iter(self._once("enqueue", arguments, self.unique)[0])
        outcomes = set()
        for number in answers:
            outcome = meaning(ENQUEUED, number)
            outcomes.add(outcome)
            # A revision, the bound, a moment or why; some name another task, too.
            next(answers)
            if outcome in ("displaced", "refused"):
                next(answers)
        return outcomes.isdisjoint(["full", "refused"])

    def claim(self, n=1, lease=30, wait=0):
        """Takes due tasks under a lease, and waits for a first one for so many seconds."""
        until = time.monotonic() + wait
        while True:
            next_due, wakes, *rows = self._once("claim", [n, us(lease), f"python:{os.getpid()}"])
            left = until - time.monotonic()
            if rows or left <= 0:
                return [Task(self, *rows[at:at + 3]) for at in range(0, len(rows), 3)]
            self._sleep(wakes, min(left, QUEUE_SLEEP_MAX if next_due == b"" else next_due / 1e6, QUEUE_SLEEP_MAX))

    def _sleep(self, wakes, seconds):
        """Not at all if something was put in meanwhile."""
        inbox = self.gate.inbox()
        missed, _ = self.gate.call("queue_listen", self.keys, [inbox.id.hex(), wakes])
        if missed == 0:
            inbox.wait(max(seconds, 0.001))

    def _once(self, verb, arguments, more=[]):
        """A call that is answered once, however often it is sent."""
        client = self.gate.client.hex()
        answers = under(f"rg:{{q:{self.name}}}:", [f"o:{client}", f"p:{client}"])
        return self.gate.call(f"queue_{verb}", self.keys + answers + more, [self.gate.number(), *arguments])


class Task:
    """A claimed task. End it before its lease runs out, or others get it.

    Its `payload` is what the `content_type` says: JSON is decoded, text is a `str`, and everything else is `bytes`.
    """

    def __init__(self, queue, task, record, run):
        record, run = unpack(record, RECORD), unpack(run, RUN)
        self.queue, self.id = queue, task.decode()
        self.attempt, self.claim = run["attempts"], run["claim"] + run["turn"]
        body, self.key = record["rest"], None
        # A task with a deadline has 64 added to its priority, and its deadline in front of the rest; one with a key has
        # 16 added, and its key in front of the body.
        if record["priority"] >= 64:
            body = body[7:]
        if record["priority"] % 64 >= 16:
            self.key, body = body[1:1 + body[0]].decode(), body[1 + body[0]:]
        self.content_type, self.kind, self.payload = content_of(body)

    def complete(self):
        """It is done. False if it was lost: then another has it, or has done it."""
        [[outcome]] = self.queue._once("complete", [self.id, self.claim])
        return meaning(COMPLETED, outcome) != "stale"

    def retry(self, error, delay=0, give_up=False):
        """It failed: it comes again after so many seconds, or becomes a dead letter."""
        outcome, *_ = self.queue._once("retry", [self.id, self.claim, us(delay), int(give_up), error])
        return meaning(RETRIED, outcome) != "stale"


class Sale:
    """A sale of numbered units. `rushgate sale create` makes one, `rushgate sale audit` proves it."""

    def __init__(self, gate, sale):
        self.gate, self.id = gate, sale
        self._read()

    def reserve(self, buyer, key, cart, same=False):
        """Asks for units, all or nothing: `cart` is how many of which SKU. The same key gives the same answer.

        `paused` means that nobody is let in for the moment: ask again at `retry_at_us`.
        """
        names = [sku[0] for sku in self.spec["skus"]]
        lines = []
        for sku, quantity in cart.items():
            lines += [names.index(sku) if sku in names else -1, quantity]
        answer = self._call("reserve_by_key", [key, buyer, int(same), *lines])
        outcome = meaning(RESERVED, answer[0])
        if outcome in ("reserved", "replayed"):
            return {"outcome": outcome, "reservation": answer[2].hex(), **self._hold(answer[1])}
        return {"outcome": outcome} | ({"retry_at_us": answer[1]} if outcome == "paused" else {})

    def confirm(self, reservation):
        """It is paid for. `refused` means that the payment must be given back, `paused` that it is not decided yet."""
        return self._decide("confirm", reservation)

    def cancel(self, reservation):
        """The buyer does not want it any more. `paused` means that it is not decided yet: ask again."""
        return self._decide("cancel_hold", reservation)

    def _decide(self, verb, reservation):
        [[outcome, *_]] = self._call(verb, [bytes.fromhex(reservation)])
        return meaning(DECIDED, outcome)

    def _call(self, verb, arguments):
        while True:
            orders = under(f"rg:{{q:{self.spec['orders']}}}:", QUEUE) if self.spec["orders"] else []
            answer = self.gate.call(f"sale_{verb}", self.keys + orders, [self.secret, *arguments])
            if answer != b"MISSING":
                return answer
            self._read()
            self._make()

    def _read(self):
        home = self.gate.server.get(f"rg:{{s:{self.id}}}:home")
        if home is None:
            raise KeyError(f"there is no sale `{self.id}`")
        self.spec = json.loads(home)
        self.secret = bytes.fromhex(self.spec["secret"])
        tag = f"q:{self.spec['orders']}" if self.spec["orders"] else f"s:{self.id}"
        self.keys = under(f"rg:{{{tag}}}:sale:{self.id}:1:", SALE)

    def _make(self):
        """Whoever entered the sale did not come to make it."""
        moments = ["" if self.spec[name] is None else self.spec[name] for name in ("opens_us", "closes_us")]
        arguments = [self.secret, self.spec["hold_us"], *moments, int(bool(self.spec["orders"])), json.dumps(self.id)]
        for sku, units, per_buyer in self.spec["skus"]:
            arguments += [units, per_buyer, json.dumps(sku)]
        self.gate.call("sale_create", self.keys, arguments)

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
    """A subscription. What a message says is not read: it is a hint, and the state is on the server."""

    def __init__(self, server):
        self.id, self._server, self._messages = os.urandom(8), server, None

    def _subscribe(self):
        """In a Cluster at any node, because each hears of everything; by itself redis-py would insist on one."""
        is_cluster = isinstance(self._server, redis.RedisCluster)
        where = {"node": self._server.get_random_node()} if is_cluster else {}
        self._messages = self._server.pubsub(**where)
        self._messages.subscribe(f"rg:in:{self.id.hex()}")
        self._messages.get_message(timeout=3)

    def wait(self, seconds):
        """Sleeps until a message has come, or that time is over. Not at all if it has to subscribe: ask again first."""
        try:
            if self._messages is None:
                self._subscribe()
            else:
                self._messages.get_message(timeout=seconds)
        except UNREACHED:
            # The next wait subscribes anew.
            self._messages = None
            time.sleep(0.02)


def under(beginning, endings):
    """Keys that begin alike."""
    return [beginning + ending for ending in endings]


def meaning(names, number):
    """What a number stands for. One that is not known is of a later protocol, and nobody should guess at it."""
    if not (0 <= number < len(names) and names[number]):
        raise RuntimeError(f"the server answered {number}, which protocol {PROTOCOL} does not know")
    return names[number]


def us(seconds):
    """Whole microseconds."""
    return round(seconds * 1_000_000)


def unpack(packed, sizes):
    """Whole numbers of so many bytes each; what is behind them is the `rest`."""
    fields = {}
    for name, size in sizes.items():
        fields[name], packed = int.from_bytes(packed[:size], "big"), packed[size:]
    return fields | {"rest": packed}


def body_of(payload, kind):
    """A payload behind its content type, of which the kind is a parameter."""
    is_bytes = isinstance(payload, bytes)
    content = payload if is_bytes else json.dumps(payload).encode()
    if kind is None:
        return (b"\0" if is_bytes else b"\xff") + content
    if not re.fullmatch(KIND, kind):
        raise ValueError(f"the kind `{kind}` is not 1 to 80 of A-Z, a-z, 0-9 and . _ : / -")
    content_type = f'application/{"octet-stream" if is_bytes else "json"};kind="{kind}"'.encode()
    return bytes([len(content_type)]) + content_type + content


def content_of(body):
    """The content type without the kind, the kind, and the payload."""
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
    """What is not what its type says stays bytes."""
    try:
        if essence == "application/json" or essence.endswith("+json"):
            return json.loads(content)
        return content.decode() if essence.startswith("text/") else content
    except ValueError:
        return content
