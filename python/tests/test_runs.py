"""What runs reveal, and their options."""

from __future__ import annotations

import asyncio
import csv
import decimal
import json
import time
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import polars
import pytest
from conftest import CUSTOMERS, DONORS

import vesica
from vesica._options import Format, Reveal

LEFT = polars.DataFrame({"id": range(100), "price": [f"{i}.25" for i in range(100)]})
RIGHT = polars.DataFrame({"id": range(80, 150), "count": [2] * 70})
OURS: dict[str, Any] = {"table": LEFT, "on": "id"}
THEIRS: dict[str, Any] = {"table": RIGHT, "on": "id"}
SEMI_HONEST: dict[str, Any] = {"security": "semi-honest"}


def test_matches_and_the_report() -> None:
    received, sent = vesica.rehearse(OURS, THEIRS)
    assert (received.size, received.value, received.below) == (20, None, None)
    for result, rows, peer_items in ((received, 100, 70), (sent, 70, 100)):
        report = result.report
        assert (report["rows"], report["items"], report["peer_items"]) == (rows, rows, peer_items)
        assert (report["protocol"], report["security"]) == ("compact-dh", "malicious")
        assert report["reveal"] == "matches" and report["seconds"] > 0
    assert received.report["bytes_sent"] == sent.report["bytes_received"] > 0
    assert received.report["contract"] == sent.report["contract"]
    assert repr(received).startswith("<Result size=20, compact-dh, malicious, ")
    with pytest.raises(vesica.UsageError, match="gave this side no rows"):
        _ = sent.table


def test_type_checkers_know_all_names() -> None:
    def literals(names: Any) -> set[str]:
        known = [part for part in get_args(names) if get_origin(part) is Literal]
        return {name for part in known for name in get_args(part)}

    with pytest.raises(vesica.UsageError) as error:
        vesica.rehearse(OURS, THEIRS, reveal="everything")
    _, _, reveals = str(error.value).partition("there are ")
    # Thresholds are made by a function, and several names are a list.
    alone = {name for name in reveals.split(", ") if not {",", ":"} & set(name)}
    assert literals(Reveal) == alone
    with pytest.raises(vesica.UsageError) as error:
        vesica.check("any.csv", on="id", format="text")  # type: ignore[arg-type]
    assert error.value.hint is not None
    _, _, formats = error.value.hint.partition("formats are: ")
    assert literals(Format) == set(formats.split(", "))


def test_ids_are_columns_of_both_tables(tmp_path: Path) -> None:
    received, sent = vesica.rehearse(
        OURS | {"spine_file": tmp_path / "list.csv"}, THEIRS, reveal="ids", **SEMI_HONEST
    )
    ours, theirs = received.table.to_polars(), sent.table.to_polars()
    assert ours.columns == ["id", "price", "spine_row", "spine_id"]
    assert ours["spine_row"].dtype == polars.Int64
    assert (ours["id"] == LEFT["id"]).all() and (theirs["id"] == RIGHT["id"]).all()
    both = ours.join(theirs, on=["spine_row", "spine_id"])
    assert both.height == 20 and (both["id"] == both["id_right"]).all()
    listed = polars.read_csv(tmp_path / "list.csv")
    assert listed.columns == ["spine_row", "spine_id"] and listed.height == 150
    assert set(ours["spine_id"]) | set(theirs["spine_id"]) == set(listed["spine_id"])
    for result in (received, sent):
        assert (result.report["spine_rows"], result.report["matches"]) == (150, 20)


