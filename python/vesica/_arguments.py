"""What is wrong with arguments before anything is done with them. The annotation of an argument says whether its path is read
or written: from that follows, for every function, that nothing is written in the place of anything else."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Callable, Union

from . import _vesica
from ._sources import address
from ._vesica import Identity, Link

if TYPE_CHECKING:
    from typing_extensions import ParamSpec, TypeVar

    _P = ParamSpec("_P")
    _T = TypeVar("_T")

Path = Union[str, "os.PathLike[str]"]
InputPath = Path
"""A file that is read."""
OutputPath = Path
"""A file, or an object, that is written."""
WorkDirectory = Path
"""The directory with which a run goes on."""
CourierDirectory = Path
"""The directory of a run by files."""
JobDirectory = Path
"""The directory of a job."""
StagingDirectory = Path
"""A directory for jobs."""
DatabaseDirectory = Path
"""The database of a published set."""
StateDirectory = Path
"""The state of look-ups."""
StoreDirectory = Path
"""A store of halves."""
InputSet = Path
"""A published set that is read; with `fetch` it is written."""
OutputSet = Path
"""A published set that is written."""
Rows = Any
"""A table: a path, several, an object with `__arrow_c_stream__`, or one of the others that `receive` names."""
Database = Any
"""A URI, or an engine or URL of SQLAlchemy."""

# What is at the path, and whether it is written.
_USES = {
    "InputPath": ("file", False),
    "OutputPath": ("file", True),
    "WorkDirectory": ("work directory", True),
    "CourierDirectory": ("courier directory", True),
    "JobDirectory": ("job directory", True),
    "StagingDirectory": ("staging directory", True),
    "DatabaseDirectory": ("database directory", True),
    "StateDirectory": ("state directory", True),
    "StoreDirectory": ("store directory", True),
    "InputSet": ("set", False),
    "OutputSet": ("set", True),
    "Rows": ("table", False),
}


# The runs whose peers hear that this side cannot take part.
_ROLES = {"receive": "receiver", "send": "sender"}


def checked(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """The same function, which checks its arguments first."""
    signature = inspect.signature(function)
    hints = function.__annotations__

    @functools.wraps(function)
    def called(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError:
            # Python says what is missing.
            return function(*args, **kwargs)
        role = _ROLES.get(function.__name__) if "reveal" in hints else None
        given = {**bound.arguments, **bound.kwargs}
        with naming(hints, given):
            check_arguments(hints, given, role)
            return function(*args, **kwargs)

    return called


@contextlib.contextmanager
def naming(hints: Mapping[str, Any], given: Mapping[str, Any]) -> Iterator[None]:
    """Says of which argument the engine could not take the value."""
    try:
        yield
    except TypeError as error:
        if (named := _of_argument(error, hints, given)) is None:
            raise
        raise named from None


def _of_argument(
    error: TypeError, hints: Mapping[str, Any], given: Mapping[str, Any]
) -> TypeError | None:
    """What is wrong with an argument of another type, if it is that, which the engine says by a name of its own."""
    found = re.match(r"failed to extract field \w+\.(\w+)", str(error))
    if found is None:
        return None
    name = next((name for name in (found[1], f"{found[1]}_") if name in hints), found[1])
    kind = type(given.get(name)).__name__
    return TypeError(f"{name}: {hints.get(name, 'another type')}, and not {kind}")


def check_arguments(
    hints: Mapping[str, Any], given: Mapping[str, Any], role: str | None = None
) -> None:
    """Raises UsageError, which shows nothing of them, for arguments that are private keys, for paths of several lines, and
    for what would be written in the place of anything else that is named. The peer of a run in this role hears of it."""
    paths = []
    for name, value in given.items():
        kind, writes = _USES.get(_kind(hints.get(name)), (None, False))
        if kind is not None:
            writes = writes or (kind == "set" and bool(given.get("fetch")))
            paths += [(name, kind, writes, path) for path in _paths(value)]
    arguments = {
        "texts": [(name, text) for name, value in given.items() for text in _texts(value)],
        "paths": paths,
        "database": None,
        "database_file": given.get("database_file"),
        "driver": given.get("driver"),
        "to_database": given.get("output_table") is not None,
    }
    if _kind(hints.get("database")) == "Database":
        uri = address(given.get("database"))
        arguments["database"] = uri if isinstance(uri, str) else None
    identity, link = given.get("identity"), given.get("link")
    _vesica.check_arguments(
        arguments,
        identity if isinstance(identity, Identity) else None,
        link if isinstance(link, Link) else None,
        role,
    )


def _kind(hint: Any) -> str:
    """Which of the names above annotates an argument."""
    return str(hint).partition(" ")[0]


def _paths(value: Any) -> list[str]:
    """The path that this is, or the paths."""
    if isinstance(value, (str, bytes, os.PathLike)):
        return [os.fsdecode(value)]
    if isinstance(value, Sequence) and not hasattr(value, "__arrow_c_stream__"):
        return [
            path
            for one in value
            if not isinstance(one, Sequence) or isinstance(one, str)
            for path in _paths(one)
        ]
    return []


def _texts(value: Any) -> list[str]:
    """All texts in this, unless it is a table."""
    if isinstance(value, (str, bytes, bytearray, os.PathLike)):
        return [os.fsdecode(bytes(value) if isinstance(value, bytearray) else value)]
    if isinstance(value, Mapping):
        value = [*value.keys(), *value.values()]
    if isinstance(value, (list, tuple, set, frozenset)):
        return [text for one in value for text in _texts(one)]
    return []
