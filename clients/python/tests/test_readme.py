"""The examples of the README run."""

from __future__ import annotations

import pathlib
import re

import pytest
from support import API, URL, options, unique

README = pathlib.Path(__file__).resolve().parents[1] / "README.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
PLACE = '"redis://127.0.0.1:6379"'


@pytest.mark.skipif(API != "threads", reason="the examples are the same")
@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_runs(example, capsys):
    assert PLACE in example
    example = example.replace(PLACE, f"{URL!r}, **{options()!r}")
    example = example.replace("to:ann", unique("task")).replace('"mail"', repr(unique("mail")))
    example = example.replace('"phones"', repr(unique("phones")))
    exec(compile(example, str(README), "exec"), {"__name__": "example"})
    assert capsys.readouterr().out


def test_there_are_examples():
    assert len(EXAMPLES) == 3
