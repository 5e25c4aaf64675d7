"""What the fuzzer must know of the API that no schema can say."""

import unicodedata
import uuid
from urllib.parse import unquote

import schemathesis
from schemathesis.generation import GenerationMode


def is_wanted(case):
    """Whether the API is to take it."""
    return case.meta is None or case.meta.generation.mode == GenerationMode.POSITIVE


def ends_a_line(value):
    if isinstance(value, dict):
        return any(ends_a_line(part) for pair in value.items() for part in pair)
    if isinstance(value, list):
        return any(map(ends_a_line, value))
    return isinstance(value, str) and value[-1:] in ("\n", "\r")


def has_control_character(value):
    return any(unicodedata.category(character) == "Cc" for character in unquote(str(value)))


@schemathesis.hook
def filter_case(context, case):
    """Drops what the fuzzer takes for valid although the patterns exclude it.

    A pattern's `$` is the end of a text. In Python, which draws the texts, a line break may follow it. A name that reads
    as percent-encoded (`%04`) arrives decoded: as a control character.
    """
    if not is_wanted(case):
        return True
    parts = (case.path_parameters, case.query, case.headers, case.body)
    ends = any(ends_a_line(dict(part) if hasattr(part, "items") else part) for part in parts)
    return not ends and not any(map(has_control_character, (case.path_parameters or {}).values()))


@schemathesis.hook
def before_call(context, case, kwargs):
    """An Idempotency-Key is good for one request. In one that is to be refused it stays as it is."""
    if is_wanted(case) and "Idempotency-Key" in (case.headers or {}):
        case.headers["Idempotency-Key"] = uuid.uuid4().hex
