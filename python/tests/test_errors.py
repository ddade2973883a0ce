"""Each failure is the exception whose code the command exits with."""

from __future__ import annotations

import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import polars
import pytest

import vesica

ME, PEER = vesica.Identity.generate(), vesica.Identity.generate().fingerprint
SUM = {"reveal": "sum", "security": "semi-honest"}
TABLE = polars.DataFrame({"id": ["a", "b"], "n": [1.5, 2.5]})
NEXT = {
    vesica.UsageError: 2,
    vesica.DataError: 3,
    vesica.StoppedError: 130,
    vesica.NetworkError: 4,
    vesica.PeerError: 5,
    vesica.ContractError: 6,
    vesica.ResourceError: 7,
}


def test_classes_mirror_exit_codes() -> None:
    assert {each: each.exit_code for each in NEXT} == NEXT
    assert all(issubclass(each, vesica.Error) for each in NEXT)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"reveal": "everything"}, "reveal: there are matches, size"),
        ({"protocol": "nonsense"}, "no protocol is called"),
        ({"protocol": "dh"}, "dh finds the matches with semi-honest security"),
        ({"security": "none"}, "security: there are"),
        ({"normalize": {"x": "email"}}, 'column "x" is normalised but is not part of the key'),
        ({"normalize": {"id": "nonsense"}}, "nonsense"),
        ({"memory": "lots"}, "memory: a size is a number of bytes"),
        ({"min_size": -1}, "min_size: a size is a number"),
        ({"optimize": "neither"}, "optimize: there are time, traffic, auto"),
        ({"bandwidth": "fast"}, "bandwidth: a rate is from 1kbps to 1000gbps"),
        ({"max_peer_items": 2**36}, "max_peer_items: the most keys of a peer are"),
        ({"lambda_": 20}, "lambda is 20 bits"),
        ({"threads": 0}, "threads: at least one"),
        ({"wait": 0}, "wait: give a number of seconds"),
        ({"timeout": float("nan")}, "timeout: give a number"),
        (SUM | {"value": "n", "value_scale": 19}, "19 digits after the decimal point"),
        (SUM | {"value": "n", "value_bound": 0}, "a bound of 0 is impossible"),
        ({"value": "n"}, "are for numbers to compute with"),
        ({"value_repeated": "first"}, "value_repeated: there are"),
        ({"offline": "ot"}, "protocol auto takes no tuples"),
        ({"reveal": "size", "output": "x.csv", "security": "semi-honest"}, "no rows or shares"),
        ({"on": []}, "key column"),
        ({"table": "t.csv", "delimiter": "ab"}, "a delimiter is"),
        ({"table": "t.csv", "quote": "ab"}, "quote: give one ASCII character"),
        ({"table": "t.csv", "escape": "é"}, "escape: give one ASCII character"),
        ({"table": "t.csv", "encoding": "klingon"}, "klingon"),
        ({"encoding": "latin1"}, "are for tables in files"),
        ({"header": False}, "are for tables in files"),
        ({"table": None}, "give a table or a query"),
        ({"query": "SELECT 1"}, "give either a table or a query"),
        ({"database": "sqlite:x.db"}, "database goes with a query"),
        ({"driver": "sqlite"}, "driver goes with a query"),
        ({"table": None, "query": "SELECT 1"}, "a query needs a database"),
        (
            {"table": None, "query": "SELECT 1", "database": "x:y", "database_file": "z"},
            "give either database or database_file",
        ),
        ({"table": None, "query": "SELECT 1", "database": "x://y"}, "which driver to take"),
        (
            {"table": None, "query": "SELECT 1", "database": "x://y", "driver": "nobody"},
            'driver "nobody" cannot be loaded',
        ),
        ({"output_table": "t"}, "and so does a table for the result"),
        ({"output_table": "t", "output": "o.csv", "database": "sqlite:x"}, "give either output"),
        ({"output_table": "a.b.c", "database": "sqlite:x"}, "is not NAME or SCHEMA.NAME"),
        (
            {"output_table": "t", "output_table_mode": "drop", "database": "sqlite:x"},
            "output_table_mode: what becomes of a table that is there is create, append or replace",
        ),
        (
            {
                "output_table": "t",
                "database": "sqlite:x",
                "reveal": "shares",
                "security": "semi-honest",
            },
            "shares go to a file",
        ),
        ({"table": [], "on": "id"}, "there is no input"),
        ({"value_scale": 2}, "are for numbers to compute with"),
        ({"take_payload": True, "rows": "rest"}, "take_payload is for rows that match"),
        ({"rows": "some"}, "rows are matching, rest or all"),
    ],
)
def test_usage(arguments: dict[str, Any], line: str) -> None:
    """Whatever is wrong with the arguments is found before the peer is met."""
    link = vesica.connect("127.0.0.1:1", identity=ME, peer=PEER)
    link.cancel()  # No time is spent on telling nobody.
    with pytest.raises(vesica.UsageError) as error:
        vesica.receive(**({"table": TABLE, "on": "id", "link": link} | arguments))
    assert line in str(error.value) and "\n" not in str(error.value)


