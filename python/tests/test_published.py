"""Published sets: publishing, serving, looking up, and what each refuses."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars
import pytest

import vesica


class Shop:
    """A published set of 300 customers, and who may ask."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.identity, self.client = vesica.Identity.generate(), vesica.Identity.generate()
        self.set = place / "customers.vset"

    def publish(self, table: Any = None, **arguments: Any) -> dict[str, Any]:
        of = {"on": "id", "identity": self.identity, "set_dir": str(self.place / "database")}
        return vesica.publish(table, output=self.set, **{**of, **arguments})

    def serve(
        self, address: str = "127.0.0.1:0", quota: int = 1000, **arguments: Any
    ) -> vesica.Server:
        clients = [self.client.fingerprint]
        database = self.place / "database"
        return vesica.serve(
            database, address, identity=self.identity, clients=clients, quota=quota, **arguments
        )

    def link(self, server: vesica.Server) -> vesica.Link:
        return vesica.connect(server.address, identity=self.client, peer=self.identity.fingerprint)


def customers(first: int, last: int) -> polars.DataFrame:
    ids = range(first, last)
    return polars.DataFrame({"id": ids, "tier": [f"tier {i}" if i % 3 else None for i in ids]})


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(tmp_path)
    published = shop.publish(customers(0, 300), payload="tier", max_keys=400)
    assert (published["keys"], published["max_keys"], published["queries"]) == (300, 400, 2**20)
    assert published["bytes"] == shop.set.stat().st_size
    yield shop


