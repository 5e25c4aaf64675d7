"""When a schedule fires first.

Patterns have five fields, or six with seconds in front: numbers, names, lists, ranges and steps. Nicknames such as
`@daily` work too. Other extensions, such as `L`, are known to the server only.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Any, Dict, List, Set
from zoneinfo import ZoneInfo

from . import _check as check

_NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
# Lowest and highest value of seconds, minutes, hours, days, months and weekdays.
_RANGES = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_MONTHS = {name: at for at, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), 1)}
_WEEKDAYS = {name: at for at, name in enumerate("sun mon tue wed thu fri sat".split())}
_NAMES: Dict[int, Dict[str, int]] = {4: _MONTHS, 5: _WEEKDAYS}
_PART = re.compile(r"(?:\*|(\d{1,2})(?:-(\d{1,2}))?)(?:/(\d{1,2}))?")
_YEARS = 9


def next_after(recurrence: Dict[str, Any], moment: int) -> int:
    """Returns the first occurrence after a moment, both in µs. `recurrence` has the stored form."""
    if "every_ms" in recurrence:
        interval = recurrence["every_ms"] * 1_000
        return int((moment // interval + 1) * interval)
    found = Pattern(recurrence["cron"]).next_after(moment // 1_000_000, zone_of(recurrence.get("zone")))
    return found * 1_000_000


def zone_of(name: Any) -> tzinfo:
    if name is None:
        return timezone.utc
    try:
        return ZoneInfo(check.text("zone", name))
    except (OSError, ValueError, KeyError):
        raise check.invalid("zone", f"`{name}` is unknown; use a name such as `Europe/Berlin`") from None


class Pattern:
    """A cron pattern. Raises `InvalidArgument` if it is malformed."""

    def __init__(self, pattern: str) -> None:
        words = _NICKNAMES.get(pattern, check.text("cron", pattern)).split()
        if len(words) == 5:
            words = ["0", *words]
        if len(words) != len(_RANGES):
            raise check.invalid("cron", f"`{pattern}` must have five or six fields")
        sets = [_field(word.lower(), at) for at, word in enumerate(words)]
        self._seconds, self._minutes, self._hours, self._days, self._months, self._weekdays = sets
        # If both kinds of days are restricted, one of them suffices.
        self._either_day = words[3] != "*" and words[5] != "*"
        self._pattern = pattern

    def next_after(self, second: int, zone: tzinfo) -> int:
        """Returns the first matching second after `second`, in Unix time."""
        at = datetime.fromtimestamp(second + 1, zone)
        last_year = at.year + _YEARS
        while at.year <= last_year:
            if at.month not in self._months:
                at = _midnight((at.replace(day=1) + timedelta(days=32)).replace(day=1), zone)
            elif not self._is_day(at):
                at = _midnight(at + timedelta(days=1), zone)
            elif at.hour not in self._hours:
                at = _later(at, 3_600 - at.minute * 60 - at.second, zone)
            elif at.minute not in self._minutes:
                at = _later(at, 60 - at.second, zone)
            elif at.second not in self._seconds:
                at = _later(at, 1, zone)
            else:
                return int(at.timestamp())
        raise check.invalid("cron", f"`{self._pattern}` never matches")

    def _is_day(self, at: datetime) -> bool:
        by_day, by_weekday = at.day in self._days, at.isoweekday() % 7 in self._weekdays
        return by_day or by_weekday if self._either_day else by_day and by_weekday


def _midnight(at: datetime, zone: tzinfo) -> datetime:
    # By way of Unix time, because the zone may have no midnight on that day.
    local = datetime(at.year, at.month, at.day, tzinfo=zone)
    return datetime.fromtimestamp(local.timestamp(), zone)


def _later(at: datetime, seconds: int, zone: tzinfo) -> datetime:
    return datetime.fromtimestamp(int(at.timestamp()) + seconds, zone)


def _field(word: str, position: int) -> Set[int]:
    low, high = _RANGES[position]
    for name, number in _NAMES.get(position, {}).items():
        word = word.replace(name, str(number))
    found: List[int] = []
    for part in word.split(","):
        match = _PART.fullmatch(part)
        if match is None:
            raise check.invalid("cron", f"has the unknown field `{part}`")
        first, last, step = (None if group is None else int(group) for group in match.groups())
        begin = low if first is None else first
        end = last if last is not None else (begin if first is not None and step is None else high)
        if not low <= begin <= end <= high or step == 0:
            raise check.invalid("cron", f"has the field `{part}`, which is out of range")
        found += range(begin, end + 1, step or 1)
    return {number % 7 if position == 5 else number for number in found}
