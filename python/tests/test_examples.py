"""The examples for jobs and containers run as they are, on this machine alone."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import runpy
import shlex
import socket
import subprocess
import sys
import types
import warnings
from pathlib import Path
from typing import Any

import polars
import pytest
import yaml
from conftest import CUSTOMERS, DATA, DONORS, ROOT, expected_rows, rows_of

import vesica

EXAMPLES = ROOT / "examples"
SHOP = {"on": "contact", "normalize": {"contact": "email"}}


class GivesUp(Exception):
    """What Airflow raises for a task that is not tried again."""


class Operator:
    """A task, with the arguments that it was made with."""

    def __init__(self, task_id: str, **arguments: Any) -> None:
        self.id, self.arguments = task_id, arguments


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A stand-in for Airflow, with what the example takes of it; has the tasks by name once the example is loaded."""
    tasks: dict[str, Any] = {}

    class Dag:
        def __init__(self, name: str, **arguments: Any) -> None:
            assert arguments["default_args"]["retries"] > 0

        def __enter__(self) -> None: ...

        def __exit__(self, *error: object) -> None: ...

    class Task(Operator):
        def __init__(self, task_id: str, **arguments: Any) -> None:
            super().__init__(task_id, **arguments)
            tasks[task_id] = arguments

        def __rshift__(self, after: Task) -> Task:
            return after

    standard = "airflow.providers.standard"
    for name, contents in {
        "airflow": {},
        "airflow.exceptions": {"AirflowFailException": GivesUp},
        "airflow.providers": {},
        standard: {},
        f"{standard}.operators": {},
        f"{standard}.operators.bash": {"BashOperator": Task},
        f"{standard}.operators.python": {"PythonOperator": Task},
        "airflow.sdk": {"DAG": Dag},
    }.items():
        module = types.ModuleType(name)
        vars(module).update(contents)
        monkeypatch.setitem(sys.modules, name, module)
    return tasks


@pytest.fixture
def job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, airflow: dict[str, Any], command: str
) -> tuple[vesica.Link, dict[str, Any]]:
    """The shop's link, and the tasks of the charity's job."""
    charity, shop = vesica.Identity.generate(), vesica.Identity.generate()
    charity.save(tmp_path / "charity.key")
    # As text: polars before 2.0 reads no floating-point column of a current Parquet writer.
    polars.read_csv(DONORS, infer_schema=False).write_parquet(tmp_path / "donors.parquet")
    link = vesica.listen("127.0.0.1:0", identity=shop, peer=charity.fingerprint)
    for name, value in (
        ("VESICA_JOB", str(tmp_path)),
        ("VESICA_PEER", shop.fingerprint),
        ("VESICA_CONNECT", link.address),
        ("PATH", f"{Path(command).parent}{os.pathsep}{os.environ['PATH']}"),
    ):
        monkeypatch.setenv(name, value)
    runpy.run_path(str(EXAMPLES / "airflow" / "donors_dag.py"))
    return link, airflow


@pytest.mark.filterwarnings("ignore:.* rows have no usable key")
@pytest.mark.parametrize("task", ["from_python", "from_a_shell"])
def test_a_job_leaves_rows_and_a_report(
    task: str, job: tuple[vesica.Link, dict[str, Any]], background: Any, tmp_path: Path
) -> None:
    link, tasks = job
    shop = background(vesica.send, CUSTOMERS, link=link, **SHOP)
    if task == "from_python":
        kept = tasks[task]["python_callable"]()
        json.dumps(kept)
    else:
        done = shell(tasks[task])
        assert done.returncode == 0, done.stderr
        kept = json.loads(done.stdout.splitlines()[-1])
        assert (kept["exit_code"], kept["error"]) == (0, None)
    shop()
    assert (kept["rows"], kept["matches"], kept["peer_items"]) == (200, 41, 295)
    shared = polars.read_parquet(tmp_path / "shared.parquet")
    assert shared.equals(polars.read_csv(DONORS, infer_schema=False)[expected_rows()])