def test_a_query_is_published(shop: Shop, tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute("create table customers (id integer)")
        database.executemany("insert into customers values (?)", [(i,) for i in range(7)])
    asked: dict[str, Any] = {"query": "select id from customers", "database": f"sqlite:{path}"}
    less = ("room for 400 keys before, and has room for 7 now", "columns tier before, and has none")
    room, columns = (pytest.warns(vesica.RunWarning, match=text) for text in less)
    with room, columns:
        assert shop.publish(**asked, rotate=True)["keys"] == 7
    with pytest.raises(vesica.UsageError, match="either a table or a query"):
        shop.publish(customers(0, 3), **asked, rotate=True)
    with pytest.raises(vesica.UsageError, match="give a table to publish, or what to add"):
        shop.publish(add=customers(0, 3), **asked)
    with pytest.raises(vesica.UsageError, match="database goes with a query"):
        shop.publish(customers(0, 3), database=asked["database"], rotate=True)
    with pytest.raises(TypeError, match="set_dir"):
        vesica.publish(on="id", identity=shop.identity, output=shop.set, **asked)


def test_a_query_is_looked_up_and_rows_go_to_a_table(shop: Shop) -> None:
    path = shop.place / "charity.db"
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute("create table donors as select 7 as id union select 9 union select 1007")
    asked: dict[str, Any] = {"query": "select id from donors", "database": f"sqlite:{path}"}
    to: dict[str, Any] = {"output_table": "shared", "output_table_mode": "replace"}
    with shop.serve() as server:
        link = shop.link(server)
        found = vesica.lookup(on="id", set=shop.set, link=link, **asked, **to)
        assert found.matches == 2
        with pytest.raises(vesica.UsageError, match="written to `output`"):
            _ = found.table
        with contextlib.closing(sqlite3.connect(path)) as database:
            rows = database.execute("select * from shared order by id").fetchall()
        assert rows == [(7, "tier 7"), (9, None)]
        with vesica.open_lookup(shop.set, on="id", link=link) as opened:
            assert list(opened.find(**asked).rows) == [0, 1]
            with pytest.raises(vesica.UsageError, match="either output or output_table"):
                opened.find(output="x.csv", **asked, **to)


def _until(server: vesica.Server, questions: int, connected: int) -> None:
    """Waits until so many questions were asked, and so many clients are connected."""
    end = time.monotonic() + 30
    while (server.figures["questions"], server.figures["connected"]) != (questions, connected):
        assert time.monotonic() < end, server.figures
        time.sleep(0.05)


_LOOK_UP = """
import sys, vesica
table, key, set, address, peer = sys.argv[1:]
link = vesica.connect(address, identity=vesica.Identity.load(key), peer=peer)
vesica.lookup(table, on="id", set=set, link=link, output="-")
"""


def test_a_look_up_leaves_the_server_before_it_writes_rows(shop: Shop) -> None:
    key, table = shop.place / "client.key", shop.place / "ids.csv"
    shop.client.save(key)
    table.write_text("id,text\n" + "".join(f"{i},{'x' * 8192}\n" for i in range(300)))
    with shop.serve() as server:
        words = [table, key, shop.set, server.address, shop.identity.fingerprint]
        line = [sys.executable, "-c", _LOOK_UP, *map(str, words)]
        with subprocess.Popen(line, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            # Nobody takes its rows, which are more than a pipe holds.
            _until(server, questions=1, connected=0)
            assert process.poll() is None
            rows = process.stdout.read()
        assert process.returncode == 0 and len(rows) > 1 << 20
        # A set that stays open stays connected.
        with vesica.open_lookup(shop.set, on="id", link=shop.link(server)) as opened:
            assert opened.find(polars.DataFrame({"id": [1, 2]})).matches == 2
            _until(server, questions=2, connected=1)
        _until(server, questions=2, connected=0)


def test_a_server_is_held_for_so_long(shop: Shop) -> None:
    arguments: dict[str, Any] = {"set": shop.set, "on": "id"}
    with shop.serve(deadline=0.5) as server:
        link = shop.link(server)
        with vesica.open_lookup(link=link, deadline=60, **arguments) as opened:
            assert opened.has(1)
            _until(server, questions=1, connected=0)
            # It comes again.
            assert opened.has(2)
        with pytest.raises(vesica.UsageError, match="deadline"):
            vesica.lookup(customers(0, 3), link=link, deadline=-1, **arguments)


def test_a_frame_is_looked_up_with_the_publishers_columns(shop: Shop) -> None:
    table = polars.DataFrame({"id": [7, 1007, 299, None, 9, 7], "age": [1, 2, 3, 4, 5, 6]})
    arguments: dict[str, Any] = {"on": "id", "set": shop.set, "state": shop.place / "state"}
    with shop.serve() as server:
        with pytest.warns(vesica.RunWarning, match="1 of 6 rows have no usable key") as warned:
            found = vesica.lookup(table, link=shop.link(server), **arguments)
        assert warned[0].filename == __file__
        assert (found.matches, list(found.rows)) == (3, [0, 2, 4, 5])
        assert found.table.to_polars().rows() == [
            (7, 1, "tier 7"),
            (299, 3, "tier 299"),
            (9, 5, None),
            (7, 6, "tier 7"),
        ]
        assert (found.report["asked"], found.report["left"]) == (4, 996)
        # The same again, and the rest to a file.
        table.drop_nulls().write_csv(shop.place / "mine.csv")
        output = shop.place / "rest.csv"
        link, mine = shop.link(server), shop.place / "mine.csv"
        with pytest.warns(vesica.RunWarning, match="all answers are here"):
            rest = vesica.lookup(mine, link=link, rows="rest", output=output, **arguments)
        assert rest.report["asked"] == 0 and rest.report["left"] is None
        assert output.read_text() == "id,age,peer_tier\n1007,2,\n"
        with pytest.raises(vesica.UsageError, match="written to `output`"):
            _ = rest.table
        figures = server.figures
    assert set(figures) >= {"connected", "answered"}
    with shop.serve() as server:
        assert server.figures["answered"] == 4


def test_what_changes_is_a_release(shop: Shop) -> None:
    updated = shop.publish(add=customers(300, 310), remove=polars.DataFrame({"id": [5, 4000]}))
    assert {name: updated[name] for name in ("new", "changed", "removed", "release", "keys")} == {
        "new": 10,
        "changed": 0,
        "removed": 1,
        "release": 2,
        "keys": 309,
    }
    second = Path(updated["file"])
    with shop.serve() as server:
        link = shop.link(server)
        table = polars.DataFrame({"id": [4, 5, 305]})
        found = vesica.lookup(table, on="id", set=shop.set, link=link)
        assert list(found.rows) == [0, 2]
        second.unlink()
        with pytest.warns(vesica.RunWarning, match="the publisher has release 2"):
            found = vesica.lookup(table, on="id", set=shop.set, link=link)
        assert list(found.rows) == [0, 1]
    nothing = vesica.Identity.generate()
    with pytest.raises(vesica.DataError, match="of another identity"):
        shop.publish(customers(0, 5), rotate=True, identity=nothing)


def test_the_files_of_a_set_are_fetched(shop: Shop) -> None:
    elsewhere = shop.place / "fetched.vset"
    with shop.serve(set=shop.set) as server:
        of: dict[str, Any] = {"on": "id", "link": shop.link(server), "fetch": True}
        table = polars.DataFrame({"id": [7, 305]})
        found = vesica.lookup(table, set=elsewhere, **of)
        assert (list(found.rows), found.report["fetched"]) == ([0], shop.set.stat().st_size)
        shop.publish(add=customers(300, 310))
        with vesica.open_lookup(elsewhere, **of) as opened:
            assert opened.get(305) == {"tier": "tier 305"}
    assert server.figures["file_bytes"] > shop.set.stat().st_size
    with shop.serve() as server, pytest.raises(vesica.ContractError, match="files of the set"):
        vesica.lookup(table, on="id", set=elsewhere, link=shop.link(server), fetch=True)


def test_a_set_stays_open_for_single_keys(shop: Shop) -> None:
    with shop.serve() as server:
        opened = vesica.open_lookup(shop.set, on="id", link=shop.link(server))
        assert opened.get(7) == {"tier": "tier 7"} and opened.get(9) == {"tier": None}
        assert opened.get(300) is None and opened.has(9) and not opened.has(-1)
        assert opened.get("7") == {"tier": "tier 7"}
        found = opened.find(polars.DataFrame({"id": [7, 8, 300]}))
        assert (list(found.rows), found.report["asked"]) == ([0, 1], 1)
        assert server.figures["connections"] <= 1
        address = server.address
    # The server has ended: what is known is known, and what is not is asked when it is there again.
    assert opened.has(7)
    with shop.serve(address):
        assert opened.has(10)
    for wrong in ((), (1, 2)):
        with pytest.raises(vesica.UsageError, match=r"columns of the key: 1; values: [02]"):
            opened.get(*wrong)
    with pytest.raises(vesica.DataError, match="the key is blank"):
        opened.get("")
    for other in (True, 1.5, None, 2**70):
        with pytest.raises(TypeError):
            opened.get(other)  # type: ignore[arg-type]
    opened.close()
    with pytest.raises(vesica.UsageError, match="closed"):
        opened.get(7)


def test_keys_of_several_columns_and_profiles(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    table = polars.DataFrame({"mail": ["Ann@x.org", "bob@x.org"], "born": ["1990", "1991"]})
    shop.publish(table, on=["mail", "born"], normalize={"mail": "email"})
    with shop.serve() as server:
        link = shop.link(server)
        of = {"on": ["m", "b"], "normalize": {"m": "email"}, "link": link}
        with vesica.open_lookup(shop.set, **of) as opened:
            assert opened.get("ann@X.org", "1990") == {}
            assert not opened.has("ann@x.org", "1991")
            with pytest.raises(vesica.DataError):
                opened.has("no address", "1991")
        with pytest.raises(vesica.ContractError, match="normalised as email/2, exact/2") as error:
            vesica.open_lookup(shop.set, on=["m", "b"], link=link)
        made = 'read the table as the set was made: normalize={COL: "email"} for column "m"'
        assert error.value.hint == made


def test_what_cannot_be_is_refused(shop: Shop) -> None:
    table = polars.DataFrame({"id": [1, 2, 3]})
    with pytest.raises(vesica.UsageError, match="give a table to publish"):
        shop.publish()
    with pytest.raises(vesica.UsageError, match="give a table to publish"):
        shop.publish(table, add=table)
    with pytest.raises(vesica.UsageError, match="queries: is declared when"):
        shop.publish(add=table, queries=5)
    with pytest.raises(vesica.UsageError, match="holds a published set already"):
        shop.publish(table)
    with pytest.raises(vesica.UsageError, match="more than the 400"):
        shop.publish(add=customers(1000, 1200).drop("tier").with_columns(tier=polars.lit("x")))
    with pytest.raises(vesica.UsageError, match="clients"):
        vesica.serve(
            shop.place / "database",
            "127.0.0.1:0",
            identity=shop.identity,
            clients=["vs1:x"],
            quota=1,
        )
    with pytest.raises(TypeError):
        vesica.serve(
            shop.place / "database", "127.0.0.1:0", identity=shop.identity, clients="vs1:x", quota=1
        )
    with pytest.raises(vesica.UsageError, match="has clients"):
        vesica.serve(
            shop.place / "database", "127.0.0.1:0", identity=shop.identity, clients=[], quota=1
        )
    listening = vesica.listen("127.0.0.1:0", identity=shop.client, peer=shop.identity.fingerprint)
    with listening, pytest.raises(vesica.UsageError, match="a link that connects"):
        vesica.open_lookup(shop.set, on="id", link=listening)
    with shop.serve(quota=2) as server:
        with pytest.raises(vesica.ResourceError, match="3 keys would have to be asked about"):
            vesica.lookup(table, on="id", set=shop.set, link=shop.link(server))
        with pytest.raises(vesica.UsageError, match="in use"):
            shop.serve()
        stranger = vesica.connect(
            server.address, identity=vesica.Identity.generate(), peer=shop.identity.fingerprint
        )
        with pytest.raises(vesica.ContractError):
            vesica.lookup(table, on="id", set=shop.set, link=stranger)
        server.stop()
        server.wait()
    rotated = shop.place / "old.vset"
    rotated.write_bytes(shop.set.read_bytes())
    shop.publish(customers(0, 3), rotate=True, payload="tier", max_keys=400)
    with shop.serve() as server, pytest.raises(vesica.ContractError, match="published key"):
        vesica.lookup(table, on="id", set=rotated, link=shop.link(server))
