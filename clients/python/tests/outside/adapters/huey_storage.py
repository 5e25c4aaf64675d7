"""A storage of huey whose queue is a Rushgate queue. The schedule and the results stay in memory."""

from __future__ import annotations

import os
import uuid
from typing import Any, List, Optional

from huey.storage import MemoryStorage

import rushgate


class Storage(MemoryStorage):  # type: ignore[misc]
    def __init__(self, *words: Any, **more: Any) -> None:
        super().__init__(*words, **more)
        self._client = rushgate.Rushgate(os.environ["RUSHGATE_TEST_REDIS"])
        self._tasks = self._client.queue(f"huey-{uuid.uuid4()}")
        self._ids: List[str] = []

    def enqueue(self, data: bytes, priority: Optional[float] = None) -> None:
        id = str(uuid.uuid4())
        # The highest priority of huey comes first, and the lowest of Rushgate.
        self._tasks.enqueue(id, data, priority=9 - int(priority or 0))
        self._ids.append(id)

    def dequeue(self) -> Optional[bytes]:
        return next((task.content.bytes for task in self._tasks.pop()), None)

    def queue_size(self) -> int:
        return self._tasks.stats().ready

    def enqueued_items(self, limit: Optional[int] = None) -> List[bytes]:
        found = [task for task in map(self._tasks.task, self._ids) if task is not None]
        return [task.content.bytes for task in found][:limit]

    def flush_queue(self) -> None:
        while self._tasks.pop(1_000):
            pass
