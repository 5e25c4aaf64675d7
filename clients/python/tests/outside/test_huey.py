"""huey's tests of a storage, with a storage on a Rushgate queue."""

from __future__ import annotations

from adapters.huey_storage import Storage
from huey import Huey
from huey.tests.base import BaseTestCase
from huey.tests.test_storage import StorageTests


class TestRushgateStorage(StorageTests, BaseTestCase):  # type: ignore[misc]
    def get_huey(self) -> Huey:
        return Huey(storage_class=Storage, utc=False)
