"""Private keys where something else was meant, and files to write that are there for something else: every argument of every
function of the package, from their signatures."""

from __future__ import annotations

import asyncio
import base64
import datetime
import inspect
import os
import re
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable, Literal

import polars
import pytest

import vesica
import vesica._spark
from vesica._arguments import _USES

ME, OTHER = vesica.Identity.generate(), vesica.Identity.generate()
PEM = vesica.Identity.generate().to_pem()
BODY = PEM.splitlines()[1]
# The base64 of the whole file, as Kubernetes writes a secret, with line ends and as bytes with signs between them.
WHOLE = base64.b64encode(PEM.encode()).decode()
DER = base64.b64decode(BODY)
FORMS = [
    PEM,
    PEM.replace("\n", " "),
    PEM.replace("\n", "\\n"),
    BODY,
    WHOLE,
    base64.encodebytes(PEM.encode()).decode(),
    DER.hex(":"),
    # As Python, lists, dumps and other alphabets have bytes, and from where the key's own algorithm is named.
    str(DER),
    repr(str(DER)),
    str(list(DER)),
    " ".join(f"{byte:03o}" for byte in DER),
    " ".join(f"0x{byte:02x}" for byte in DER),
    base64.b32encode(DER).decode(),
    base64.b64encode(DER[7:]).decode(),
    BODY[:40],
]
# A key itself and a part of it, which could be anything.
KEY = bytes.fromhex("c2578c14f71398995340a11911c70e79c20a66af7c5f143adeac53202a063b23")
PIECES = [base64.b64encode(KEY).decode(), KEY.hex(), base64.b64encode(KEY[4:]).decode()]


# What takes a key or rows of the engine, and no argument of a program.
NOT_ASKED = {"Identity.from_pem", "Result.of"}


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """All that takes arguments. Methods take their object first."""
    for module, prefix in ((vesica, ""), (vesica._spark, "spark.")):
        for name in getattr(module, "__all__", ("receive", "send")):
            thing = getattr(module, name)
            if not inspect.isclass(thing):
                if callable(thing):
                    yield prefix + name, thing
                continue
            if issubclass(thing, (BaseException, dict)):
                continue
            for method, function in inspect.getmembers(thing, callable):
                if not method.startswith("_") and f"{name}.{method}" not in NOT_ASKED:
                    yield f"{name}.{method}", function
    yield "SplitJob", vesica.SplitJob


FUNCTIONS = dict(functions())
TABLE = polars.DataFrame({"id": ["a", "b"]})


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """An object of each class that has methods with arguments."""
    place = tmp_path_factory.mktemp("objects")
    left, right = vesica.pair()

    def cut(role: Literal["sender", "receiver"], link: vesica.Link) -> vesica.SplitJob:
        return vesica.split(TABLE, role=role, job=place / role, on="id", link=link)

    other = threading.Thread(target=cut, args=("sender", right))
    other.start()
    job = cut("receiver", left)
    other.join()
    made = {"set_dir": place / "database", "output": place / "set.vset"}
    vesica.publish(TABLE, on="id", identity=ME, **made)
    words: dict[str, Any] = {"identity": ME, "clients": [OTHER.fingerprint], "quota": 10}
    with vesica.serve(made["set_dir"], "127.0.0.1:0", **words) as server:
        link = vesica.connect(server.address, identity=OTHER, peer=ME.fingerprint)
        with vesica.open_lookup(made["output"], on="id", link=link) as opened:
            yield {"SplitJob": job, "OpenLookup": opened, "Identity": ME}


def bound(name: str, objects: dict[str, Any]) -> Callable[..., Any]:
    """The function, or the method of an object."""
    of, _, method = name.partition(".")
    return getattr(objects[of], method) if of in objects and method else FUNCTIONS[name]


def parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        all_of_them = list(inspect.signature(function).parameters.values())
    except ValueError:
        return []
    return [parameter for parameter in all_of_them if parameter.name != "self"]


def given(parameter: inspect.Parameter) -> Any:
    """Something for an argument that is not the one in question."""
    values = {
        "on": "id",
        "link": vesica.connect("127.0.0.1:1", identity=ME, peer=OTHER.fingerprint),
        "identity": ME,
        "peer": OTHER.fingerprint,
        "role": "receiver",
        "step": "offer",
        "clients": [OTHER.fingerprint],
        "quota": 10,
        "receiver_size": 10,
        "bucket": 0,
        "address": "127.0.0.1:0",
        "above": 5,
        "receiver": {},
        "sender": {},
    }
    return values.get(parameter.name, f"no {parameter.name}")


