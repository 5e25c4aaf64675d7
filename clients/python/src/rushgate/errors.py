"""Exceptions. Each has the `code` of the HTTP API, whichever transport raised it."""

from __future__ import annotations

from typing import Any, Dict, Optional, Type


class RushgateError(Exception):
    """Base of all exceptions of this package."""

    code = "bug"
    retryable = False

    def __init__(
        self,
        message: str,
        *,
        code: Optional[str] = None,
        field: Optional[str] = None,
        hint: Optional[str] = None,
        retry_after: Optional[float] = None,
        details: Optional[Dict[str, Any]] = None,
    ) -> None:
        super().__init__(message if hint is None else f"{message} {hint}")
        if code is not None:
            self.code = code
        self.field = field
        """Argument or setting that the error is about."""
        self.hint = hint
        """What to do."""
        self.retry_after = retry_after
        """Seconds after which a retry may succeed."""
        self.details = details or {}
        """Further fields of the problem that the server answered."""


class InvalidArgument(RushgateError, ValueError):
    """An argument is out of range, malformed or excluded by another one. Nothing was changed."""

    code = "invalid"


class NotFound(RushgateError):
    """The named sale, SKU or task does not exist."""

    code = "not_found"


class LockBusy(RushgateError):
    """Another client holds the lock, and the wait has timed out."""

    code = "lock_busy"
    retryable = True


class LockLost(RushgateError):
    """The lock was lost: its lease expired, or an operator force-released it. Another client may hold it."""

    code = "not_held"


class ClaimLost(RushgateError):
    """The claim of a task was lost: another worker may have the task."""

    code = "stale"


class TaskCancelled(RushgateError):
    """A client canceled the task that the handler runs."""

    code = "cancelled"


class TaskTimeout(RushgateError):
    """The handler exceeded its timeout, or the deadline of its task."""

    code = "timeout"


class WorkerStopped(RushgateError):
    """The grace of the worker is over, and the task returns to the queue."""

    code = "stopped"


class Undecodable(RushgateError):
    """The content does not match its content type. It stays in the store, and `bytes` has it."""

    code = "undecodable"


class Unavailable(RushgateError):
    """The store did not answer in time. Nothing was changed, unless the outcome is unknown."""

    code = "unavailable"
    retryable = True


class OutcomeUnknown(Unavailable):
    """No answer arrived: the call may have taken effect."""

    code = "outcome_unknown"


class StoreFull(RushgateError):
    """The store is full. Nothing was written."""

    code = "full"
    retryable = True


class Forbidden(RushgateError):
    """The token, the password or the rights do not allow the call."""

    code = "forbidden"


class Conflict(RushgateError):
    """The state of the store does not allow the call."""

    code = "conflict"


class Misconfigured(RushgateError):
    """The store is not set up for this package: the function library is missing or has another protocol."""

    code = "misconfigured"


class Corrupt(RushgateError):
    """The answer cannot be read, or the store has lost keys. The data stays where it is."""

    code = "corrupt"


class ClientClosed(RushgateError):
    """The client is closed."""

    code = "closed"


_BY_CODE: Dict[str, Type[RushgateError]] = {
    "not_found": NotFound,
    "lock_busy": LockBusy,
    "not_held": LockLost,
    "stale": ClaimLost,
    "nothing_kept": InvalidArgument,
    "idempotency_key_reused": Conflict,
    "outcome_unknown": OutcomeUnknown,
    "full": StoreFull,
    "misconfigured": Misconfigured,
    "corrupt": Corrupt,
    "bug": RushgateError,
}
_BY_STATUS: Dict[int, Type[RushgateError]] = {
    401: Forbidden,
    403: Forbidden,
    409: Conflict,
    410: Conflict,
    429: Unavailable,
    503: Unavailable,
}


def of_problem(status: int, problem: Dict[str, Any]) -> RushgateError:
    """Returns the exception for a problem of the HTTP API."""
    code = problem.get("code", "")
    kind = _BY_CODE.get(code) or _BY_STATUS.get(status) or (InvalidArgument if status < 500 else RushgateError)
    millis = problem.get("retry_after_ms")
    return kind(
        problem.get("detail") or problem.get("title") or f"HTTP status {status}",
        code=code or None,
        field=problem.get("field"),
        hint=problem.get("hint"),
        retry_after=None if millis is None else millis / 1e3,
        details=problem,
    )
