"""Private keys where something else was meant, and files to write that are there for something else: every argument of every
function of the package, from their signatures."""

from __future__ import annotations

import inspect
import os
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Callable

import pytest

import vesica
from vesica._arguments import _USES

ME, OTHER = vesica.Identity.generate(), vesica.Identity.generate()
PEM = vesica.Identity.generate().to_pem()
BODY = PEM.splitlines()[1]
FORMS = [PEM, PEM.replace("\n", " "), PEM.replace("\n", "\\n"), BODY]


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """All that takes arguments, but for what makes an identity of a key."""
    for name in vesica.__all__:
        thing = getattr(vesica, name)
        if inspect.isclass(thing):
            if issubclass(thing, (BaseException, dict)):
                continue
            for method, function in inspect.getmembers(thing, callable):
                if not method.startswith("_") and method != "from_pem":
                    yield f"{name}.{method}", function
        elif callable(thing):
            yield name, thing
    yield "SplitJob", vesica.SplitJob


FUNCTIONS = dict(functions())


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
        "count": 5,
    }
    return values.get(parameter.name, f"no {parameter.name}")


def called_with(function: Callable[..., Any], name: str, value: Any) -> Any:
    """Calls it with all that it needs, and this."""
    words: dict[str, Any] = {}
    for parameter in parameters(function):
        if parameter.name == name:
            words[name] = value
        elif parameter.default is parameter.empty and parameter.kind not in (
            parameter.VAR_POSITIONAL,
            parameter.VAR_KEYWORD,
        ):
            words[parameter.name] = given(parameter)
    if "link" in words and name != "link":
        words["link"].cancel()  # No time is spent on telling nobody.
    return function(**words)


CHECKED = (
    "receive send check exchange publish serve open_lookup lookup plan split connect listen "
    "SplitJob Identity.load"
).split()


@pytest.mark.parametrize("name", CHECKED)
def test_no_key_is_shown_in_the_place_of_an_argument(name: str) -> None:
    function = FUNCTIONS[name]
    for at, parameter in enumerate(parameters(function)):
        if parameter.kind is parameter.VAR_KEYWORD or parameter.name == "message":
            continue
        for value in (FORMS[at % len(FORMS)], [PEM], Path(PEM)):
            with pytest.raises((vesica.UsageError, TypeError)) as error:
                called_with(function, parameter.name, value)
            told = "".join(traceback.format_exception(type(error.value), error.value, None))
            told += repr(error.value) + str(getattr(error.value, "hint", ""))
            pieces = {BODY[i : i + 8] for i in range(len(BODY) - 8)}
            assert not [piece for piece in pieces if piece in told], (parameter.name, told)
            assert "BEGIN" not in told, (parameter.name, told)


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


def test_no_path_of_several_lines_is_shown() -> None:
    for name in CHECKED:
        for parameter in parameters(FUNCTIONS[name]):
            if _use(parameter) or parameter.name in ("address", "path"):
                with pytest.raises(vesica.UsageError) as error:
                    called_with(FUNCTIONS[name], parameter.name, "first\nSECRET:7")
                assert "SECRET" not in str(error.value) and "first" not in str(error.value)


def _use(parameter: inspect.Parameter) -> tuple[str, bool] | None:
    return _USES.get(str(parameter.annotation).partition(" ")[0])


def test_every_path_says_what_becomes_of_it() -> None:
    found = 0
    for name, function in FUNCTIONS.items():
        for parameter in parameters(function):
            words = str(parameter.annotation)
            if _use(parameter):
                found += 1
                assert name in CHECKED or name in ("areceive", "asend") or "." in name, name
            else:
                assert "Path" not in words, f"{name}: say of {parameter.name} what becomes of it"
    assert found > 20


def file_for(use: tuple[str, bool], folder: Path, name: str) -> Path:
    path = folder / name
    if use[0] == "directory":
        path.mkdir(exist_ok=True)
    elif not path.exists():
        path.write_text(f"the {name}\n")
    return path


@pytest.mark.parametrize("name", [name for name in CHECKED if name not in ("connect", "listen")])
def test_nothing_is_written_in_the_place_of_anything_else(name: str, tmp_path: Path) -> None:
    function = FUNCTIONS[name]
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
            if use[0] == "directory":
                ways.append(place / "new")
            if use[0] == "set":
                ways.append(tmp_path / f"{place.name}.2")
            for way in ways:
                words = {other.name: place, written.name: way}
                for parameter in parameters(function):
                    if parameter.default is parameter.empty and parameter.kind in (
                        parameter.KEYWORD_ONLY,
                        parameter.POSITIONAL_OR_KEYWORD,
                    ):
                        words.setdefault(parameter.name, given(parameter))
                if "link" in words:
                    words["link"].cancel()
                before = sorted(tmp_path.rglob("*"))
                with pytest.raises(vesica.UsageError, match=r"are the same|would be"):
                    function(**words)
                assert sorted(tmp_path.rglob("*")) == before, words


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
        {"table": table, "output_table": "t", "database": f"sqlite:{key}"},
    ):
        with pytest.raises(vesica.UsageError, match=r"are the same|would be one of the files"):
            vesica.receive(on="id", link=link, **words)  # type: ignore[arg-type]
    with pytest.raises(vesica.UsageError, match="the identity file are the same file"):
        vesica.publish(table, on="id", identity=me, database=tmp_path / "new", output=key)
    assert key.read_bytes() == kept and not (tmp_path / "new").exists()