def shell(task: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    line = ["bash", "-c", task["bash_command"]]
    return subprocess.run(line, check=False, capture_output=True, text=True, encoding="utf-8")


@pytest.mark.filterwarnings("ignore:.* rows have no usable key")
def test_a_job_is_tried_again_where_that_may_help(
    job: tuple[vesica.Link, dict[str, Any]], background: Any, tmp_path: Path
) -> None:
    link, tasks = job
    # The shop leaves while the charity waits for it.
    table = polars.DataFrame({"contact": ["a@x.org"]})
    other = {"on": "contact", "link": link}
    for error, expected, terms in (
        (vesica.ContractError, GivesUp, {"lambda_": 50, **SHOP}),
        (vesica.ResourceError, vesica.ResourceError, {"max_peer_items": 5, **SHOP}),
    ):
        shop = background(vesica.send, table, **(other | terms))
        with pytest.raises(expected, match=r"lambda|allows 5"):
            tasks["from_python"]["python_callable"]()
        with pytest.raises(error):
            shop()
        shop = background(vesica.send, table, **(other | terms))
        done = shell(tasks["from_a_shell"])
        assert done.returncode == error.exit_code
        report = json.loads(done.stdout.splitlines()[-1])
        assert (report["exit_code"], report["error"] is None) == (error.exit_code, False)
        with pytest.raises(error):
            shop()
    (tmp_path / "donors.parquet").write_bytes(b"")
    with pytest.raises(GivesUp, match=r"exit code 3"):
        tasks["from_python"]["python_callable"]()
    assert not (tmp_path / "shared.parquet").exists()


def test_the_containers_of_the_compose_file_meet(child: Any, command: str, tmp_path: Path) -> None:
    """What the two containers would run, with the folders of this machine in the place of their volumes."""
    folder = EXAMPLES / "compose"
    compose = yaml.safe_load((folder / "compose.yaml").read_text(encoding="utf-8"))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    fingerprints = {}
    for party in ("charity", "shop"):
        identity = vesica.Identity.generate()
        identity.save(tmp_path / f"{party}.key")
        fingerprints[party.upper()] = identity.fingerprint
    processes = []
    for service in compose["services"].values():
        volumes = [volume.split(":")[:2] for volume in service["volumes"]]
        places = {inside: (folder / outside).resolve() for outside, inside in volumes}
        assert places["/data"] == DATA
        places["/out"] = tmp_path
        (secret,) = service["secrets"]
        assert compose["secrets"][secret]["file"] == secret
        places["/run/secrets"] = tmp_path
        places["0.0.0.0:7340"] = places["shop:7340"] = f"127.0.0.1:{port}"

        def here(text: str, places: dict[str, Any] = places) -> str:
            for inside, outside in places.items():
                text = text.replace(inside, str(outside))
            variable = re.match(r"\$\{(\w+):\?", text)
            return fingerprints[variable.group(1)] if variable else text

        variables = {name: here(value) for name, value in service["environment"].items()}
        words = shlex.split(here(service["command"]))
        line = ["env", *(f"{name}={value}" for name, value in variables.items()), command, *words]
        processes.append(child(line))
        assert service["user"].startswith("${OWNER:?") and service["image"] == "vesica"
    for process in processes:
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said
    assert rows_of(tmp_path / "shared.csv") == [rows_of(DONORS)[i] for i in expected_rows()]
    assert json.loads((tmp_path / "report.json").read_text())["matches"] == 41


def test_the_image_is_built_as_make_builds_the_command() -> None:
    """The image itself needs an engine."""
    lines = (EXAMPLES / "compose" / "Dockerfile").read_text().splitlines()
    (build,) = [line.removeprefix("RUN ") for line in lines if line.startswith("RUN ")]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert f"\nbuild:\n\t{build}\n" in makefile.replace("$(CARGO)", "cargo")
    version = re.search(r"rust-version = \"([\d.]+)\"", (ROOT / "Cargo.toml").read_text()).group(1)
    assert any(line.startswith(f"FROM rust:{version}-") for line in lines)


def blocks_of(page: str, heading: str) -> list[str]:
    """The blocks of a transcript below a heading of a page."""
    text = (ROOT / page).read_text(encoding="utf-8")
    section = text.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return re.findall(
        r"^```(?:console notebook|text)\n(.*?)^```", section, re.MULTILINE | re.DOTALL
    )


def steady(text: str) -> str:
    """The text without what differs from run to run."""
    seconds = r"(?<=seconds {9})[\d.]+|[\d.]+(?= s>)"
    for varies in (r"vs1:[a-z2-7]{56}", r"\d+(?= sent,| received$)", seconds):
        text = re.sub(varies, "…", text, flags=re.MULTILINE)
    return "\n".join(line.rstrip() for line in text.splitlines())


@pytest.fixture
def folder(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory of both parties, with both tables; `vesica` is the command there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(command).parent}{os.pathsep}{os.environ['PATH']}")
    for table in (DONORS, CUSTOMERS):
        (tmp_path / table.name).write_bytes(table.read_bytes())
    return tmp_path


def test_the_transcript_of_a_notebook_and_a_shell(child: Any, folder: Path) -> None:
    """A notebook's cells and a shell's lines, typed as they stand there, print what stands there."""
    names: dict[str, Any] = {}
    # What the two sides tell each other, and where they are, differs from run to run.
    real: dict[str, str] = {}
    sender, expected = None, ""
    for block in blocks_of("docs/getting-started.md", "Between a notebook and a shell"):
        before, *turns = re.split(r"^(?=shop\$ |>>> )", block, flags=re.MULTILINE)
        # What the shop says once the charity has run.
        expected += before
        for turn in turns:
            typed, _, printed = turn.replace("\\\n", "").partition("\n")
            for theirs, ours in real.items():
                typed = typed.replace(theirs, ours)
            prompt, line = typed.split(" ", 1)
            if prompt == ">>>":
                said = prompted(line, names)
            elif "--listen" in line:
                sender = child(["bash", "-c", line.replace("0.0.0.0:7340", "127.0.0.1:0")])
                said = sender.stderr.readline() + sender.stderr.readline()
                real["shop.example:7340"] = said.split()[-1]
                said = said.replace(said.split()[-1], "0.0.0.0:7340")
                said += sender.stderr.readline() + sender.stderr.readline()
            else:
                shell = ["bash", "-c", line]
                done = subprocess.run(shell, capture_output=True, text=True, check=True)
                said = done.stdout + done.stderr
            fingerprint = r"vs1:[a-z2-7]{56}"
            real |= zip(re.findall(fingerprint, printed), re.findall(fingerprint, said))
            assert steady(said) == steady(printed), line
    assert len(real) == 3
    assert steady(sender.stderr.read()) == steady(expected)
    assert sender.wait(60) == 0


def prompted(code: str, names: dict[str, Any]) -> str:
    """Runs a line as Python's prompt does; gives what it shows."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        exec(compile(code, "<stdin>", "single"), names)  # noqa: S102
    said = [f"<stdin>:1: {each.category.__name__}: {each.message}\n" for each in warned]
    return "".join(said) + out.getvalue()