def needed(function: Callable[..., Any]) -> dict[str, Any]:
    """All arguments without which it cannot be called. No time is spent on telling a peer."""
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    words = {
        parameter.name: given(parameter)
        for parameter in parameters(function)
        if parameter.default is parameter.empty and parameter.kind not in kinds
    }
    if "link" in words:
        words["link"].cancel()
    return words


def call(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    made = function(*args, **kwargs)
    return asyncio.run(made) if inspect.iscoroutine(made) else made


WITH_ARGUMENTS = [name for name, function in FUNCTIONS.items() if parameters(function)]


@pytest.mark.parametrize("name", WITH_ARGUMENTS)
def test_no_key_is_shown_in_the_place_of_an_argument(name: str, objects: dict[str, Any]) -> None:
    function = bound(name, objects)
    for at, parameter in enumerate(parameters(function)):
        words = needed(function)
        for value in (FORMS[at % len(FORMS)], [PEM], Path(PEM), DER):
            if parameter.kind is parameter.VAR_POSITIONAL:
                args, words = [value], {}
            elif parameter.kind is parameter.VAR_KEYWORD:
                args, words = [], {**words, "normalize": {"id": value}}
            else:
                args, words = [], {**words, parameter.name: value}
            with pytest.raises((vesica.UsageError, TypeError)) as error:
                call(function, *args, **words)
            told = "".join(traceback.format_exception(type(error.value), error.value, None))
            told += repr(error.value) + str(getattr(error.value, "hint", ""))
            pieces = {BODY[i : i + 8] for i in range(len(BODY) - 8)}
            assert not [piece for piece in pieces if piece in told], (parameter.name, told)
            assert "BEGIN" not in told, (parameter.name, told)


@pytest.mark.parametrize("piece", PIECES)
def test_no_piece_of_a_key_is_shown(piece: str, tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("id\n1\n")
    link = vesica.connect("127.0.0.1:1", identity=ME, peer=OTHER.fingerprint)
    link.cancel()
    for call in (
        lambda: vesica.Identity.load(piece),
        lambda: vesica.Identity.load(tmp_path / piece),
        lambda: vesica.connect(piece, identity=ME, peer=OTHER.fingerprint),
        lambda: vesica.connect("127.0.0.1:1", identity=ME, peer=piece),
        lambda: vesica.check(piece, on="id"),
        lambda: vesica.check(table, on=piece),
        lambda: vesica.check(table, on="id", normalize={"id": piece}),
        lambda: vesica.receive(table, on="id", link=link, protocol=piece),
        lambda: vesica.receive(table, on="id", link=link, reveal=piece),
    ):
        with pytest.raises((vesica.Error, TypeError, ValueError)) as error:
            call()
        told = "".join(traceback.format_exception(type(error.value), error.value, None))
        told += repr(error.value) + str(getattr(error.value, "hint", ""))
        assert not [at for at in range(len(piece) - 8) if piece[at : at + 8] in told], told


def test_all_functions_are_asked() -> None:
    assert len(WITH_ARGUMENTS) >= 28
    assert sum(len(parameters(FUNCTIONS[name])) for name in WITH_ARGUMENTS) > 440


@pytest.mark.parametrize("name", WITH_ARGUMENTS)
def test_no_engine_speaks_of_another_type(name: str, objects: dict[str, Any]) -> None:
    function = bound(name, objects)
    for parameter in parameters(function):
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        try:
            call(function, **{**needed(function), parameter.name: object()})
        except Exception as error:  # noqa: BLE001
            assert "extract" not in str(error), (parameter.name, error)


DURATIONS = ["wait", "timeout", "deadline"]


def waiting(name: str, time: Any) -> Iterator[Callable[[], Any]]:
    """Calls with a time of this name."""
    link = vesica.connect("127.0.0.1:1", identity=ME, peer=OTHER.fingerprint)
    link.cancel()
    words = {"on": "id", "link": link, name: time}
    yield lambda: vesica.receive(TABLE, **words)
    yield lambda: vesica.lookup(TABLE, set="none.vset", **words)
    yield lambda: vesica.split(TABLE, role="sender", job="none", **words)
    if name != "wait":
        serving = {"identity": ME, "clients": [OTHER.fingerprint], "quota": 1, name: time}
        yield lambda: vesica.serve("none", "127.0.0.1:0", **serving)


@pytest.mark.parametrize("name", DURATIONS)
def test_a_time_of_another_type_is_named(name: str) -> None:
    for given in ([], b"5s") if name == "deadline" else (None, [], b"5s"):
        words = (
            f'{name}: seconds, a text such as "5m" or a timedelta, and not {type(given).__name__}'
        )
        for call in waiting(name, given):
            with pytest.raises(TypeError, match=words):
                call()


@pytest.mark.parametrize("name", DURATIONS)
def test_a_time_has_bounds(name: str) -> None:
    for given in (0, -1.0, float("nan"), "", "5 m", "12d", datetime.timedelta(seconds=-5)):
        for call in waiting(name, given):
            with pytest.raises(vesica.UsageError, match=f"^{name}: give a number of seconds"):
                call()


@pytest.mark.parametrize("wait", [0.25, "0.25", "250ms", datetime.timedelta(milliseconds=250)])
def test_a_time_is_waited_for(wait: Any) -> None:
    begun = time.monotonic()
    link = vesica.connect("127.0.0.1:1", identity=ME, peer=OTHER.fingerprint)
    with pytest.raises(vesica.NetworkError, match=r"0\.25 s"):
        vesica.receive(TABLE, on="id", link=link, wait=wait)
    assert 0.2 < time.monotonic() - begun < 10


def test_defaults_are_those_of_the_signature() -> None:
    options = inspect.signature(vesica.receive).parameters
    assert options["wait"].default == 120 and options["quote"].default == '"'
    assert options["wait"].annotation == "Duration" == vesica.receive.__annotations__["wait"]
    assert set(options) - set(inspect.signature(vesica.send).parameters) == {"take_payload"}
    with pytest.raises(TypeError, match=r"^receive\(\) missing .* 'link'$"):
        vesica.receive(TABLE, on="id")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^SplitJob.collect\(\) got .* 'raws'$"):
        vesica.SplitJob.collect(None, on="id", raws="all")  # type: ignore[arg-type, call-arg]


def test_functions_show_all_of_their_arguments() -> None:
    hiding = {
        name
        for name, function in FUNCTIONS.items()
        if any(each.kind is each.VAR_KEYWORD for each in parameters(function))
    }
    assert hiding == {"rehearse"}
    spark, job = (parameters(FUNCTIONS[name]) for name in ("spark.receive", "split"))
    assert spark == parameters(vesica._spark.send)
    shown = {each.name: (each.default, each.annotation) for each in job}
    assert shown["task_memory"] == ("1G", "int | str")
    assert shown["valid_for"] == (604800, "Duration")
    with pytest.raises(TypeError, match=r"^split\(\) got .* 'raws'$"):
        vesica.split(TABLE, raws="all", **needed(vesica.split))


@pytest.mark.parametrize("name", ["split", "spark.receive", "spark.send"])
def test_a_job_says_why_it_lacks_options_of_a_run(name: str) -> None:
    function = FUNCTIONS[name]
    own = {each.name for each in parameters(function)}
    lacks = {each.name for each in parameters(vesica.receive)} - own - {"table"}
    assert len(lacks) > 12 and "output" in lacks
    for option in lacks:
        with pytest.raises(vesica.UsageError, match=f"^{option}: "):
            function(**needed(function), **{option: None})
        with pytest.raises(vesica.UsageError, match=f"`{option}` has a private key"):
            function(**needed(function), **{option: PEM})


def documented(name: str) -> set[str]:
    """The words for arguments in the docstring of a function, and in those of the functions that it names."""
    found: set[str] = set()
    todo, seen = [name], set()
    while todo:
        seen.add(function := todo.pop())
        text = inspect.getdoc(FUNCTIONS[function]) or ""
        if inspect.isclass(FUNCTIONS[function]):
            text += inspect.getdoc(FUNCTIONS[function].__init__) or ""
        named = set(re.findall(r"`([\w.]+)`", text))
        lines = re.findall(r"^ *((?:\w+, )*\w+)  +\S", text, re.MULTILINE)
        found |= named.union(*(line.split(", ") for line in lines))
        of_class = {f"{function.rpartition('.')[0]}.{each}" for each in named}
        modules = {each.removeprefix("vesica.") for each in named}
        todo += [each for each in (of_class | modules) & FUNCTIONS.keys() - seen]
    return found


@pytest.mark.parametrize("name", WITH_ARGUMENTS)
def test_every_argument_has_words(name: str) -> None:
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    named = [each.name for each in parameters(FUNCTIONS[name]) if each.kind not in kinds]
    missing = set(named) - documented(name)
    assert not missing


def test_nothing_else_is_public() -> None:
    public = {name for name in vars(vesica) if not name.startswith("_")}
    assert public - {"spark"} == {name for name in vesica.__all__ if not name.startswith("_")}


def test_no_key_is_shown_in_other_places(tmp_path: Path) -> None:
    link = vesica.connect("127.0.0.1:1", identity=ME, peer=OTHER.fingerprint)
    link.cancel()
    for call in (
        lambda: ME.save(PEM),
        lambda: vesica.split("t.csv", role="sender", job=tmp_path, on="id", link=link, output=PEM),
        lambda: vesica.receive("t.csv", on="id", link=link, normalize={"id": BODY}),
        lambda: vesica.receive("t.csv", on="id", link=link, normalize={PEM: "text"}),
        lambda: vesica.receive("t.csv", on=["id", PEM, 5], link=link),
        lambda: vesica.receive(["t.csv", PEM], on="id", link=link),
        lambda: vesica.rehearse({"table": PEM, "on": "id"}, {"table": "t.csv", "on": "id"}),
    ):
        with pytest.raises(vesica.UsageError) as error:
            call()
        assert "BEGIN" not in str(error.value) and BODY[:12] not in str(error.value)
        assert "private key" in str(error.value)


@pytest.mark.parametrize("name", WITH_ARGUMENTS)
def test_no_path_of_several_lines_is_shown(name: str, objects: dict[str, Any]) -> None:
    function = bound(name, objects)
    for parameter in parameters(function):
        if _use(parameter) or parameter.name in ("address", "path"):
            words = {**needed(function), parameter.name: "first\nSECRET:7"}
            with pytest.raises(vesica.UsageError) as error:
                call(function, **words)
            assert "SECRET" not in str(error.value) and "first" not in str(error.value)


def _use(parameter: inspect.Parameter) -> tuple[str, bool] | None:
    return _USES.get(str(parameter.annotation).partition(" ")[0])


def test_every_path_says_what_becomes_of_it() -> None:
    found = 0
    for name, function in FUNCTIONS.items():
        for parameter in parameters(function):
            if _use(parameter):
                found += 1
            else:
                words = str(parameter.annotation)
                assert "Path" not in words, f"{name}: say of {parameter.name} what becomes of it"
    assert found > 40


def file_for(use: tuple[str, bool], folder: Path, name: str) -> Path:
    path = folder / name
    if use[0].endswith("directory"):
        path.mkdir(exist_ok=True)
    elif not path.exists():
        path.write_text(f"the {name}\n")
    return path


@pytest.mark.parametrize("name", WITH_ARGUMENTS)
def test_nothing_is_written_in_the_place_of_anything_else(
    name: str, objects: dict[str, Any], tmp_path: Path
) -> None:
    function = bound(name, objects)
    paths = [(parameter, _use(parameter)) for parameter in parameters(function)]
    paths = [(parameter, use) for parameter, use in paths if use]
    writes = [(parameter, use) for parameter, use in paths if use[1]]
    for written, _ in writes:
        for other, use in paths:
            if other.name == written.name:
                continue
            place = file_for(use, tmp_path, other.name)
            link = tmp_path / "link"
            link.unlink(missing_ok=True)
            link.symlink_to(place)
            ways = [place, str(place), link, tmp_path / "x" / ".." / place.name]
            if use[0].endswith("directory"):
                ways.append(place / "new")
            if use[0] == "set":
                ways.append(tmp_path / f"{place.name}.2")
            for way in ways:
                words = {**needed(function), other.name: place, written.name: way}
                refused(function, tmp_path, words)


def refused(function: Callable[..., Any], folder: Path, words: dict[str, Any]) -> None:
    before = {path: path.is_file() and path.read_bytes() for path in folder.rglob("*")}
    with pytest.raises(vesica.UsageError, match=r"are the same|would be|is in the"):
        call(function, **words)
    assert {path: path.is_file() and path.read_bytes() for path in folder.rglob("*")} == before


def test_what_an_object_has_is_not_written_over(objects: dict[str, Any], tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("id\na\n")
    job = Path(objects["SplitJob"].directory)
    for output in (job / "job.json", job / "new.csv"):
        words = {"table": table, "on": "id", "output": output}
        refused(objects["SplitJob"].collect, job.parent, words)
    output = job.parent / "set.vset"
    refused(objects["OpenLookup"].find, job.parent, {"table": table, "output": output})


def test_a_party_of_a_rehearsal_writes_over_nothing_of_the_other(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("id\na\n")
    parties = {"receiver": {"table": TABLE, "on": "id", "output": table}}
    parties["sender"] = {"table": table, "on": "id"}
    refused(vesica.rehearse, tmp_path, parties)


@pytest.mark.parametrize("name", WITH_ARGUMENTS)
def test_nothing_is_read_from_a_directory_of_the_functions_own(
    name: str, objects: dict[str, Any], tmp_path: Path
) -> None:
    function = bound(name, objects)
    paths = [(parameter.name, _use(parameter)) for parameter in parameters(function)]
    own, inside = tmp_path / "own", tmp_path / "own" / "a"
    own.mkdir()
    inside.write_text("id\n1\n")
    for directory, is_own in paths:
        for other, use in paths:
            if is_own and is_own[0].endswith("directory") and use and other != directory:
                refused(function, tmp_path, {**needed(function), other: inside, directory: own})


def test_an_identity_and_a_database_are_files_too(tmp_path: Path) -> None:
    me = vesica.Identity.generate()
    key, table, data = tmp_path / "me.key", tmp_path / "t.csv", tmp_path / "d.sqlite"
    me.save(key)
    kept = key.read_bytes()
    table.write_text("id\n1\n")
    data.write_bytes(b"")
    os.link(key, tmp_path / "hard")
    link = vesica.connect("127.0.0.1:1", identity=me, peer=OTHER.fingerprint)
    link.cancel()
    database = {"query": "SELECT 1 AS id", "database": f"sqlite:{data}"}
    for words in (
        {"table": table, "output": tmp_path / "hard"},
        {"table": table, "work_dir": key},
        {**database, "output": data},
        {**database, "output": f"{data}-wal"},
        {**database, "database": f"sqlite+pysqlite:///{data}", "output": data},
        {**database, "database": f"FILE:{data}?mode=ro", "output": data},
        {"table": table, "output_table": "t", "database": f"sqlite:{key}"},
    ):
        with pytest.raises(vesica.UsageError, match=r"are the same|would be one of the files"):
            vesica.receive(on="id", link=link, **words)  # type: ignore[arg-type]
    with pytest.raises(vesica.UsageError, match="the identity file are the same file"):
        vesica.publish(table, on="id", identity=me, set_dir=tmp_path / "new", output=key)
    assert key.read_bytes() == kept and not (tmp_path / "new").exists()


def test_former_names_are_taken_with_a_warning(tmp_path: Path) -> None:
    frame = polars.DataFrame({"id": [1, 2], "city": ["Bern", "Chur"]})
    receiver = {"table": frame, "on": "id", "take_payload": True}
    with pytest.warns(DeprecationWarning, match="is called payload"):
        received, _ = vesica.rehearse(receiver, {"table": frame, "on": "id", "value": "city"})
    assert received.table.to_polars()["peer_city"].to_list() == ["Bern", "Chur"]
    with pytest.warns(DeprecationWarning, match="value_width is called payload_width"):
        vesica.check(frame, on="id", payload="city", value_width=9)
    with pytest.warns(DeprecationWarning, match="database is called set_dir"):
        vesica.publish(
            frame, on="id", identity=ME, database=tmp_path / "d", output=tmp_path / "s.vset"
        )
    with pytest.raises(TypeError, match="give one of them"):
        vesica.check(frame, on="id", payload="city", payload_width=9, value_width=9)


def test_check_refuses_what_a_run_refuses() -> None:
    frame = polars.DataFrame({"id": [1], "v": ["12,50"]})
    with pytest.raises(vesica.DataError):
        vesica.check(frame, on="id", value="v", reveal="sum")
    with pytest.raises(vesica.UsageError, match="numbers to compute with"):
        vesica.check(frame, on="id", value="v", payload="v")
    with pytest.raises(vesica.DataError):
        vesica.check(polars.DataFrame({"id": [None, ""]}), on="id")
    assert (
        vesica.check(polars.DataFrame({"id": ["", None]}), on="id", allow_empty=True)["items"] == 0
    )
