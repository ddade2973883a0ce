"""Runs by messages that any courier carries."""

from __future__ import annotations

import contextlib
import decimal
import sqlite3
from pathlib import Path
from typing import Any

import polars
import pytest

import vesica


def sides(place: Path, **both: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arguments of a sender and a receiver, of whose keys two are the same."""
    ours, theirs = vesica.Identity.generate(), vesica.Identity.generate()
    sender = {
        "table": polars.DataFrame({"id": [2, 3, 4]}),
        "identity": ours,
        "peer": theirs.fingerprint,
    }
    receiver = {
        "table": polars.DataFrame({"id": [1, 2, 4]}),
        "identity": theirs,
        "peer": ours.fingerprint,
    }
    sender |= {"role": "sender", "state": place / "sender", "on": "id", **both}
    receiver |= {"role": "receiver", "state": place / "receiver", "on": "id", **both}
    return sender, receiver


def test_messages_make_a_run(tmp_path: Path) -> None:
    sender, receiver = sides(tmp_path)
    offer = vesica.exchange("offer", **sender).message
    question = vesica.exchange("start", offer, **receiver).message
    answered = vesica.exchange("answer", question, **sender)
    # The same step makes the same message; another in its place is refused.
    assert vesica.exchange("answer", question, **sender).message == answered.message
    assert answered.result is not None and answered.result.report["peer_items"] == 3
    assert answered.message is not None and question is not None
    spoilt = question[:-1] + bytes([question[-1] ^ 1])
    for wrong in (spoilt, offer, answered.message, b""):
        with pytest.raises(vesica.DataError):
            vesica.exchange("answer", wrong, **sender)
    # With another table the run does not go on, and the peer is not blamed.
    others = polars.DataFrame({"id": [1, 2, 5]})
    with pytest.raises(vesica.DataError, match="over other keys"):
        vesica.exchange("finish", answered.message, **{**receiver, "table": others})
    with pytest.raises(vesica.DataError, match="over other keys"):
        vesica.exchange("answer", question, **{**sender, "table": others})
    finished = vesica.exchange("finish", answered.message, **receiver)
    assert finished.message is None and finished.result is not None
    assert list(finished.result.rows or []) == [1, 2]
    assert finished.result.table.to_polars()["id"].to_list() == [2, 4]
    for step, message in (("finish", answered.message), ("finish", b""), ("start", offer)):
        with pytest.raises(vesica.UsageError, match="over on this side"):
            vesica.exchange(step, message, **receiver)  # type: ignore[arg-type]
    # Whether the answer has arrived, the sender does not know.
    assert vesica.exchange("answer", question, **sender).message == answered.message
    with pytest.raises(vesica.UsageError, match="over on this side"):
        vesica.exchange("offer", **sender)


def test_a_query_is_matched_and_rows_go_to_a_table(tmp_path: Path) -> None:
    sender, receiver = sides(tmp_path)
    path = tmp_path / "shop.db"
    with contextlib.closing(sqlite3.connect(path)) as database, database:
        database.execute("create table ours as select 1 as id, 'ann' as name union select 4, 'dan'")
    del receiver["table"]
    receiver |= {"query": "select id, name from ours", "database": f"sqlite:{path}"}
    offer = vesica.exchange("offer", **sender).message
    with pytest.raises(vesica.UsageError, match="output, output_table and rows are for finish"):
        vesica.exchange("start", offer, output_table="shared", **receiver)
    question = vesica.exchange("start", offer, **receiver).message
    answer = vesica.exchange("answer", question, **sender).message
    with pytest.raises(vesica.UsageError, match="either output or output_table"):
        vesica.exchange("finish", answer, output="x", output_table="shared", **receiver)
    finished = vesica.exchange("finish", answer, output_table="shared", **receiver)
    assert finished.result is not None and list(finished.result.rows or []) == [1]
    with contextlib.closing(sqlite3.connect(path)) as database:
        assert database.execute("select * from shared").fetchall() == [(4, "dan")]


def test_columns_of_other_classes_are_warned_of(tmp_path: Path) -> None:
    sender, receiver = sides(tmp_path)
    receiver["table"] = polars.DataFrame({"id": ["12.5", "2"]})
    sender["table"] = polars.DataFrame({"id": [decimal.Decimal("12.5")]})
    message = vesica.exchange("offer", **sender).message
    message = vesica.exchange("start", message, **receiver).message
    warning = "key column 1 is decimal on one side and text on the other"
    with pytest.warns(vesica.RunWarning, match=warning):
        message = vesica.exchange("answer", message, **sender).message
    with pytest.warns(vesica.RunWarning, match=warning):
        finished = vesica.exchange("finish", message, **receiver)
    assert finished.result is not None and list(finished.result.rows or []) == [0]


def test_both_sides_can_learn_the_matches(tmp_path: Path) -> None:
    sender, receiver = sides(tmp_path, both=True, protocol="dh", security="semi-honest")
    message = vesica.exchange("offer", **sender).message
    message = vesica.exchange("start", message, **receiver).message
    message = vesica.exchange("answer", message, **sender).message
    output = tmp_path / "shared.parquet"
    finished = vesica.exchange("finish", message, output=output, **receiver)
    assert finished.result is not None and finished.result.size == 2
    assert polars.read_parquet(output)["id"].to_list() == [2, 4]
    theirs = vesica.exchange("finish", finished.message, **sender)
    assert theirs.result is not None and list(theirs.result.rows or []) == [0, 2]


def test_what_cannot_be_is_refused(tmp_path: Path) -> None:
    sender, receiver = sides(tmp_path)
    for step, message in (("offer", b"x"), ("start", None), ("finish", None), ("begin", None)):
        with pytest.raises(vesica.UsageError):
            vesica.exchange(step, message, **sender)  # type: ignore[arg-type]
    with pytest.raises(vesica.UsageError, match="learns no rows"):
        vesica.exchange("finish", b"x", **sender)
    with pytest.raises(vesica.UsageError, match="output, output_table and rows are for finish"):
        vesica.exchange("offer", output=tmp_path / "x", **sender)
    with pytest.raises(vesica.UsageError, match="no run by files"):
        vesica.exchange("answer", b"x", **receiver)
    offer = vesica.exchange("offer", **sender).message
    with pytest.raises(vesica.UsageError, match="other options"):
        vesica.exchange("offer", **{**sender, "lambda_": 50})
    with pytest.raises(vesica.DataError):
        vesica.exchange(
            "start", offer, **{**receiver, "peer": vesica.Identity.generate().fingerprint}
        )
