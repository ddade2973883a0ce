"""Rows that match by any of several identifiers, and several rows per key."""

from __future__ import annotations

from typing import Any

import polars
import pyarrow
import pytest

import vesica

OURS = {
    "id": [1, 2, 3, 4],
    "mail": ["Ann@x.org", None, "zed@x.org", None],
    "tel": [None, "1", "2", None],
}
THEIRS = {"m": [["x@x.org", "ann@x.org"], ["q@x.org"]], "t": ["9", "1"], "city": ["Rome", "Oslo"]}


def sides() -> tuple[dict[str, Any], dict[str, Any]]:
    ours = {
        "table": polars.DataFrame(OURS),
        "on": {"mail": "mail", "tel": ["tel"]},
        "normalize": {"mail": "email"},
    }
    theirs = {
        "table": pyarrow.table(THEIRS),
        "on": {"mail": "m", "tel": "t"},
        "normalize": {"m": "email"},
    }
    return ours, theirs


def test_rows_match_by_any_identifier() -> None:
    ours, theirs = sides()
    with pytest.warns(vesica.RunWarning, match="1 of 4 rows have no usable key"):
        received, _ = vesica.rehearse(
            ours | {"matched_by": "by", "take_payload": True, "rows": "all"},
            theirs | {"payload": "city"},
        )
    found = received.table.to_polars()
    assert found.columns == ["id", "mail", "tel", "in_both", "by", "peer_city"]
    assert found["by"].to_list() == ["mail", "tel", None, None]
    assert found["peer_city"].to_list() == ["Rome", "Oslo", None, None]
    assert (received.report["items"], received.report["matches"]) == (4, 2)
    assert list(received.matching) == [0, 1]


def test_lists_in_texts_are_split() -> None:
    _, theirs = sides()
    ours = {
        "table": polars.DataFrame({"mails": ["a@x.org; Ann@x.org", ";"]}),
        "on": {"mail": "mails", "tel": "mails"},
        "split": {"mails": ";"},
        "normalize": {"mails": "email"},
    }
    theirs = theirs | {"normalize": {"m": "email", "t": "email"}}
    with (
        pytest.warns(vesica.RunWarning, match="1 of 2 rows have no usable key"),
        pytest.warns(vesica.RunWarning, match="2 of 2 rows have an invalid identifier"),
    ):
        received, _ = vesica.rehearse(ours, theirs)
    assert list(received.rows) == [0]


def test_wrong_identifiers_are_errors() -> None:
    frame = polars.DataFrame(OURS)
    for wrong, message in [
        ({"on": {"a b": "mail"}}, "no name for an identifier"),
        ({"on": {"a": "mail"}, "split": {"tel": ";"}}, "is split but is not a column"),
        ({"on": "mail", "split": {"mail": ";"}}, "split is for columns of identifiers"),
        ({"on": {"a": "mail"}, "normalize": {"tel": "text"}}, "not part of the key"),
        ({"on": {"a": ["mail", "mail"]}}, "named twice"),
    ]:
        with pytest.raises(vesica.UsageError, match=message):
            vesica.check(frame, **wrong)


def test_a_row_for_each_pair() -> None:
    customers = {"table": polars.DataFrame({"mail": ["ann", "bob", "cy"]}), "on": "mail"}
    orders = {
        "table": polars.DataFrame({"mail": ["ann", "bob", "ann"], "order": [7, 8, 9]}),
        "on": "mail",
        "payload": "order",
    }
    received, _ = vesica.rehearse(customers | {"take_payload": True}, orders, rows_per_key=2)
    assert received.table.to_polars().rows() == [("ann", 7), ("ann", 9), ("bob", 8)]
    assert received.report["contract"]["labels"]["rows"] == 2
    with pytest.raises(vesica.Error, match="not those of row"):
        vesica.rehearse(customers | {"take_payload": True}, orders)


def test_lines_around_a_table_are_left_out(tmp_path: Any) -> None:
    path = tmp_path / "report.csv"
    path.write_text("Report X\n\nsep=,\nid,mail\n1,a\n2,b\nTotal,2\n")
    checked = vesica.check(path, on="mail", skip_rows=3, skip_footer=1)
    assert (checked["rows"], checked["items"]) == (2, 2)
    with pytest.raises(
        vesica.UsageError, match="skip_footer, sheet and encoding are for tables in files"
    ):
        vesica.check(polars.DataFrame(OURS), on="mail", skip_rows=1)