def test_numbers_by_group() -> None:
    table = LEFT.with_columns(polars.Series("half", ["even", "odd"] * 50))
    ours = {"table": table, "on": "id", "group": "half", "value": "price", "value_scale": 2}
    allowed = THEIRS | {"max_peer_groups": 2}
    terms: dict[str, Any] = SEMI_HONEST | {"reveal": ["size", "sum"]}
    expected = {
        half: {"size": 10, "sum": sum(decimal.Decimal(f"{i}.25") for i in range(first, 100, 2))}
        for half, first in (("even", 80), ("odd", 81))
    }
    for sizes in ("hidden", "told", "padded:60"):
        received, sent = vesica.rehearse(
            ours | {"group_sizes": sizes}, allowed, min_size=10, **terms
        )
        assert received.groups == expected and sent.groups is None
        assert (received.values, received.value, received.below) == (None, None, None)
    received, _ = vesica.rehearse(ours | {"groups": ["odd"]}, allowed, min_size=11, **terms)
    assert (received.groups, received.below) == ({"odd": None}, 11)
    with pytest.raises(vesica.ResourceError, match="2 groups; the sender allows 1"):
        vesica.rehearse(ours, THEIRS, **terms)
    with pytest.raises(vesica.UsageError, match="go with group"):
        vesica.rehearse(OURS | {"group_sizes": "told"}, allowed, reveal="size", **SEMI_HONEST)
    vesica.check(table, on="id", group="half", reveal="size")
    with pytest.raises(vesica.UsageError, match="there can be 64"):
        vesica.check(LEFT, on="id", group="price", reveal="size")


def test_numbers() -> None:
    def value(ours: dict[str, Any], theirs: dict[str, Any], **terms: Any) -> Any:
        return vesica.rehearse(OURS | ours, THEIRS | theirs, **(SEMI_HONEST | terms))[0].value

    assert value({}, {}, reveal="size") == 20
    assert value({}, {"value": "count"}, reveal="sum") == 40
    prices = {"value": "price", "value_scale": 2, "value_bound": 1000}
    total = value(prices, {}, reveal="sum")
    assert total == sum(decimal.Decimal(f"{i}.25") for i in range(80, 100))
    assert isinstance(total, decimal.Decimal)
    assert value(prices, {"value": "count"}, reveal="inner-product") == 2 * total
    received, sent = vesica.rehearse(
        OURS
        | prices
        | {"value": ["price", "id"], "value_scale": [2, 0], "value_bound": [1000, 100]},
        THEIRS,
        reveal=["sum", "size"],
        both=True,
        **SEMI_HONEST,
    )
    ids = sum(range(80, 100))
    assert received.values == sent.values == {"size": 20, "sum-1": total, "sum-2": ids}
    assert (received.value, received.size) == (None, 20)
    limited = {"max_peer_value_bound": 100_000}
    assert value(prices, limited, reveal="sum") == total
    with pytest.raises(vesica.ResourceError, match="columns of values; this run allows 1"):
        value(prices | {"value": ["price", "id"]}, limited | {"max_peer_values": 1}, reveal="sum")
    with pytest.raises(vesica.ContractError, match="value bound"):
        value(prices | {"value_bound": 1001}, limited, reveal="sum")


def test_numbers_with_noise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def run(ours: dict[str, Any], theirs: dict[str, Any], **terms: Any) -> list[vesica.Result]:
        ours, theirs = (
            {**side, "ledger": tmp_path / name} for name, side in (("a", ours), ("b", theirs))
        )
        return list(vesica.rehearse(OURS | ours, THEIRS | theirs, **(SEMI_HONEST | terms)))

    # With these, noise is 0 but for 2^-46.
    received, sent = run({}, {"epsilon": 100, "pad_to": 500}, reveal="size")
    assert (received.value, received.report["peer_items"], sent.value) == (20, 500, None)
    noise = received.report["noise"]
    assert noise == sent.report["noise"]
    assert (noise["sender_epsilon"], noise["receiver_epsilon"]) == ("100", None)
    split = {"epsilon": "100", "epsilon_split": {"size": 1, "sum": 2}}
    received, _ = run({"value": "id"} | split, split, reveal=["size", "sum"], both=True)
    charges = received.report["contract"]["receiver_noise"]["charges"]
    assert [charge["epsilon"] for charge in charges] == ["33.333334", "66.666666"]
    for _ in range(3):
        received, _ = run({"clamp": True}, {"epsilon": "0.0001"}, reveal="size")
        assert 0 <= received.value <= 100
    with pytest.raises(vesica.UsageError, match="epsilon is for numbers"):
        run({}, {"epsilon": 1})
    with pytest.raises(vesica.UsageError, match="above 0 and up to 100"):
        run({}, {"epsilon": 0}, reveal="size")
    with pytest.raises(vesica.ContractError, match="one adds no noise"):
        run({}, {"epsilon": 1}, reveal="size", both=True)