def test_a_sender_takes_no_columns() -> None:
    """The one option of `receive` that is not for `send`, and one that there is not."""
    link = vesica.connect("127.0.0.1:1", identity=ME, peer=PEER)
    link.cancel()
    with pytest.raises(TypeError, match=r"^send\(\) got .* 'take_payload'$"):
        vesica.send(TABLE, on="id", link=link, take_payload=True)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"^send\(\) got .* 'takes_values'$"):
        vesica.send(TABLE, on="id", link=link, takes_values=True)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ({"protocol": "dh"}, 'security="semi-honest" on both sides accepts that'),
        (SUM | {"value": "n", "value_scale": 19}, "`value_scale` is from 0 to 18"),
        (
            SUM | {"value": "n", "value_bound": 0},
            "`value_bound` is a number above 0 and up to 9223372036854775807",
        ),
        ({"offline": "ot"}, '`offline` goes with protocol="ole"'),
        (
            {"table": None, "query": "SELECT 1"},
            "name it with `database` or `database_file`",
        ),
        (
            {"table": None, "query": "SELECT 1", "database": "x://y"},
            'name one with driver="NAME" or driver="PATH"',
        ),
    ],
)
def test_hints_name_keywords(arguments: dict[str, Any], hint: str) -> None:
    link = vesica.connect("127.0.0.1:1", identity=ME, peer=PEER)
    link.cancel()  # No time is spent on telling nobody.
    with pytest.raises(vesica.UsageError) as error:
        vesica.receive(**({"table": TABLE, "on": "id", "link": link} | arguments))
    assert error.value.hint is not None and error.value.hint.startswith(hint)


def test_no_output_takes_the_place_of_what_a_run_reads(tmp_path: Path) -> None:
    secret, table = tmp_path / "me.pem", tmp_path / "t.csv"
    table.write_text("id\na\n")
    me = vesica.Identity.generate()
    link = vesica.connect("127.0.0.1:1", identity=me, peer=PEER)
    me.save(secret)
    kept = secret.read_bytes()
    for paths, output, line in (
        (str(table), secret, "`output` and the identity file are the same file"),
        (str(tmp_path), tmp_path / "u.csv", "`output` would be one of the files of `table`"),
        (
            str(tmp_path / "*.csv"),
            tmp_path / "u.csv",
            "`output` would be one of the files of `table`",
        ),
    ):
        with pytest.raises(vesica.UsageError, match=line):
            vesica.receive(paths, on="id", link=link, output=output)
    assert secret.read_bytes() == kept


def test_data() -> None:
    left, _ = vesica.pair()
    with pytest.raises(vesica.DataError, match='no column is called "ids"') as error:
        vesica.receive(TABLE, on="ids", link=left)
    assert error.value.hint == 'did you mean "id"?'
    assert getattr(error.value, "__notes__", ["hint: " + error.value.hint]) == [
        'hint: did you mean "id"?'
    ]
    with pytest.raises(vesica.DataError, match='column "n" has no exact text') as error:
        vesica.receive(TABLE, on="n", link=left)
    assert 'take normalize={COL: "integer"} if' in error.value.hint
    with pytest.raises(vesica.DataError, match="no row has a usable key") as error:
        vesica.receive(polars.DataFrame({"id": [None, ""]}), on="id", link=left)
    assert "`vesica.check`" in error.value.hint and "`allow_empty`" in error.value.hint
    with pytest.raises(vesica.DataError, match="no such file"):
        vesica.receive(Path("nowhere.csv"), on="id", link=left)


