"""What is wrong with arguments before anything is done with them. The annotation of an argument says whether its path is read
or written: from that follows, for every function, that nothing is written in the place of anything else."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Callable

from . import _options, _vesica
from ._errors import UsageError
from ._sources import address
from ._vesica import Identity, Link

if TYPE_CHECKING:
    from typing_extensions import ParamSpec, TypeVar

    _P = ParamSpec("_P")
    _T = TypeVar("_T")

# What is at the path, and whether it is written.
_USES = {
    "InputPath": ("file", False),
    "OutputPath": ("file", True),
    "WorkDirectory": ("work directory", True),
    "CourierDirectory": ("courier directory", True),
    "JobDirectory": ("job directory", True),
    "StagingDirectory": ("staging directory", True),
    "SetDirectory": ("database directory", True),
    "StateDirectory": ("state directory", True),
    "StoreDirectory": ("store directory", True),
    "InputSet": ("set", False),
    "OutputSet": ("set", True),
    "Rows": ("table", False),
}

# What an argument is, where the name of its type does not say it.
_WORDS = {"Duration": 'seconds, a text such as "5m" or a timedelta'}

# The runs whose peers hear that this side cannot take part.
_ROLES = {"vesica._runs.receive": "receiver", "vesica._runs.send": "sender"}


def checked(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """The same function, which checks its arguments first and then gets all of them. A parameter `**options: Unpack[Group]`
    stands for the options of the group, which the signature shows."""
    signature = _signature(function)
    hints = {name: each.annotation for name, each in signature.parameters.items()}

    @functools.wraps(function)
    def called(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{function.__qualname__}() {error}") from None
        role = _ROLES.get(f"{function.__module__}.{function.__name__}")
        given = {**bound.arguments, **bound.kwargs}
        with naming(hints, given):
            check_arguments(hints, given, role)
            bound.apply_defaults()
            return function(*bound.args, **bound.kwargs)

    called.__signature__ = signature  # type: ignore[attr-defined]
    called.__annotations__ = {**hints, "return": signature.return_annotation}
    return called


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """The signature of a function, with a parameter for each of its options."""
    signature = inspect.signature(function)
    *others, last = signature.parameters.values()
    group = re.fullmatch(r"Unpack\[(\w+)\]", str(last.annotation))
    if group is None:
        return signature
    types = getattr(_options, group[1]).__annotations__
    options = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=_options.DEFAULTS.get(name),
            annotation=types[name].__forward_arg__,
        )
        for name in sorted(types, key=_options.ORDER.index)
    ]
    return signature.replace(parameters=[*others, *options])


def renamed(**names: str) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """For a function whose arguments had other names, by these: they are taken for one release, with a warning. A former name
    that another argument has now stands for that beside the current name, and beside a query."""

    def decorated(function: Callable[_P, _T]) -> Callable[_P, _T]:
        current = inspect.signature(function).parameters

        @functools.wraps(function)
        def called(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            for former in names.keys() & kwargs.keys():
                name = names[former]
                if former in current and kwargs.keys() & {name, "query"}:
                    continue
                if name in kwargs:
                    raise TypeError(f"{former} is the former name of {name}: give one of them")
                warn_of_former(f"{former} is called {name}")
                kwargs[name] = kwargs.pop(former)
            return function(*args, **kwargs)

        # Python 3.14 copies what makes the annotations, and not those that were set.
        called.__annotations__ = function.__annotations__
        return called

    return decorated


def lacking(reasons: Mapping[str, str]) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """For a function that lacks options of `receive`: says why, of those that are given."""

    def decorated(function: Callable[_P, _T]) -> Callable[_P, _T]:
        @functools.wraps(function)
        def called(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            given = {name: value for name, value in kwargs.items() if name in reasons}
            # Of whatever type they are.
            with contextlib.suppress(TypeError):
                check_arguments({}, given)
            for name in given:
                raise UsageError(f"{name}: {reasons[name]}")
            return function(*args, **kwargs)

        called.__annotations__ = function.__annotations__
        return called

    return decorated


def warn_of_former(text: str) -> None:
    """Says what a later release does not take."""
    warnings.warn(f"{text}; a later release takes that alone", DeprecationWarning, stacklevel=3)


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
    # The innermost one: some are in groups.
    found: re.Match[str] | None = None
    cause: BaseException | None = error
    while cause and (of_field := re.match(r"failed to extract field \w+\.(\w+)", str(cause))):
        found, cause = of_field, cause.__cause__
    if found is None:
        return None
    name = next((name for name in (found[1], f"{found[1]}_") if name in hints), found[1])
    hint = hints.get(name, "another type")
    kind = type(given.get(name)).__name__
    return TypeError(f"{name}: {_WORDS.get(_kind(hint), hint)}, and not {kind}")


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
    identity, own = given.get("identity"), getattr(given.get("self"), "_link", None)
    link = given.get("link", own)
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
