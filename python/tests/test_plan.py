"""What a run will take: the answer, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

import vesica


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without the calibration of whoever runs the tests."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def test_the_fastest_comes_first_and_links_take_time() -> None:
    near = vesica.plan(4000)
    far = vesica.plan(4000, bandwidth=10_000_000, rtt=0.08)
    for answer in (near, far):
        seconds = [forecast["seconds"]["likely"] for forecast in answer["forecasts"]]
        assert seconds == sorted(seconds)
        assert answer["fastest"] == answer["forecasts"][0]["protocol"]
        assert answer["sender_size"] == 4000
    assert near["forecasts"][0]["seconds"]["likely"] < far["forecasts"][0]["seconds"]["likely"]


def test_security_and_result_leave_some_out() -> None:
    malicious = vesica.plan(1000, security="malicious")
    assert {forecast["security"] for forecast in malicious["forecasts"]} == {"malicious"}
    assert vesica.plan(1000, reveal="sum", value_columns=2)["auto"] == "circuit-okvs"


def test_circuits_save_time_or_traffic() -> None:
    # Small sets have one way.
    def ways(**asked: str) -> set[str]:
        return {f["optimize"] for f in vesica.plan(2**18, reveal="size", **asked)["forecasts"]}  # type: ignore[arg-type]

    assert ways() == {"time", "traffic"}
    assert ways(optimize="traffic") == {"traffic"}


@pytest.mark.parametrize(
    "asked",
    [
        {"reveal": "sizes"},
        {"security": "some"},
        {"reveal": "size", "security": "malicious"},
        {"sender_size": 2**35 + 1},
        {"bandwidth": 10},
        {"rtt": -1.0},
        {"rtt": 100.0},
        {"items": 65},
        {"value_columns": 9},
        {"lambda_": 39},
        {"optimize": "all"},
        {"threads": 0},
    ],
)
def test_what_cannot_be_is_refused(asked: dict[str, object]) -> None:
    with pytest.raises(vesica.UsageError):
        vesica.plan(1000, **asked)  # type: ignore[arg-type]


def test_files_that_are_broken_are_data_errors(tmp_path: Path) -> None:
    (tmp_path / "wrong.json").write_text("{}")
    for name in ("wrong.json", "none.json"):
        for which in ("prices", "calibration"):
            with pytest.raises(vesica.DataError, match=name):
                vesica.plan(1000, **{which: tmp_path / name})  # type: ignore[arg-type]