def test_the_peer_hears_of_a_table_that_cannot_be_used(background: Any) -> None:
    """The table is found out once the peer is there: its last row is a key without a row of its type."""
    left, right = vesica.pair()
    ours = polars.DataFrame({"id": ["a"] * 200_000, "n": ["1"] * 199_999 + ["x"]})
    terms = {"reveal": "sum", "security": "semi-honest"}
    sender = background(vesica.send, TABLE, on="id", link=right, **terms)
    with pytest.raises(vesica.DataError, match='row 200000: the value in column "n"'):
        vesica.receive(ours, on="id", value="n", link=left, **terms)
    # The sender would wait for another attempt, but a warning is an error in these tests, and ends it.
    with pytest.raises(vesica.RunWarning, match="the peer reports a problem with its table"):
        sender()


def test_the_peer_hears_of_options_that_cannot_be(background: Any) -> None:
    left, right = vesica.pair()
    sender = background(vesica.send, TABLE, on="id", link=right)
    with pytest.raises(vesica.UsageError, match="lambda"):
        vesica.receive(TABLE, on="id", link=left, lambda_=39)
    with pytest.raises(vesica.RunWarning, match="the peer reports a problem with its options"):
        sender()


class Lacking:
    """A table that cannot be read, for this reason."""

    def __init__(self, why: Exception) -> None:
        self.why = why

    def __arrow_c_stream__(self, _: object = None) -> object:
        raise self.why


class LazyFrame(Lacking):
    """One that is computed when the run begins."""

    __arrow_c_stream__ = None  # type: ignore[assignment]
    __module__ = "polars.lazyframe.frame"

    def __getattribute__(self, name: str) -> Any:
        if name == "__arrow_c_stream__":
            raise AttributeError(name)
        return super().__getattribute__(name)

    def collect(self) -> Any:
        raise self.why


MACHINE, TABLE_OF_PEER = "the resources of its machine", "its table"
REASONS = [
    (ModuleNotFoundError("No module named 'pyarrow'"), MACHINE),
    (ImportError("libparquet.so: cannot open shared object file"), MACHINE),
    (MemoryError("out of memory"), MACHINE),
    (vesica.ResourceError("no threads"), MACHINE),
    (ValueError("a column is not finished"), TABLE_OF_PEER),
    (vesica.DataError("it is damaged"), TABLE_OF_PEER),
    (TypeError("this is no table"), "its options"),
]


@pytest.mark.parametrize("kind", [Lacking, LazyFrame])
@pytest.mark.parametrize(("why", "words"), REASONS, ids=lambda each: repr(each)[:20])
def test_the_peer_hears_whose_fault_a_table_is(
    why: Exception, words: str, kind: type[Lacking], background: Any
) -> None:
    left, right = vesica.pair()
    sender = background(vesica.send, TABLE, on="id", link=right)
    with pytest.raises(type(why), match=str(why)):
        vesica.receive(kind(why), on="id", link=left)
    with pytest.raises(vesica.RunWarning, match=f"the peer reports a problem with {words}"):
        sender()


def test_the_drivers_of_a_job_hear_whose_fault_a_table_is(background: Any, tmp_path: Path) -> None:
    for number, kind in enumerate([Lacking, LazyFrame]):
        left, right = vesica.pair()
        job = {"role": "sender", "job": tmp_path / f"sender-{number}", "on": "id", "link": right}
        sender = background(vesica.split, TABLE, **job)
        job = {"role": "receiver", "job": tmp_path / f"ours-{number}", "on": "id", "link": left}
        with pytest.raises(ModuleNotFoundError):
            vesica.split(kind(ModuleNotFoundError("pyarrow")), **job)
        with pytest.raises(vesica.RunWarning, match=f"a problem with {MACHINE}"):
            sender()


@pytest.mark.parametrize("raised", [RuntimeError("enough"), KeyboardInterrupt()])
def test_the_peer_hears_who_stopped_a_run(raised: BaseException, background: Any) -> None:
    """A function of the program that fails is no user."""

    def progress(event: vesica.Progress) -> None:
        # Until both have the contract, the peer waits for another try.
        if event.stage in ("encode", "expand", "masks"):
            raise raised

    # A run that is not over before its function is called.
    table = polars.DataFrame({"id": range(200_000)})
    left, right = vesica.pair()
    sender = background(vesica.send, table, on="id", link=right)
    with pytest.raises(type(raised)):
        vesica.receive(table, on="id", link=left, progress=progress)
    is_user = isinstance(raised, KeyboardInterrupt)
    words = "interrupted by the user" if is_user else "stopped by its program"
    with pytest.raises(vesica.NetworkError, match=f"the peer gave up: {words}"):
        sender()


