"""Ctrl-C: a real signal to a real process, while its peer runs in this one."""

from __future__ import annotations

import signal
import threading
import time
from typing import Any

import polars
import pytest

import vesica

# A party that writes its stages, and when Ctrl-C reached its caller.
PARTY = """
import sys, time
import polars, vesica

me = vesica.Identity.load({key!r})
link = vesica.connect({address!r}, identity=me, peer={peer!r})
table = polars.DataFrame({{"id": range({rows})}})
seen = set()

def progress(event):
    if event.stage not in seen:
        seen.add(event.stage)
        print("stage", event.stage, flush=True)

try:
    vesica.{role}(table, on="id", link=link, progress=progress, threads=1)
except KeyboardInterrupt:
    print("interrupted", time.monotonic(), flush=True)
    sys.exit(130)
print("finished", flush=True)
"""

# Where a run is when the signal comes: before the peer is there, blocked, and computing.
STAGES = [
    ("receive", "meeting"),
    ("receive", "contract"),
    ("receive", "encode"),
    ("send", "meeting"),
    ("send", "contract"),
    ("send", "correlations"),
]


@pytest.mark.parametrize(("role", "stage"), STAGES)
def test_ctrl_c_ends_a_run_at_once_and_the_peer_is_told(
    role: str,
    stage: str,
    child: Any,
    identities: tuple[vesica.Identity, vesica.Identity],
    tmp_path: Any,
    background: Any,
) -> None:
    ours, theirs = identities
    link = vesica.listen("127.0.0.1:0", identity=ours, peer=theirs.fingerprint)
    process = child(
        PARTY.format(
            key=str(tmp_path / "theirs.key"),
            address=link.address,
            peer=ours.fingerprint,
            rows=2**18,
            role=role,
        )
    )
    peer = None
    run = vesica.send if role == "receive" else vesica.receive
    told: list[float] = []
    agrees = threading.Event()

    def heard(progress: vesica.Progress) -> None:
        if progress.stage == "contract":
            agrees.set()

    def meet() -> None:
        table = polars.DataFrame({"id": range(2**18)})
        try:
            run(table, on="id", link=link, threads=1, progress=heard)
        finally:
            told.append(time.monotonic())

    if stage != "meeting":
        peer = background(meet)
    for line in process.stdout:
        if line == f"stage {stage}\n":
            break
    else:
        pytest.fail(f"no stage {stage}: {process.stderr.read()}")
    # A side that still reads its table waits for a peer that leaves to come again.
    assert peer is None or agrees.wait(30)
    time.sleep(0.02)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    lines = [line.split() for line in process.stdout]
    assert process.wait(30) == 130, process.stderr.read()
    (raised,) = [float(words[1]) for words in lines if words[0] == "interrupted"]
    assert raised - began < 0.1
    if peer is not None:
        with pytest.raises(vesica.NetworkError, match="the peer gave up: interrupted by the user"):
            peer()
        # It may have computed when it was told.
        assert told[0] - began < 10
        print(f"{role}, {stage}: raised after {raised - began:.3f} s, told {told[0] - began:.3f} s")


def test_an_interrupted_run_keeps_its_answer(background: Any, tmp_path: Any) -> None:
    """The peer's part is over by then: without the answer the rows would be lost."""
    table = polars.DataFrame({"id": range(2**18)})
    left, right = vesica.pair()
    kept = tmp_path / "work"

    def progress(event: vesica.Progress) -> None:
        if event.stage == "writing":
            raise KeyboardInterrupt

    sender = background(vesica.send, table, on="id", link=right)
    with pytest.raises(KeyboardInterrupt):
        vesica.receive(table, on="id", link=left, work_dir=kept, progress=progress)
    sender()
    vesica._vesica.wait_for_runs(10)
    again = vesica.receive(table, on="id", link=left, work_dir=kept, wait=1)
    assert (again.size, again.report["peer"]) == (2**18, left.peer)
    assert again.report["computed"] and not kept.exists()


def test_ctrl_c_while_a_table_is_read(child: Any) -> None:
    process = child(
        """
import signal, sys, time
import polars, vesica
table = polars.DataFrame({"id": range(2**22)})
print("ready", flush=True)
try:
    vesica.check(table, on="id")
except KeyboardInterrupt:
    print(time.monotonic(), flush=True)
    sys.exit(130)
"""
    )
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.3)
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    raised = float(process.stdout.readline())
    assert raised - began < 0.1
    assert process.wait(30) == 130


def test_the_interpreter_is_free_while_a_run_waits() -> None:
    """The lock is released: another thread counts on while a run waits for its peer."""
    left, _ = vesica.pair()
    table = polars.DataFrame({"id": [1]})
    counted, over = [0], threading.Event()

    def count() -> None:
        while not over.is_set():
            counted[0] += 1
            time.sleep(0.001)

    counter = threading.Thread(target=count)
    counter.start()
    with pytest.raises(vesica.NetworkError):
        vesica.receive(table, on="id", link=left, wait=0.5)
    over.set()
    counter.join()
    assert counted[0] > 100
