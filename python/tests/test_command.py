"""Python against the command, in both roles and with either side listening."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import polars
import pytest
from conftest import CUSTOMERS, DONORS, expected_rows, rows_of

import vesica

DONOR_SIDE = {"on": "email", "normalize": {"email": "email"}}
CUSTOMER_SIDE = {"on": "contact", "normalize": {"contact": "email"}}


def options_of(side: dict[str, Any]) -> list[str]:
    (column, profile), *_ = side["normalize"].items()
    return ["--key", side["on"], "--normalize", f"{column}={profile}"]


def address_of(process: Any) -> str:
    """Where the command listens."""
    for line in process.stderr:
        if match := re.match(r"listening on (\S+)", line):
            return match.group(1)
    raise AssertionError("the command does not listen")


@pytest.mark.filterwarnings("ignore:.* rows have no usable key")
@pytest.mark.parametrize("python_listens", [True, False])
@pytest.mark.parametrize("python_receives", [True, False])
@pytest.mark.parametrize("reveal", ["matches", "size"])
def test_python_meets_the_command(
    python_receives: bool,
    python_listens: bool,
    reveal: str,
    command: str,
    child: Any,
    identities: tuple[vesica.Identity, vesica.Identity],
    tmp_path: Path,
) -> None:
    ours, theirs = identities
    role, path, side = (
        ("send", CUSTOMERS, CUSTOMER_SIDE) if python_receives else ("receive", DONORS, DONOR_SIDE)
    )
    line = [command, role, "--input", str(path), *options_of(side), "--reveal", reveal]
    line += ["--identity", str(tmp_path / "theirs.key"), "--peer", ours.fingerprint]
    terms = {"reveal": reveal}
    if reveal == "size":
        line += ["--security", "semi-honest"]
        terms["security"] = "semi-honest"
    elif role == "receive":
        line += ["--output", str(tmp_path / "shared.csv")]
    line += ["--report", str(tmp_path / "report.json")]
    if python_listens:
        link = vesica.listen("127.0.0.1:0", identity=ours, peer=theirs.fingerprint)
        process = child([*line, "--connect", link.address])
    else:
        process = child([*line, "--listen", "127.0.0.1:0"])
        address = address_of(process)
        link = vesica.connect(address, identity=ours, peer=theirs.fingerprint)
    if python_receives:
        table = polars.read_csv(DONORS, infer_schema=False)
        result = vesica.receive(table, link=link, **DONOR_SIDE, **terms)
    else:
        table = polars.read_csv(CUSTOMERS, infer_schema=False)
        result = vesica.send(table, link=link, **CUSTOMER_SIDE, **terms)
    out, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["contract"] == result.report["contract"]
    # The memory of a process is the command's own.
    assert set(report) - set(result.report) <= {"peak_memory_bytes", "machine"}
    assert set(result.report) <= set(report)
    for ours_of, theirs_of in (("fingerprint", "peer"), ("peer", "fingerprint")):
        assert report[ours_of] == result.report[theirs_of]
    if python_receives:
        assert result.size == 41
        if reveal == "matches":
            assert list(result.rows) == expected_rows()
    elif reveal == "size":
        assert out == "41\n"
    else:
        assert rows_of(tmp_path / "shared.csv") == [rows_of(DONORS)[i] for i in expected_rows()]


def test_the_command_says_what_python_says(
    command: str,
    child: Any,
    identities: tuple[vesica.Identity, vesica.Identity],
    tmp_path: Path,
) -> None:
    """A difference ends both with the same line, seen from either side."""
    ours, theirs = identities
    link = vesica.listen("127.0.0.1:0", identity=ours, peer=theirs.fingerprint)
    line = [command, "send", "--input", str(CUSTOMERS), "--key", "contact"]
    line += ["--identity", str(tmp_path / "theirs.key"), "--peer", ours.fingerprint]
    process = child([*line, "--connect", link.address, "--lambda", "50"])
    with pytest.raises(vesica.ContractError) as error:
        vesica.receive(polars.DataFrame({"id": ["a"]}), on="id", link=link)
    _, said = process.communicate(timeout=60)
    assert process.returncode == vesica.ContractError.exit_code
    assert "here 40, there 50" in str(error.value) and "here 50, there 40" in said


def test_a_store_of_correlations(
    command: str,
    child: Any,
    identities: tuple[vesica.Identity, vesica.Identity],
    tmp_path: Path,
) -> None:
    """Made by the command, taken by either face."""
    ours, theirs = identities

    def line(words: str, side: str, peer: vesica.Identity, *more: str) -> Any:
        stored = ["--identity", str(tmp_path / f"{side}.key"), "--peer", peer.fingerprint]
        stored += ["--offline-store", str(tmp_path / side)]
        return child([command, *words.split(), *stored, *more])

    make = "offline make --for ole --offline ot --receiver-size 50 --sender-size 50 --items 32"
    listens = line(f"{make} --role receiver", "ours", theirs, "--listen", "127.0.0.1:0")
    address = address_of(listens)
    connects = line(f"{make} --role sender", "theirs", ours, "--connect", address)
    for process in (connects, listens):
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said
    (tmp_path / "t.csv").write_text("ip\n" + "".join(f"10.0.0.{i}\n" for i in range(15, 40)))
    table = polars.DataFrame({"address": [f"10.0.0.{i}" for i in range(20)]})
    link = vesica.listen("127.0.0.1:0", identity=ours, peer=theirs.fingerprint)
    send = "send --key ip --normalize ip=ipv4 --protocol ole --offline ot --security semi-honest"
    more = ["--input", str(tmp_path / "t.csv"), "--connect", link.address]
    sender = line(send, "theirs", ours, *more)
    terms = {"protocol": "ole", "offline": "ot", "security": "semi-honest"}
    taken = {"on": "address", "normalize": {"address": "ipv4"}, "link": link, **terms}
    received = vesica.receive(table, offline_store=tmp_path / "ours", **taken)
    _, said = sender.communicate(timeout=60)
    assert sender.returncode == 0, said
    assert list(received.rows) == [15, 16, 17, 18, 19]
    assert received.report["contract"]["offline"] is not None


def test_shares_of_either_face_fit(
    command: str,
    child: Any,
    identities: tuple[vesica.Identity, vesica.Identity],
    tmp_path: Path,
) -> None:
    ours, theirs = identities
    link = vesica.listen("127.0.0.1:0", identity=ours, peer=theirs.fingerprint)
    line = [command, "send", "--input", str(CUSTOMERS), *options_of(CUSTOMER_SIDE)]
    line += ["--reveal", "shares", "--security", "semi-honest", "--output", str(tmp_path / "t.csv")]
    line += ["--identity", str(tmp_path / "theirs.key"), "--peer", ours.fingerprint]
    process = child([*line, "--connect", link.address])
    with pytest.warns(vesica.RunWarning, match="1 of 200"):
        vesica.receive(
            DONORS,
            link=link,
            reveal="shares",
            security="semi-honest",
            output=tmp_path / "o.csv",
            **DONOR_SIDE,
        )
    assert process.wait(60) == 0
    with open(tmp_path / "o.csv") as left, open(tmp_path / "t.csv") as right:
        cells = zip(csv.DictReader(left), csv.DictReader(right))
        assert sum(a["match"] != b["match"] for a, b in cells) == 41
