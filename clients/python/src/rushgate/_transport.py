"""What the classes need of a store: one method per verb, each of which returns a plan.

Arguments are checked already, and durations are in µs. Answers are fields of the HTTP API, in which `content` and
`result` are `Content`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Set, Tuple, TypeVar

from ._content import Content
from ._plan import Plan, Stop
from .models import EncodedTask, Progress, QueueLimits

T = TypeVar("T")
Fields = Dict[str, Any]


@dataclass(frozen=True)
class Grant:
    """A granted lock. `held_until` is the monotonic time until which it is certainly held."""

    token: str
    fence: int
    held_until: float


def certain(lease: float) -> float:
    """Returns a lease in seconds less a tenth of it, 1 ms to 1 s, because clocks drift."""
    return lease - min(max(lease / 10, 0.001), 1.0)


@dataclass(frozen=True)
class AcquireRequest:
    lease: int
    wait: int
    label: str
    barging: bool


@dataclass(frozen=True)
class ClaimRequest:
    n: int
    lease: int
    wait: int
    worker: str
    stop: Optional[Stop] = None


@dataclass(frozen=True)
class Completion:
    ticket: str
    result: Optional[Content] = None
    discarded: bool = False


@dataclass(frozen=True)
class Failure:
    ticket: str
    error: str
    delay: int = 0
    give_up: bool = False


@dataclass(frozen=True)
class Release:
    ticket: str
    delay: int = 0


@dataclass(frozen=True)
class Heartbeat:
    ticket: str
    progress: Optional[Progress] = None


@dataclass(frozen=True)
class Announcement:
    """What a worker says of itself."""

    id: str
    name: str
    version: str
    concurrency: int
    running: int
    lease: int


@dataclass(frozen=True)
class EncodedSchedule:
    """`recurrence` has the stored form."""

    recurrence: Fields
    content: Content
    priority: int
    max_attempts: int
    paused: Optional[bool]


@dataclass(frozen=True)
class NewSale:
    id: str
    skus: List[Fields]
    hold: int
    opens_at_us: Optional[int]
    closes_at_us: Optional[int]
    ledger: Optional[bool]


@dataclass(frozen=True)
class Cart:
    buyer: str
    key: str
    lines: Dict[str, int]
    same_number: bool
    admission: Optional[str]


class Transport(ABC):
    """A store. A write that is sent again after a lost connection takes effect once."""

    @abstractmethod
    def acquire(self, lock: str, request: AcquireRequest) -> Plan[Optional[Grant]]:
        """None if the lock is busy."""

    @abstractmethod
    def extend_lock(self, lock: str, token: str, lease: int) -> Plan[Optional[Grant]]:
        """None if the token does not hold the lock."""

    @abstractmethod
    def release_lock(self, lock: str, token: str) -> Plan[bool]: ...

    @abstractmethod
    def watch_lock(self, token: str, lost: Callable[[], None]) -> Callable[[], None]:
        """Calls `lost` if a notification says that the lock was force-released. Returns how to end that."""

    @abstractmethod
    def show_lock(self, lock: str) -> Plan[Fields]: ...

    @abstractmethod
    def force_release(self, lock: str) -> Plan[Fields]: ...

    @abstractmethod
    def enqueue(self, queue: str, tasks: List[EncodedTask]) -> Plan[List[Fields]]: ...

    @abstractmethod
    def claim(self, queue: str, request: ClaimRequest) -> Plan[List[Fields]]: ...

    @abstractmethod
    def complete(self, queue: str, completions: List[Completion]) -> Plan[List[str]]: ...

    @abstractmethod
    def retry(self, queue: str, failures: List[Failure]) -> Plan[List[Fields]]: ...

    @abstractmethod
    def release(self, queue: str, releases: List[Release]) -> Plan[List[str]]: ...

    @abstractmethod
    def extend(self, queue: str, heartbeats: List[Heartbeat], lease: int) -> Plan[List[str]]: ...

    @abstractmethod
    def cancel(self, queue: str, task: str) -> Plan[str]: ...

    @abstractmethod
    def reschedule(self, queue: str, task: str, delay: int, due_us: Optional[int]) -> Plan[Fields]:
        """Applies `delay`, in µs, if `due_us` is None."""

    @abstractmethod
    def clear_unique(self, queue: str, task: str) -> Plan[Optional[int]]: ...

    @abstractmethod
    def task(self, queue: str, task: str) -> Plan[Optional[Fields]]: ...

    @abstractmethod
    def top(self, queue: str, n: int) -> Plan[List[Fields]]: ...

    @abstractmethod
    def dequeue(self, queue: str, ticket: str) -> Plan[str]: ...

    @abstractmethod
    def pop(self, queue: str, n: int) -> Plan[List[Fields]]: ...

    @abstractmethod
    def wait_for(self, queue: str, task: str, wait: int) -> Plan[Optional[Fields]]:
        """How the task ended. None if it is live after the wait."""

    @abstractmethod
    def why(self, queue: str, task: str) -> Plan[List[Fields]]: ...

    @abstractmethod
    def close_batch(self, queue: str, task: str) -> Plan[Fields]: ...

    @abstractmethod
    def dependents(self, queue: str, task: str, n: int) -> Plan[List[str]]: ...

    @abstractmethod
    def waited(self, queue: str, task: str, after: str, limit: int) -> Plan[List[Fields]]: ...

    @abstractmethod
    def stats(self, queue: str) -> Plan[Fields]: ...

    @abstractmethod
    def limit(self, queue: str, limits: QueueLimits) -> Plan[None]: ...

    @abstractmethod
    def pause(self, queue: str, paused: bool) -> Plan[None]: ...

    @abstractmethod
    def dead(self, queue: str, after: str, limit: int) -> Plan[List[Fields]]: ...

    @abstractmethod
    def requeue_dead(self, queue: str, ids: Optional[List[str]]) -> Plan[Fields]:
        """None stands for all."""

    @abstractmethod
    def delete_dead(self, queue: str, ids: Optional[List[str]]) -> Plan[int]:
        """None stands for all."""

    @abstractmethod
    def save_schedule(self, queue: str, schedule: str, settings: EncodedSchedule) -> Plan[str]: ...

    @abstractmethod
    def schedules(self, queue: str, after: str, limit: int) -> Plan[List[Fields]]: ...

    @abstractmethod
    def delete_schedule(self, queue: str, schedule: str) -> Plan[bool]: ...

    @abstractmethod
    def fire_schedules(self, queue: str, reported: Set[Tuple[str, int]]) -> Plan[Optional[float]]:
        """Fires due schedules. Returns the seconds until the next look. None if the server fires schedules.

        `reported`: ID and revision of schedules that cannot be read, each of which is logged once.
        """

    @abstractmethod
    def announce(self, queue: str, worker: Announcement) -> Plan[str]:
        """Announces a worker. Returns the mode that an operator asked for."""

    @abstractmethod
    def end_worker(self, queue: str, worker: str) -> Plan[None]: ...

    @abstractmethod
    def workers(self, queue: str, after: str, limit: int) -> Plan[List[Fields]]: ...

    @abstractmethod
    def set_worker(self, queue: str, worker: str, mode: str) -> Plan[bool]:
        """False if the worker is not listed."""

    @abstractmethod
    def create_sale(self, sale: NewSale) -> Plan[str]: ...

    @abstractmethod
    def open_sale(self, sale: str) -> Plan[str]: ...

    @abstractmethod
    def end_sale(self, sale: str) -> Plan[str]: ...

    @abstractmethod
    def sale(self, sale: str) -> Plan[Fields]: ...

    @abstractmethod
    def reserve(self, sale: str, cart: Cart) -> Plan[Fields]: ...

    @abstractmethod
    def confirm(self, sale: str, reservation: str) -> Plan[Fields]: ...

    @abstractmethod
    def cancel_hold(self, sale: str, reservation: str) -> Plan[Fields]: ...

    @abstractmethod
    def reservation(self, sale: str, reservation: str, wait: int) -> Plan[Optional[Fields]]:
        """The reservation, once it is final or after the wait."""

    @abstractmethod
    def restore(self, sale: str, receipt: str) -> Plan[Fields]: ...


Call = Callable[[Transport], Plan[T]]