def test_an_account_of_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    ledger, rules = tmp_path / "ledger", tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nname = "once"\nperiod = "1d"\nruns-of-all = 1\n')
    sends = THEIRS | {"ledger": ledger, "rules": rules, "purpose": "a test"}
    receives = OURS | {"ledger": tmp_path / "other", "ledger_answers": True}
    received, _ = vesica.rehearse(receives, sends)
    assert received.report["contract"]["sender_purpose"] == "a test"
    lines = [json.loads(line) for line in ledger.read_text().splitlines()]
    kinds = ["created", "begun", "receipts", "ended"]
    assert [kind for line, kind in zip(lines, kinds) if kind in line] == kinds
    answered = json.loads((tmp_path / "other").read_text().splitlines()[3])
    assert answered["ended"]["answer"]["matches"] == 20
    with pytest.raises(vesica.ResourceError, match='the rule "once" does not allow this run'):
        vesica.rehearse(OURS, sends)
    with pytest.raises(vesica.UsageError, match="rules go with a ledger"):
        vesica.rehearse(OURS, THEIRS | {"rules": rules})
    with pytest.raises(vesica.UsageError, match="more than 200 bytes"):
        vesica.rehearse(OURS | {"purpose": "x" * 201}, THEIRS)
    with pytest.raises(vesica.UsageError, match="epsilon is spent"):
        vesica.rehearse(OURS, THEIRS | {"epsilon": 1}, reveal="size", **SEMI_HONEST)


def test_thresholds_and_minimum_sizes() -> None:
    def run(reveal: str, **terms: Any) -> vesica.Result:
        return vesica.rehearse(OURS, THEIRS, reveal=reveal, **SEMI_HONEST, **terms)[0]

    for result in (run("threshold:19"), run("size", min_size=20)):
        assert (result.value, result.size, result.below) == (20, 20, None)
    for result in (run("threshold:20"), run("size", min_size=21)):
        assert (result.value, result.size, result.below) == (None, None, 21)
    enough, few = run("threshold-matches:19"), run("threshold-matches:20")
    assert (enough.size, list(enough.rows)) == (20, list(range(80, 100)))
    assert (few.size, few.below, len(few.rows), len(few.table)) == (None, 21, 0, 0)


def test_both_sides_learn_the_matches(tmp_path: Path) -> None:
    theirs = THEIRS | {"output": tmp_path / "theirs.parquet"}
    received, sent = vesica.rehearse(OURS, theirs, both=True)
    assert list(received.rows) == list(range(80, 100)) and list(sent.rows) == list(range(20))
    assert polars.read_parquet(tmp_path / "theirs.parquet").equals(RIGHT[:20])
    assert sent.size == 20


def test_both_sides_learn_a_number() -> None:
    for minimum, learned in ((20, (20, 20, None)), (21, (None, None, 21))):
        terms = {"reveal": "size", "min_size": minimum, "both": True, **SEMI_HONEST}
        for result in vesica.rehearse(OURS, THEIRS, **terms):
            assert (result.value, result.size, result.below) == learned
    with pytest.raises(vesica.UsageError, match="cannot learn the threshold-matches too"):
        vesica.rehearse(OURS, THEIRS, reveal="threshold-matches:1", both=True, **SEMI_HONEST)


def test_both_sides_get_one_order(tmp_path: Path) -> None:
    theirs = THEIRS | {"output": tmp_path / "theirs.parquet"}
    received, sent = vesica.rehearse(OURS, theirs, both=True, align=True)
    ours, theirs_out = received.table.to_polars(), polars.read_parquet(tmp_path / "theirs.parquet")
    assert list(ours["match_number"]) == list(theirs_out["match_number"]) == list(range(1, 21))
    assert list(ours["id"]) == list(theirs_out["id"]) == list(received.rows)
    assert (
        list(LEFT["id"][list(received.rows)])
        == list(RIGHT["id"][list(sent.rows)])
        == list(ours["id"])
    )
    assert sorted(ours["id"]) == list(range(80, 100)) != list(ours["id"])
    with pytest.raises(vesica.UsageError, match=r"both learn|no rows"):
        vesica.rehearse(OURS, THEIRS, align=True)
    with pytest.raises(vesica.UsageError, match="rows that match"):
        vesica.rehearse(OURS, THEIRS, align=True, both=True, rows="all")


