"""When a schedule fires.

Patterns have five fields, or six with seconds in front: numbers, names, lists, ranges and steps. Nicknames such as
`@daily` work too. Other extensions, such as `L`, are known to the server only.
"""

from __future__ import annotations

import contextlib
import re
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Any, Dict, List, Optional, Set
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
# How many occurrences a schedule lists.
_UPCOMING = 5


def next_after(recurrence: Dict[str, Any], moment: int) -> int:
    """Returns the first occurrence after a moment, both in µs. `recurrence` has the stored form."""
    if "every_ms" in recurrence:
        interval = recurrence["every_ms"] * 1_000
        return int((moment // interval + 1) * interval)
    found = Pattern(recurrence["cron"]).next_after(moment // 1_000_000, zone_of(recurrence.get("zone")))
    return found * 1_000_000


def upcoming(recurrence: Dict[str, Any], first: Optional[int]) -> List[int]:
    """Returns the next occurrences of a schedule, from `first` on. Of a recurrence that cannot be read, only `first`."""
    moments: List[int] = []
    following = first
    # Another program may have written any recurrence.
    with contextlib.suppress(Exception):
        while following is not None and len(moments) < _UPCOMING:
            moments.append(following)
            following = next_after(recurrence, following)
    return moments


def latest_until(recurrence: Dict[str, Any], first: int, moment: int) -> int:
    """Returns the latest occurrence at or before a moment, both in µs. `first`: an earlier one."""
    if "every_ms" in recurrence:
        interval: int = recurrence["every_ms"] * 1_000
        return max(first, moment // interval * interval)
    # The latest one is after `low`, and none is after `high`. Occurrences of a pattern are whole seconds.
    low, high = first // 1_000_000, moment // 1_000_000
    while low < high:
        middle = (low + high) // 2
        if next_after(recurrence, middle * 1_000_000) <= moment:
            low = middle + 1
        else:
            high = middle
    return max(first, low * 1_000_000)


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
        """Returns the first matching second after `second`, in Unix time.

        A fixed time, which has one hour, minute and second, moves to the next time that exists if the clocks skip it, and
        fires once if they repeat it. Other times follow the local clock.
        """
        is_fixed = all(len(of) == 1 for of in (self._hours, self._minutes, self._seconds))
        found = self._next_fixed(second, zone) if is_fixed else self._next_by_clock(second, zone)
        if found is None:
            raise check.invalid("cron", f"`{self._pattern}` never matches")
        return found

    def _next_fixed(self, second: int, zone: tzinfo) -> Optional[int]:
        [hour], [minute], [sec] = self._hours, self._minutes, self._seconds
        day = datetime.fromtimestamp(second, zone).replace(hour=hour, minute=minute, second=sec, fold=0)
        last_year = day.year + _YEARS
        while day.year <= last_year:
            if day.month not in self._months:
                day = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
                continue
            if self._is_day(day):
                at = _existing(day, zone)
                if at > second and self._is_day(datetime.fromtimestamp(at, zone)):
                    return at
            day += timedelta(days=1)
        return None

    def _next_by_clock(self, second: int, zone: tzinfo) -> Optional[int]:
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
        return None

    def _is_day(self, at: datetime) -> bool:
        by_day, by_weekday = at.day in self._days, at.isoweekday() % 7 in self._weekdays
        return by_day or by_weekday if self._either_day else by_day and by_weekday


def _existing(local: datetime, zone: tzinfo) -> int:
    """Returns a local time in Unix time, or the end of the gap in which the clocks skip it."""
    after = int(local.timestamp())
    if datetime.fromtimestamp(after, zone).replace(fold=0) == local:
        return after
    # In a gap, the two values of `fold` name a moment before it and one after it.
    before = int(local.replace(fold=1).timestamp())
    offset = datetime.fromtimestamp(before, zone).utcoffset()
    while after - before > 1:
        middle = (before + after) // 2
        if datetime.fromtimestamp(middle, zone).utcoffset() == offset:
            before = middle
        else:
            after = middle
    return after


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
