"""The examples of docstrings and of examples/ do what they say."""

from __future__ import annotations

import doctest
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars
import pytest

import vesica
import vesica._spark

ROOT = Path(__file__).resolve().parents[2]


def documented() -> Iterator[tuple[str, Any]]:
    """Everything public, by name."""
    for name in vesica.__all__:
        thing = getattr(vesica, name)
        yield name, thing
        if inspect.isclass(thing):
            for part in vars(thing):
                if not part.startswith("_"):
                    yield f"{name}.{part}", getattr(thing, part)


def test_everything_public_is_documented() -> None:
    missing = [
        name
        for name, thing in documented()
        if not isinstance(thing, (str, int, type(None))) and not inspect.getdoc(thing)
    ]
    assert not missing


def explained(function: Any) -> list[str]:
    """The arguments that have a line of their own in a docstring, or share one."""
    lines = re.findall(r"^((?:\w+, )*\w+)  +\S", inspect.getdoc(function), re.MULTILINE)
    return [name for line in lines for name in line.split(", ")]


def test_every_argument_is_explained() -> None:
    assert sorted(explained(vesica.receive)) == sorted(inspect.signature(vesica.receive).parameters)


@pytest.mark.parametrize("function", [vesica.split, vesica._spark.receive])
def test_every_argument_that_a_run_has_not_is_explained(function: Any) -> None:
    parameters = inspect.signature(function).parameters.keys()
    of_a_run = inspect.signature(vesica.receive).parameters.keys()
    assert parameters - of_a_run <= set(explained(function)) <= parameters


@pytest.mark.parametrize("name", ["Identity", "Table", "check", "connect", "listen", "pair"])
def test_docstrings_have_examples(name: str) -> None:
    assert ">>> " in inspect.getdoc(getattr(vesica, name))


@pytest.mark.parametrize(
    ("name", "text"),
    [(name, inspect.getdoc(thing)) for name, thing in documented() if not isinstance(thing, str)],
)
def test_docstring(name: str, text: str | None) -> None:
    names = {**vars(vesica), "vesica": vesica, "polars": polars}
    test = doctest.DocTestParser().get_doctest(text or "", names, name, None, 0)
    result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test)
    assert result.failed == 0


def output_of(example: str) -> str:
    """What a script of examples/python prints."""
    script = ROOT / "examples" / "python" / example
    done = subprocess.run(
        [sys.executable, "-W", "ignore::vesica.RunWarning", script],
        check=False,
        capture_output=True,
        text=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example_runs_as_a_script() -> None:
    said = output_of("donors.py")
    assert "41 donors are customers; the shop learns that the charity has 197" in said
    assert "they have ordered 817 times" in said


def test_intersections_make_oblivious_transfer() -> None:
    said = output_of("ot_from_psi.py").splitlines()
    assert len(said) == 9
    assert said[5] == "Bob has (1, 0), Alice chooses y_1 and learns 0"