def test_shares(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours.csv", tmp_path / "theirs.csv"
    results = vesica.rehearse(
        OURS | {"output": ours},
        THEIRS | {"output": theirs, "value": "count"},
        reveal="shares",
        **SEMI_HONEST,
    )
    assert [(r.rows, r.size, r.value) for r in results] == [(None, None, None)] * 2
    with open(ours, newline="") as left, open(theirs, newline="") as right:
        cells = list(zip(csv.DictReader(left), csv.DictReader(right)))
    matching = [a["row"] for a, b in cells if a["match"] != b["match"]]
    assert sorted(map(int, matching)) == list(range(81, 101))
    shares = (int(a["sender_value"]) + int(b["sender_value"]) for a, b in cells)
    assert sum(shares) % 2**64 == 40
    payload = {"payload": "id", "payload_width": 4}
    vesica.rehearse(
        OURS | {"output": ours},
        THEIRS | {"output": theirs} | payload,
        reveal="shares",
        **SEMI_HONEST,
    )
    with open(ours, newline="") as left, open(theirs, newline="") as right:
        cells = [
            (a["sender_payload"], b["sender_payload"])
            for a, b in zip(csv.DictReader(left), csv.DictReader(right))
        ]
    opened = {bytes(x ^ y for x, y in zip(bytes.fromhex(a), bytes.fromhex(b))) for a, b in cells}
    assert opened == {str(i).encode().ljust(4, b"\0") for i in range(80, 100)} | {bytes(4)}
    with pytest.raises(vesica.DataError, match="payload takes 3 bytes"):
        vesica.rehearse(
            OURS | {"output": ours},
            THEIRS | {"output": theirs} | payload | {"payload_width": 2},
            reveal="shares",
            **SEMI_HONEST,
        )
    with pytest.raises(vesica.UsageError, match="give an output"):
        vesica.rehearse(OURS, THEIRS, reveal="shares", **SEMI_HONEST)


@pytest.mark.parametrize("protocol", ["vole", "compact-dh", "kkrt", "spot-low", "dh"])
def test_protocols(protocol: str) -> None:
    strongest = {
        "vole": "malicious",
        "compact-dh": "malicious",
        "spot-low": "malicious-sender",
    }
    security = strongest.get(protocol, "semi-honest")
    received, _ = vesica.rehearse(OURS, THEIRS, protocol=protocol, security=security)
    assert (received.size, received.report["protocol"]) == (20, protocol)


def test_the_protocol_of_numbers() -> None:
    sides = [
        {"table": polars.DataFrame({"ip": [f"10.0.0.{i}" for i in numbers]}), "on": "ip"}
        for numbers in (range(20), range(15, 40))
    ]
    terms = {"protocol": "ole", "offline": "ot", "normalize": {"ip": "ipv4"}, **SEMI_HONEST}
    received, _ = vesica.rehearse(*sides, **terms)
    assert (received.size, received.report["protocol"]) == (5, "ole-ot")


def test_little_memory_means_buckets(tmp_path: Path) -> None:
    table = polars.DataFrame({"id": range(100_000)})
    seen = []
    ours = {"table": table, "on": "id", "progress": seen.append}
    theirs = {"table": table[99_000:], "on": "id", "threads": 1}
    received, _ = vesica.rehearse(ours, theirs, memory="8M", work_dir=None)
    assert received.size == 1000
    assert received.report["contract"]["buckets"] > 1
    assert {p.bucket for p in seen} >= {1, 2}


def test_a_kept_answer_is_written_without_the_peer(tmp_path: Path, background: Any) -> None:
    """A run whose output fails once the answer is known writes it later, when nobody answers."""
    left, right = vesica.pair()
    folder = tmp_path / "out"
    folder.mkdir()
    senders = []

    def progress(event: vesica.Progress) -> None:
        if event.stage == "meeting":
            # The output is open by now, and the peer is not there yet.
            folder.rmdir()
            senders.append(background(vesica.send, RIGHT, on="id", link=right))

    ours: dict[str, Any] = {"output": folder / "matches.parquet", "work_dir": tmp_path / "work"}
    ours |= {"on": "id", "link": left}
    with pytest.raises(vesica.UsageError, match=r"matches.parquet: cannot be written"):
        vesica.receive(LEFT, progress=progress, **ours)
    senders[0]()
    folder.mkdir()
    again = vesica.receive(LEFT, wait=0.1, **ours)
    assert again.size == 20 and again.report["computed"] is not None
    assert len(polars.read_parquet(folder / "matches.parquet")) == 20
    assert not (tmp_path / "work").exists()


def test_a_run_without_matches_says_what_to_look_at() -> None:
    ours = {"table": polars.DataFrame({"id": ["007"]}), "on": "id"}
    with pytest.warns(vesica.RunWarning, match=r"no key matches; .* see `normalize`") as warned:
        received, _ = vesica.rehearse(ours, {"table": polars.DataFrame({"id": [7]}), "on": "id"})
    assert (received.size, len(warned)) == (0, 1)


def test_an_empty_table_may_take_part() -> None:
    empty = OURS | {"table": LEFT[:0]}
    with pytest.raises(vesica.DataError, match="no data rows"):
        vesica.rehearse(empty, THEIRS)
    received, _ = vesica.rehearse(empty | {"allow_empty": True}, THEIRS)
    assert (received.size, len(received.table)) == (0, 0)


def test_text_that_is_read_as_asked(tmp_path: Path) -> None:
    path = tmp_path / "table.data"
    path.write_bytes("1|'Zo\\'ë'\n2|NULL\n3|'b|c'\n".encode("cp1252"))
    reading: dict[str, Any] = {"table": path, "format": "csv", "delimiter": "|", "header": False}
    reading |= {"quote": "'", "escape": "\\", "encoding": "windows-1252"}
    names = polars.DataFrame({"name": ["b|c", "NULL", "Zo'ë"]})
    # What one side declares null is a word for null on the other.
    null_word = pytest.warns(vesica.RunWarning, match="1 of 3 rows have a key that stands for no")
    with null_word, pytest.warns(vesica.RunWarning, match="1 of 3 rows have no usable key"):
        received, _ = vesica.rehearse(
            reading | {"on": "2", "null": "NULL"}, {"table": names, "on": "name"}
        )
    assert list(received.rows) == [0, 2]
    assert vesica.check(on="2", **reading)["items"] == 3
    assert vesica.check(on="2", null=["NULL", "b|c"], **reading)["blanks"] == 2
    plain = reading | {"quote": None, "escape": None, "delimiter": "tab"}
    assert vesica.check(on="1", **plain)["items"] == 3
    path.write_text('id, mail\n1, "Lee, Bob"\n2, "ann@x.org"\n')
    spaced = {"table": path, "on": "mail", "format": "csv", "skip_initial_space": True}
    checked = vesica.check(**spaced, deny=["Lee, Bob", "eve"])
    assert (checked["items"], checked["denied"]) == (1, 1)
    with pytest.raises(vesica.UsageError, match="deny are for a key of one column"):
        vesica.check(path, on=["id", "mail"], skip_initial_space=True, deny="x")


@pytest.mark.parametrize(
    ("profile", "ours", "theirs"),
    [
        ("exact", "ß", "ß"),
        ("exact/1", "ß", "ß"),
        ("text", " STRASSE", "straße"),
        ("email", "Ann@X.org ", "ann@x.ORG"),
        ("phone:GB", "020 7946 0000", "+44 20 7946 0000"),
        ("date", "20240229", "2024-02-29T00:00:00Z"),
        ("integer", "+007", "7.0"),
        ("uuid", "{00112233-4455-6677-8899-AABBCCDDEEFF}", "00112233445566778899aabbccddeeff"),
        ("sha256-hex", "AB" * 32, "ab" * 32),
        ("pair-email", "Ann@x.org", "ann@x.org "),
        ("pair-phone:GB", "020 7946 0000", "+442079460000"),
        ("ipv4", "10.0.0.1", "167772161"),
        ("ipv6", "2001:DB8:0::1", "2001:db8::1"),
        ("decimal", "12.50", "+012.5"),
        ("timestamp", "2024-02-29T09:30:00+01:00", "2024-02-29 08:30"),
        ("timestamp:ms", "1709195400000", "2024-02-29T08:30:00Z"),
        ("integer:8", "007", "7"),
        ("name", "Dr. José García Jr.", "jose garcia"),
        ("name:given@1", "Ann", "A."),
        ("date:DMY", "31.12.1984", "1984-12-31"),
        ("postcode:GB", "sw1a 1aa", "SW1A1AA"),
        (
            "uid2-email",
            "JaneSaoirse+Work@gmail.com",
            "ku4mBX7Z3qJTXWyLFB1INzkyR2WZGW4ANSJUiW21iI8=",
        ),
        ("google-email", "Ann.Lee+a@googlemail.com", "annlee@GoogleMail.com"),
        ("meta-phone:GB", "020 7946 0000", "+442079460000"),
    ],
)
def test_profiles(profile: str, ours: str, theirs: str) -> None:
    sides = [
        {"table": polars.DataFrame({name: [value]}), "on": name, "normalize": {name: profile}}
        for name, value in (("k", ours), ("key", theirs))
    ]
    assert vesica.rehearse(*sides)[0].size == 1


def test_check() -> None:
    checked = vesica.check(DONORS, on="email", normalize={"email": "email"})
    assert (checked["rows"], checked["items"], checked["blanks"]) == (200, 197, 1)
    assert "200 rows" in str(checked) and "\n" in str(checked)
    frame = vesica.check(polars.read_csv(CUSTOMERS), on="contact", memory="1M")
    assert (frame["rows"], frame["format"]) == (295, "arrow")


def test_links_are_used_again(background: Any) -> None:
    left, right = vesica.pair()
    assert left.address.startswith("127.0.0.1:") and left.address == right.address
    for _ in range(3):
        sender = background(vesica.send, RIGHT, on="id", link=right)
        assert vesica.receive(LEFT, on="id", link=left).size == 20
        sender()
    # Either role may listen.
    sender = background(vesica.send, RIGHT, on="id", link=left)
    assert vesica.receive(LEFT, on="id", link=right).size == 20
    sender()


def test_a_link_ends_with_its_block(background: Any) -> None:
    left, right = vesica.pair()
    with left as link, right:
        sender = background(vesica.send, RIGHT, on="id", link=right)
        assert vesica.receive(LEFT, on="id", link=link).size == 20
        sender()
    with pytest.raises(vesica.StoppedError):
        vesica.receive(LEFT, on="id", link=left, wait=5)


def test_runs_are_awaited_and_cancelled() -> None:
    async def both() -> list[vesica.Result]:
        left, right = vesica.pair()
        sending = vesica.asend(RIGHT, on="id", link=right)
        return await asyncio.gather(vesica.areceive(LEFT, on="id", link=left), sending)

    received, sent = asyncio.run(both())
    assert (received.size, sent.size) == (20, None)

    async def too_long() -> None:
        left, _ = vesica.pair()
        waiting = vesica.areceive(LEFT, on="id", link=left, wait=60)
        await asyncio.wait_for(waiting, timeout=0.5)

    begun = time.monotonic()
    with pytest.raises(asyncio.TimeoutError):
        asyncio.run(too_long())
    assert time.monotonic() - begun < 20


def test_a_rehearsal_raises_the_reason() -> None:
    def progress(event: vesica.Progress) -> None:
        if event.stage == "connected":
            raise LookupError("enough")

    for side in (OURS, THEIRS):
        parties = [
            {**each, **({"progress": progress} if each is side else {})} for each in (OURS, THEIRS)
        ]
        with pytest.raises(LookupError, match="enough"):
            vesica.rehearse(*parties)


def test_notebooks_show_results_and_checks() -> None:
    received, _ = vesica.rehearse(OURS, THEIRS)
    assert "<th>size</th><td>20</td>" in received._repr_html_()
    assert received.table._repr_html_() in received._repr_html_()
    named = vesica.check(polars.DataFrame({"<id>": ["a", "a "]}), on="<id>")
    assert "&lt;id&gt;" in named._repr_html_() and "<id>" not in named._repr_html_()


def test_types_catch_a_reveal_that_there_is_not(tmp_path: Path) -> None:
    mypy = pytest.importorskip("mypy.api")
    lines = ["vesica.threshold(9)", '"size"', '["size", "sum"]', '"sizes"', '["size", "sums"]']
    script = tmp_path / "script.py"
    call = "vesica.receive('t.csv', on='id', link=link, reveal={})"
    runs = "\n    ".join(call.format(line) for line in lines)
    script.write_text(f"import vesica\ndef run(link: vesica.Link) -> None:\n    {runs}\n")
    found, _, code = mypy.run([str(script), "--cache-dir", str(tmp_path / "cache")])
    wrong = {int(line.split(":")[1]) - 2 for line in found.splitlines() if ": error:" in line}
    assert (code, wrong) == (1, {4, 5}), found


def test_types_catch_an_option_of_another_type(tmp_path: Path) -> None:
    mypy = pytest.importorskip("mypy.api")
    right = [
        "receive(wait='5m', quote=None, take_payload=True)",
        "send(deadline=None, payload=['a'])",
    ]
    wrong = [
        "receive(wait=[])",
        "receive(wait=None)",
        "send(take_payload=True)",
        "send(no_option=1)",
    ]
    calls = [line.replace("(", "('t.csv', on='id', link=link, ") for line in (*right, *wrong)]
    runs = "\n    ".join(f"vesica.{call}" for call in calls)
    script = tmp_path / "script.py"
    script.write_text(f"import vesica\ndef run(link: vesica.Link) -> None:\n    {runs}\n")
    found, _, code = mypy.run([str(script), "--cache-dir", str(tmp_path / "cache")])
    lines = {int(line.split(":")[1]) - 3 for line in found.splitlines() if ": error:" in line}
    assert (code, lines) == (1, {2, 3, 4, 5}), found


def test_identities(tmp_path: Path) -> None:
    me = vesica.Identity.generate()
    path = tmp_path / "me.key"
    me.save(path)
    assert vesica.Identity.load(path).fingerprint == me.fingerprint
    assert vesica.Identity.from_pem(me.to_pem()).fingerprint == me.fingerprint
    assert repr(me) == f"Identity({me.fingerprint})" and "PRIVATE" not in repr(me)
    with pytest.raises(vesica.UsageError, match="never overwritten"):
        me.save(path)
    path.chmod(0o644)
    with pytest.raises(vesica.UsageError, match=r"me\.key: other users can read it") as error:
        vesica.Identity.load(path)
    assert error.value.hint == f"run: chmod 600 {path}"
    with pytest.raises(vesica.UsageError, match="not a PEM file"):
        vesica.Identity.from_pem("nonsense")


def test_the_arguments_are_the_commands(command: str) -> None:
    """Every option of the command is an argument, or is one of those that Python says in another way."""
    import inspect
    import re
    import subprocess

    elsewhere = {"input", "key", "match", "listen", "connect", "identity", "peer", "report", "help"}
    elsewhere |= {"config", "log_format", "allow_core_dumps", "passphrase_file", "invite", "accept"}
    elsewhere |= {"proxy", "sni", "outer_ca"}
    renamed = {"lambda": "lambda_", "no_header": "header"}
    for name, function in (("receive", vesica.receive), ("send", vesica.send)):
        shown = subprocess.run(
            [command, name, "--help"], check=True, stdout=subprocess.PIPE, text=True
        )
        options = set(re.findall(r"^\s+(?:-\w, )?--([a-z-]+)", shown.stdout, re.MULTILINE))
        options = {option.replace("-", "_") for option in options}
        options = {renamed.get(option, option) for option in options}
        parameters = set(inspect.signature(function).parameters)
        assert parameters - {"table", "on", "link"} == options - elsewhere, name