def test_the_peer_of_a_cancelled_link_hears_of_no_user(background: Any) -> None:
    left, right = vesica.pair()
    sender = background(vesica.send, TABLE, on="id", link=right)

    def progress(event: vesica.Progress) -> None:
        if event.stage not in ("reading", "meeting"):
            left.cancel()
            time.sleep(0.3)

    with pytest.raises(vesica.StoppedError, match="stopped by the program"):
        vesica.receive(TABLE, on="id", link=left, progress=progress)
    with pytest.raises(vesica.NetworkError, match="the peer gave up: stopped by its program"):
        sender()


def test_network() -> None:
    left, right = vesica.pair()
    began = time.monotonic()
    with pytest.raises(vesica.NetworkError, match="the peer did not connect"):
        vesica.receive(TABLE, on="id", link=left, wait=0.3)
    with pytest.raises(vesica.NetworkError, match="nobody listens"):
        vesica.send(TABLE, on="id", link=right, wait=0.3)
    assert time.monotonic() - began < 5
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = "{}:{}".format(*taken.getsockname())
        with pytest.raises(vesica.NetworkError, match="the port is taken"):
            vesica.listen(address, identity=ME, peer=PEER)


@pytest.mark.parametrize("make", [vesica.listen, vesica.connect])
def test_links_that_cannot_be(make: Any) -> None:
    with pytest.raises(vesica.UsageError, match="is that of this side's own identity"):
        make("127.0.0.1:0", identity=ME, peer=ME.fingerprint)
    for address in ("127.0.0.1", ":7340", "::1:80", "host:port"):
        with pytest.raises(vesica.UsageError, match="an address is HOST:PORT"):
            make(address, identity=ME, peer=PEER)


def test_what_is_in_the_place_of_something_else_is_named(tmp_path: Path) -> None:
    table, key = tmp_path / "table.csv", tmp_path / "me.key"
    other = tmp_path / "other.csv"
    for each in (table, other):
        each.write_text("id\n1\n")
    ME.save(key)
    link = vesica.connect("127.0.0.1:1", identity=ME, peer=PEER)
    link.cancel()
    of_set: dict[str, Any] = {"on": "id", "link": link, "set": tmp_path / "none.vset"}
    calls: list[tuple[Any, str]] = [
        (lambda: vesica.Identity.load(table), "this is a text file, and not an identity"),
        (lambda: vesica.Identity.load(PEER), "is a fingerprint, and not a file"),
        (
            lambda: vesica.connect(PEER, identity=ME, peer=PEER),
            "this is a fingerprint, and an addr",
        ),
        (lambda: vesica.connect("127.0.0.1:1", identity=ME, peer=str(key)), "a fingerprint begins"),
        (
            lambda: vesica.lookup(table, **{**of_set, "set": tmp_path}),
            "`set` .* is a directory, and",
        ),
        (
            lambda: vesica.lookup(table, state=other, **of_set),
            "`state` .*other.csv is a text file, and not a dir",
        ),
    ]
    for call, words in calls:
        with pytest.raises(vesica.UsageError, match=words):
            call()
    with pytest.raises(vesica.DataError, match=r"none\.vset is not there"):
        vesica.lookup(table, **of_set)
    with pytest.raises(vesica.UsageError) as error:
        vesica.connect("127.0.0.1:1", identity=ME, peer=str(key))
    assert str(error.value.hint).startswith("this is an identity, and not a fingerprint: copy it")
    with pytest.raises(vesica.DataError, match="this is an identity, and not a table"):
        vesica.check(key, on="id")


def test_a_cancelled_link(background: Any) -> None:
    left, _ = vesica.pair()
    receiver = background(vesica.receive, TABLE, on="id", link=left)
    time.sleep(0.3)
    began = time.monotonic()
    left.cancel()
    with pytest.raises(vesica.StoppedError, match="stopped by the program"):
        receiver()
    assert time.monotonic() - began < 1
    with pytest.raises(vesica.StoppedError, match="stopped by the program"):
        vesica.receive(TABLE, on="id", link=left)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(left.address.rsplit(":", 1))


