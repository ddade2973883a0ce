"""The command that the package installs: the same code, in the interpreter's process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import expected_rows

import vesica

SCRIPT = Path(sys.executable).with_name("vesica")
WAYS = [[str(SCRIPT)], [sys.executable, "-m", "vesica"]]


def ended(
    words: list[str], *more: str, env: dict[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*words, *more],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **(env or {})},
        cwd=cwd,
    )


@pytest.mark.parametrize("way", WAYS, ids=["script", "module"])
def test_the_command_starts_itself_again(way: list[str], tmp_path: Path) -> None:
    done = ended(way, "demo", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"{len(expected_rows())} of" in done.stdout, done.stdout


@pytest.mark.parametrize("way", WAYS, ids=["script", "module"])
def test_it_is_what_the_binary_is(way: list[str], command: str) -> None:
    for line in (
        ["--version"],
        ["--help"],
        ["receive", "--help"],
        ["completions", "bash"],
        ["man"],
    ):
        ours, theirs = ended(way, *line), ended([command], *line)
        assert (ours.returncode, ours.stdout) == (theirs.returncode, theirs.stdout), line
    assert ended(way, "--version").stdout.split()[-1] == vesica.__version__


def test_its_exit_codes_are_the_commands(command: str, tmp_path: Path) -> None:
    for line in ([], ["recieve"], ["check", "--input", "missing.csv", "--key", "id"]):
        ours, theirs = ended(WAYS[1], *line, cwd=tmp_path), ended([command], *line, cwd=tmp_path)
        assert ours.returncode == theirs.returncode != 0
        assert ours.stderr == theirs.stderr


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_ctrl_c_ends_it_in_order(
    identities: tuple[vesica.Identity, vesica.Identity], tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text("id\n1\n")
    line = "send --input a.csv --key id --listen 127.0.0.1:0 --identity theirs.key --peer".split()
    process = subprocess.Popen(
        [*WAYS[1], *line, identities[0].fingerprint],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    for said in process.stderr:
        if said.startswith("listening on"):
            break
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130, said
    assert "Traceback" not in said and "interrupted" in said


@pytest.mark.skipif(sys.platform != "linux", reason="nobody else knows that it was closed")
def test_a_closed_standard_output_is_an_error(command: str, tmp_path: Path) -> None:
    for number, words in enumerate((*WAYS, [command])):
        for line in (["--version"], ["keygen", "--out", f"{number}.key"]):
            done = ended(["sh", "-c", 'exec "$@" >&-', "sh", *words, *line], cwd=tmp_path)
            assert done.returncode == 7, (words, line, done.stderr)
            assert "standard output cannot be written: it is closed" in done.stderr
