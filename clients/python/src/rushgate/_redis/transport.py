"""The transport to Redis and Valkey."""

from __future__ import annotations

from typing import Dict, Optional, Tuple

from .._plan import Plan
from .locks import LockVerbs
from .queues import TASKS_READY, QueueVerbs
from .sales import SaleVerbs, Specification
from .store import Store


class RedisTransport(LockVerbs, QueueVerbs, SaleVerbs):
    """All verbs, by calls of the function library."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._specifications: Dict[str, Specification] = {}
        self.channel, self.topics = store.channel, store.topics

    def answer_unheard(self, topic: Tuple[str, ...]) -> Optional[Plan[None]]:
        """Returns what to do about a notification for which nobody waits: a claim that ended declines its wake-up."""
        return self._decline(topic[1]) if topic[0] == TASKS_READY else None

    def _decline(self, queue: str) -> Plan[None]:
        yield from self._store.call("queue_ring", queue, ())