def test_a_wrong_fingerprint(background: Any) -> None:
    me, other, stranger = (vesica.Identity.generate() for _ in range(3))
    left = vesica.listen("127.0.0.1:0", identity=me, peer=other.fingerprint)
    right = vesica.connect(left.address, identity=other, peer=stranger.fingerprint)
    sender = background(vesica.send, TABLE, on="id", link=right)
    # The listener tells strangers from its peer only by their keys: it waits on, and says who came.
    turned_away = pytest.warns(vesica.RunWarning, match="turned away")
    with turned_away, pytest.raises(vesica.NetworkError, match="turned away"):
        vesica.receive(TABLE, on="id", link=left, wait=1)
    with pytest.raises(vesica.NetworkError, match="wrong peer: expected") as error:
        sender()
    assert me.fingerprint in str(error.value) and "fingerprint" in error.value.hint
    # The other way round: the listener pins another.
    left = vesica.listen("127.0.0.1:0", identity=me, peer=stranger.fingerprint)
    right = vesica.connect(left.address, identity=other, peer=me.fingerprint)
    sender = background(vesica.send, TABLE, on="id", link=right, wait=2)
    turned_away = pytest.warns(vesica.RunWarning, match="turned away")
    with turned_away, pytest.raises(vesica.NetworkError, match="wrong peer"):
        vesica.receive(TABLE, on="id", link=left, wait=1)
    with pytest.raises(vesica.ContractError, match="refused this side's identity"):
        sender()
    with pytest.raises(vesica.UsageError, match="peer: the fingerprint has a typing mistake"):
        wrong = me.fingerprint[:-1] + ("a" if me.fingerprint[-1] != "a" else "b")
        vesica.connect("127.0.0.1:1", identity=me, peer=wrong)


def test_different_contracts(background: Any) -> None:
    for ours, theirs, field in (
        ({"both": True}, {}, "who learns"),
        ({"normalize": {"id": "text"}}, {}, "normali"),
        ({"protocol": "vole"}, {"protocol": "compact-dh"}, "protocol"),
        ({"lambda_": 41}, {}, "lambda"),
        ({"reveal": "size", "security": "semi-honest"}, {"security": "semi-honest"}, "reveal"),
    ):
        left, right = vesica.pair()
        sender = background(vesica.send, TABLE, on="id", link=right, **theirs)
        with pytest.raises(vesica.ContractError, match=field):
            vesica.receive(TABLE, on="id", link=left, **ours)
        with pytest.raises(vesica.ContractError, match=field):
            sender()


def test_limits(background: Any) -> None:
    left, right = vesica.pair()
    sender = background(vesica.send, TABLE, on="id", link=right)
    with pytest.raises(vesica.ResourceError, match="the sender brings 2 items; this run allows 1"):
        vesica.receive(TABLE, on="id", link=left, max_peer_items=1)
    with pytest.raises(vesica.ResourceError):
        sender()


def test_a_callback_that_raises_ends_the_run(background: Any) -> None:
    left, right = vesica.pair()

    def progress(event: vesica.Progress) -> None:
        if event.stage == "meeting":
            raise LookupError("enough")

    began = time.monotonic()
    with pytest.raises(LookupError, match="enough"):
        vesica.receive(TABLE, on="id", link=left, progress=progress)
    assert time.monotonic() - began < 5
    # The link is as good as before.
    sender = background(vesica.send, TABLE, on="id", link=right)
    assert vesica.receive(TABLE, on="id", link=left).size == 2
    sender()


def test_the_command_exits_with_the_same_codes(command: str, tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text("id\n\n")
    for arguments, expected in (
        (["--key", "no"], vesica.DataError),
        (["--key", "id", "--normalize", "id=no"], vesica.UsageError),
    ):
        done = subprocess.run(
            [command, "check", "--input", table, *arguments],
            check=False,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert done.returncode == expected.exit_code
        normalize = {"id": "no"} if expected is vesica.UsageError else None
        with pytest.raises(expected) as error:
            vesica.check(table, on=arguments[1], normalize=normalize)
        assert str(error.value) in done.stderr
