"""What objects show of themselves: little, and nothing secret."""

from __future__ import annotations

import contextlib
import inspect
import pickle
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars
import pytest

import vesica

MESSAGE = b"SECRET" * 2**20
WORD = "in-a-row-of-the-table"
TABLE = polars.DataFrame({"id": [f"{WORD}-{i}" for i in range(2000)]})
ROWS = array("q", range(2**20))
# What no text shows, but an exception its own words.
MOST = 600


def bodies(identity: vesica.Identity) -> list[str]:
    """The lines of a private key."""
    return identity.to_pem().splitlines()[1:-1]


@contextlib.contextmanager
def samples(place: Path) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """An object of each public class, and the secrets of all."""
    ours, theirs = vesica.Identity.generate(), vesica.Identity.generate()
    left, right = vesica.pair()
    sides = ({"table": TABLE, "on": "id"}, {"table": TABLE, "on": "id"})
    received, _ = vesica.rehearse(*sides)
    report = {"matches": 1, "asked": 1, "left": 1, "release": 1}
    published = {"set_dir": place / "db", "output": place / "set"}
    vesica.publish(TABLE, on="id", identity=ours, **published)
    offer = vesica.exchange(
        "offer",
        table=TABLE,
        on="id",
        role="sender",
        identity=ours,
        peer=theirs.fingerprint,
        state=place / "state",
    )
    assert offer.message is not None
    sender = {"table": TABLE, "role": "sender", "job": place / "sender", "on": "id", "link": right}
    import threading

    other = threading.Thread(target=vesica.split, kwargs=sender)
    other.start()
    job = vesica.split(TABLE, role="receiver", job=place / "receiver", on="id", link=left)
    other.join()
    serving = {"identity": ours, "clients": [theirs.fingerprint], "quota": 10}
    with vesica.serve(place / "db", "127.0.0.1:0", **serving) as server:
        link = vesica.connect(server.address, identity=theirs, peer=ours.fingerprint)
        with vesica.open_lookup(place / "set", on="id", link=link) as opened:
            made: dict[str, Any] = {
                "Check": vesica.check(TABLE, on="id"),
                "Collected": vesica.Collected(ROWS, received.table),
                "Exchanged": vesica.Exchanged(MESSAGE, received),
                "Identity": ours,
                "Link": left,
                "LookupResult": vesica.LookupResult(report, ROWS, ROWS, received.table),
                "OpenLookup": opened,
                "Progress": vesica.Progress("reading", 1, 2, None, None, 0, 0),
                "Result": received,
                "Server": server,
                "SplitJob": job,
                "Table": received.table,
            }
            yield made, [WORD, "SECRET", *bodies(ours), *bodies(theirs)]


def test_no_object_shows_bytes_rows_or_secrets(tmp_path: Path) -> None:
    classes = {name for name in vesica.__all__ if inspect.isclass(getattr(vesica, name))}
    errors = {name for name in classes if issubclass(getattr(vesica, name), Exception)}
    with samples(tmp_path) as (made, secrets):
        # Each class is here, so that a new one is not forgotten.
        assert set(made) == classes - errors
        for name, each in made.items():
            assert type(each) is getattr(vesica, name)
            texts = [repr(each), str(each), f"{each}", f"{[each]}"]
            # A notebook shows the first rows of a table.
            if hasattr(each, "_repr_html_") and name not in ("Result", "LookupResult", "Table"):
                texts.append(each._repr_html_())
            for text in texts:
                # A check is a report, which `vesica check --json` prints too.
                most = 5000 if name == "Check" else MOST
                assert len(text) < most, (name, text[:MOST])
                assert not [s for s in secrets if s in text], (name, text)
        wide = polars.DataFrame({f"a long name of a column, {i}": [1] for i in range(2000)})
        side = {"table": wide, "on": "a long name of a column, 0"}
        received, _ = vesica.rehearse(side, side)
        assert len(repr(received.table)) < MOST and "and 1" in repr(received.table)


def test_a_notebook_shows_the_first_rows_of_a_table() -> None:
    ids = [*range(12)]
    frame = polars.DataFrame(
        {"id": ids, "<b>": ["<i>&", None, "x" * 500, *["y"] * 9], "at": [[1]] * 12}
    )
    received, _ = vesica.rehearse({"table": frame, "on": "id"}, {"table": frame, "on": "id"})
    shown = received.table._repr_html_()
    assert shown.startswith("<table><tr><th>id</th><th>&lt;b&gt;</th><th>at</th></tr>")
    assert "<tr><td>0</td><td>&lt;i&gt;&amp;</td><td>…</td></tr>" in shown
    assert "<td><em>null</em></td>" in shown and f"<td>{'x' * 79}…</td>" in shown
    assert shown.count("<tr>") == 11 and shown.endswith("<small>12 rows</small>")
    assert received._repr_html_().endswith(shown)


def test_what_a_step_has_made_is_told_by_its_size(tmp_path: Path) -> None:
    with samples(tmp_path) as (made, _):
        exchanged = made["Exchanged"]
        assert f"{len(MESSAGE)} bytes" in repr(exchanged) and "<Result " in repr(exchanged)
        assert repr(vesica.Exchanged(None, None)) == "<Exchanged no message, the run goes on>"


def test_a_key_is_neither_copied_nor_pickled(tmp_path: Path) -> None:
    with samples(tmp_path) as (made, _):
        for name in ("Identity", "Link", "Server", "OpenLookup"):
            with pytest.raises(TypeError):
                pickle.dumps(made[name])
