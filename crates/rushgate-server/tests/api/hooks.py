"""Rules of the API that its schemas cannot express, for the fuzzer."""

import unicodedata
import uuid
from urllib.parse import unquote

import schemathesis
from schemathesis.generation import GenerationMode

# Categories of characters: control, format, and separators.
NOT_IN_NAMES = ("Cc", "Cf", "Zs", "Zl", "Zp")


def is_wanted(case):
    """Whether the API should accept the request."""
    return case.meta is None or case.meta.generation.mode == GenerationMode.POSITIVE


def ends_a_line(value):
    if isinstance(value, dict):
        return any(ends_a_line(part) for pair in value.items() for part in pair)
    if isinstance(value, list):
        return any(map(ends_a_line, value))
    return isinstance(value, str) and value[-1:] in ("\n", "\r")


def is_no_name(value):
    name = unquote(str(value))
    return any(unicodedata.category(character) in NOT_IN_NAMES or character in "{}" for character in name)


@schemathesis.hook
def filter_case(context, case):
    """Drops texts that the fuzzer generates although the patterns exclude them.

    In a schema, `$` matches only the end of the text. In Python, which generates the texts, it also matches before a
    final line break. A name that contains a percent escape (`%04`, `%20`) is decoded on arrival, and may then be no valid name.
    """
    if not is_wanted(case):
        return True
    parts = (case.path_parameters, case.query, case.headers, case.body)
    ends = any(ends_a_line(dict(part) if hasattr(part, "items") else part) for part in parts)
    return not ends and not any(map(is_no_name, (case.path_parameters or {}).values()))


@schemathesis.hook
def before_call(context, case, kwargs):
    """Gives each valid request a new Idempotency-Key. An invalid request keeps its key."""
    if is_wanted(case) and "Idempotency-Key" in (case.headers or {}):
        case.headers["Idempotency-Key"] = uuid.uuid4().hex
