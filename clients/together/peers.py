"""Programs of the scenarios, one per language, and the stores that they share."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

CLIENTS = pathlib.Path(__file__).resolve().parents[1]
RUSHGATE = os.environ.get("RUSHGATE", str(CLIENTS.parent / "target/debug/rushgate"))
PATIENCE = 30
# The longest time of a scenario.
LIMIT = 90

# The peer of each language, which uses the installed package.
LANGUAGES = {
    "go": ["go/.build/peer"],
    "java": ["java/tests/peer"],
    "node": ["node", "node/.env/tests/peer.mjs"],
    "php": ["php", "php/tests/peer"],
    "python": ["python/.env/test/bin/python", "python/.env/tests/peer.py"],
}


def install():
    """Builds and installs the packages whose sources have changed. Returns the programs by language."""
    for language in LANGUAGES:
        subprocess.run([CLIENTS / language / "test", "--build"], stdout=sys.stderr, check=True)
    return {language: [absolute(word) for word in words] for language, words in LANGUAGES.items()}


def absolute(word):
    return str(CLIENTS / word) if "/" in word else word


# ── programs ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class Peer:
    """A process in a language, with one client. It plays a role per line of its input."""

    def __init__(self, store, language, words, url):
        self.language = language
        self.errors = open(store.folder / f"{language}.errors", "w+")
        self.process = subprocess.Popen(
            [*words, url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
            encoding="utf-8",
        )

    def play(self, *words):
        self.process.stdin.write("\t".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            self.errors.seek(0)
            raise AssertionError(f"{self.language} ended in {words[0]}: {self.errors.read()}")
        return json.loads(line.removeprefix("»"))

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def close(self):
        """Lets the process end. Kills it if it does not."""
        try:
            self.process.communicate(timeout=PATIENCE)
        except (subprocess.TimeoutExpired, ValueError):
            self.kill()
        self.errors.close()


class Rust:
    """The same roles with the `rushgate` command."""

    language = "rust"
    APPEND = 'text=$(cat "$1"; echo .) && printf "%s%s rust\\n" "${text%.}" "$RUSHGATE_FENCE" >"$1"'
    KEEP = 'echo "$RUSHGATE_FENCE" && exec cat'
    # Arguments: the file of completed tasks, the queue of completed tasks, after how many to stay, where to tell it.
    HANDLE = """
        if [ "$(wc -l <"$1")" = "$3" ]; then echo $$ "$RUSHGATE_TASK" >"$4" && exec sleep 1000; fi
        [ "$(jq -r '"\\(.from):\\(.n)"')" = "$RUSHGATE_TASK" ] &&
        case $("$RUSHGATE" queue enqueue "$2" "$RUSHGATE_TASK") in
            added*) echo "$RUSHGATE_TASK" >>"$1" ;;
            *) exit 65 ;;
        esac
    """

    def __init__(self, store):
        self.store = store
        self.held = {}
        self.children = []

    def play(self, role, *words):
        return getattr(self, role)(*map(str, words))

    def kill(self):
        for child in self.children:
            os.kill(child.pid if isinstance(child, subprocess.Popen) else child, signal.SIGKILL)
            if isinstance(child, subprocess.Popen):
                child.wait()
        self.children = []

    close = kill

    def start(self, *words):
        child = subprocess.Popen(
            [RUSHGATE, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env={**self.store.env, "RUSHGATE": RUSHGATE},
        )
        self.children.append(child)
        return child

    def stop(self, child):
        """Waits for the end of a child."""
        child.communicate(timeout=PATIENCE)
        self.children.remove(child)
        assert child.returncode == 0, child.args

    def count(self, lock, times, file):
        for _ in range(int(times)):
            self.store.run("lock", "run", lock, "--wait", "60s", "--", "sh", "-c", self.APPEND, "append", file)

    def hold(self, lock, wait, lease):
        times = ["--wait", f"{wait}s", "--lease", f"{lease}s"]
        child = self.start("lock", "run", lock, *times, "--", "sh", "-c", self.KEEP)
        fence = child.stdout.readline()
        if not fence:
            child.wait()
            self.children.remove(child)
            return None
        self.held[lock] = child
        return {"fence": int(fence)}

    def free(self, lock):
        self.stop(self.held.pop(lock))

    def enqueue(self, queue, n):
        for number in range(1, int(n) + 1):
            payload = json.dumps({"from": "rust", "n": number})
            self.store.run("queue", "enqueue", queue, f"rust:{number}", "--payload", payload)

    def work(self, queue, n, done, stuck_after="never", lease="30"):
        completed, told = self.store.file("completed", ""), self.store.path("told")
        os.mkfifo(told)
        handle = ["sh", "-c", self.HANDLE, "handle", str(completed), done, stuck_after, str(told)]
        concurrency = "4" if stuck_after == "never" else "1"
        worker = self.start("work", queue, "--concurrency", concurrency, "--lease", f"{lease}s", "--exec", *handle)
        if stuck_after != "never":
            process, task = told.read_text().split()
            self.children.append(int(process))
            ids = completed.read_text().split()
            # Once the store has all completions, no task of this process runs again but the one that it holds.
            self.store.until(lambda: not any(self.store.task(queue, id) for id in ids), "the completions are stored")
            return {"done": ids, "stuck": task}

        def is_over():
            left = self.store.stats(queue)
            return left["ready"] + left["leased"] + left["scheduled"] == 0 and self.store.stats(done)["ready"] >= int(n)

        self.store.until(is_over, "all tasks are completed")
        worker.send_signal(signal.SIGTERM)
        self.stop(worker)
        return {"done": completed.read_text().split()}

    def send(self, queue, id, kind, text):
        payload = json.dumps({"text": text})
        return self.store.json("queue", "enqueue", queue, id, "--kind", kind, "--payload", payload)["outcome"]

    def receive(self, queue):
        [task] = self.store.json("queue", "claim", queue, "--wait", f"{PATIENCE}s")
        self.store.run("queue", "complete", queue, "--ticket", task["ticket"])
        return {"id": task["id"], "kind": task["kind"], "text": task["payload"]["text"]}

    def buy(self, sale, buyers):
        sold, refused = [], 0
        for number in range(1, int(buyers) + 1):
            cart = ["--buyer", f"rust-{number}", "--line", "phone", "--key", "click"]
            hold = self.store.json("sale", "reserve", sale, *cart)
            if hold["outcome"] == "reserved":
                assert self.decide(sale, "confirm", hold["id"]) in ("done", "pending")
                sold.append([hold["id"], *(unit["unit"] for unit in hold["units"])])
            else:
                refused += 1
        return {"sold": sold, "refused": refused}

    def reserve(self, sale, sku, buyer, key):
        hold = self.store.json("sale", "reserve", sale, "--buyer", buyer, "--line", sku, "--key", key)
        return {"outcome": hold["outcome"], "reservation": hold.get("id")}

    def decide(self, sale, verb, reservation):
        return self.store.json("sale", verb, sale, reservation)["outcome"]


class Peers(list):
    """A program of each language."""

    @contextlib.contextmanager
    def limited(self):
        """Kills the programs if it takes too long, so that every wait for one of them ends."""
        timer = threading.Timer(LIMIT, lambda: [peer.kill() for peer in self])
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def close(self):
        for peer in self:
            peer.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def start_peers(store):
    urls = [store.urls[at % len(store.urls)] for at in range(len(store.languages))]
    programs = zip(store.languages.items(), urls)
    return Peers([*(Peer(store, language, words, url) for (language, words), url in programs), Rust(store)])


def together(peers, words):
    """All play a role at the same time. Returns the answers by peer."""
    with ThreadPoolExecutor(len(peers)) as pool:
        playing = {peer: pool.submit(peer.play, *words(peer)) for peer in peers}
        return {peer: answer.result() for peer, answer in playing.items()}


# ── stores ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class Stores(list):
    """A Redis or Valkey server, a Cluster, servers over HTTP, and a primary with a replica behind a sentinel."""

    KINDS = ("redis", "valkey", "cluster", "http", "http_redis", "failover")

    @classmethod
    def of_environment(cls, only):
        unknown = set(only) - set(cls.KINDS)
        if unknown:
            sys.exit(f"unknown: {', '.join(unknown)}; a store is one of {', '.join(cls.KINDS)}")
        kinds = [kind for kind in only or cls.KINDS if f"RUSHGATE_TEST_{kind.upper()}" in os.environ]
        languages = install()
        return cls(Store(kind, languages) for kind in kinds)


class Store:
    """A store, as the programs reach it, and the `rushgate` command on it."""

    def __init__(self, kind, languages):
        def variable(name):
            return os.environ.get(f"RUSHGATE_TEST_{name}")

        self.kind, self.languages = kind, languages
        url = variable(kind.upper())
        self.store = {"http": variable("HTTP_STORE"), "http_redis": variable("REDIS")}.get(kind, url)
        self.urls = [url, self.store] if kind == "http_redis" else [url]
        self.temporary = tempfile.TemporaryDirectory(prefix="rushgate-together-")
        self.folder = pathlib.Path(self.temporary.name)
        # A server records the orders of all sales of its store.
        server = {"http": "HTTP", "http_redis": "HTTP_REDIS", "redis": "HTTP_REDIS"}.get(kind)
        self.orders = server and variable(f"{server}_ORDERS")
        self.is_tended = bool(self.orders)
        self.orders = self.orders or f"sqlite:{self.folder}/orders.db"
        self.env = {**os.environ, "RUSHGATE_STORE": self.store, "RUSHGATE_ORDERS": self.orders}
        self.count = 0

    @property
    def is_redis(self):
        return self.store.startswith("redis")

    def redis(self, *words):
        """The answer of the Redis server to a command."""
        host, _, port = self.store.partition("://")[2].split("/")[0].split(",")[0].rpartition(":")
        quoted = [word if isinstance(word, bytes) else str(word).encode() for word in words]
        quoted = ['"' + "".join(f"\\x{byte:02x}" for byte in word) + '"' for word in quoted]
        call = ["redis-cli", "-c", "-h", host, "-p", port, "--quoted-input", *quoted]
        return subprocess.run(call, capture_output=True, text=True, errors="replace", check=True).stdout.strip()

    def kill_primary(self):
        """Kills the primary behind the sentinel when its replica has everything."""
        self.until(lambda: self.redis("SENTINEL", "REPLICAS", "shop"), "the sentinel knows the replica")
        primary = ["redis-cli", "-p", self.redis("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "shop").split()[1]]
        written = subprocess.run(primary, input="SET last 1\nWAIT 1 10000\n", capture_output=True, text=True, check=True)
        assert written.stdout.split() == ["OK", "1"], written.stdout
        info = subprocess.run([*primary, "INFO", "server"], capture_output=True, text=True, check=True).stdout
        os.kill(int(info.partition("process_id:")[2].split()[0]), signal.SIGKILL)

    def name(self, word):
        self.count += 1
        return f"{word}-{self.kind}-{os.getpid()}-{self.count}"

    def path(self, word):
        self.count += 1
        return self.folder / f"{word}-{self.count}"

    def file(self, word, text):
        path = self.path(word)
        path.write_text(text)
        return path

    def run(self, *words, refused=False):
        """Runs a command. `refused`: it may be refused, also because the sale is damaged."""
        command = [RUSHGATE, *words]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=self.env)
        assert done.returncode == 0 or refused and done.returncode in (1, 4), f"{words}: {done.stdout}{done.stderr}"
        return done

    def json(self, *words):
        """The answer of a command. The code of an error is its outcome."""
        done = self.run("--json", *words, refused=True)
        return json.loads(done.stdout) if done.stdout else {"outcome": json.loads(done.stderr)["error"]["code"]}

    def stats(self, queue):
        return self.json("queue", "stats", queue)

    def task(self, queue, id):
        return self.json("queue", "show", queue, id)

    def state(self, sale):
        return self.json("sale", "show", sale)

    def until(self, is_true, what):
        end = time.monotonic() + PATIENCE
        while not is_true():
            assert time.monotonic() < end, f"it does not become true that {what}"
            time.sleep(0.02)

    @contextlib.contextmanager
    def sale(self, word, **skus):
        """An open sale, whose orders go to the ledger."""
        sale = self.name(word)
        stock = [word for sku, (units, most) in skus.items() for word in ("--sku", f"{sku}={units}:{most}")]
        self.run("sale", "create", sale, *stock)
        self.run("sale", "open", sale)
        worker = None if self.is_tended else subprocess.Popen(
            [RUSHGATE, "sale", "work", sale], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, env=self.env,
        )
        try:
            yield sale
        finally:
            if worker:
                worker.terminate()
                worker.wait()

    def until_delivered(self, sale):
        def is_delivered():
            state = self.state(sale)
            return state["orders"]["through"] == state["seq"] and not state["orders"]["failed"]

        self.until(is_delivered, f"the ledger has all orders of {sale}")

    def audit(self, sale):
        assert self.json("sale", "audit", sale)["ok"] is True
