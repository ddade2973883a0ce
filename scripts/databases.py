"""Tests queries against real databases, from the command and from Python: a PostgreSQL server of its own, and SQLite.

The server is the machine's PostgreSQL, or else Debian's packages, unpacked below the target directory. It listens on a
socket in a temporary directory only, as a user without privileges if this is run by root, and ends with this script.
The ADBC drivers are the libraries in the wheels of PyPI. Exits 1 if anything failed.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import python_package
from debian import unpack
from stages import CARGO, run, say, target_dir

WORK = target_dir() / "databases"
DRIVERS = ["adbc-driver-postgresql==1.13.0", "adbc-driver-sqlite==1.13.0"]
# A slash in a password has to be escaped in a URI.
PASSWORD = "slash/and space"


def drivers() -> Path | None:
    """The folder of the drivers' wheels, unpacked; nothing if they cannot be fetched."""
    folder, stamp = WORK / "drivers", WORK / "drivers.installed"
    if not (stamp.is_file() and stamp.read_text() == " ".join(DRIVERS)):
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        pip += ["--no-deps", "--upgrade", "--only-binary", ":all:", "--target", str(folder)]
        if run([*pip, *DRIVERS]):
            say("cannot install the drivers: pip and a package index are needed")
            return None
        stamp.write_text(" ".join(DRIVERS))
    return folder


def programs() -> Path | None:
    """The folder of PostgreSQL's programs; nothing if they cannot be fetched."""
    pattern = "usr/lib/postgresql/*/bin/postgres"
    for root in (Path("/"), WORK / "root"):
        if found := sorted(root.glob(pattern)):
            return found[-1].parent
    if unpack(["postgresql"], WORK):
        return None
    return next((found.parent for found in (WORK / "root").glob(pattern)), None)


@contextlib.contextmanager
def server(programs: Path) -> Iterator[dict[str, str] | None]:
    """A server while it runs, as the environment of the tests; nothing if it does not start."""
    user = "nobody" if os.name == "posix" and os.geteuid() == 0 else None
    libraries = WORK / "root/usr/lib" / f"{os.uname().machine}-linux-gnu"
    env = {**os.environ, "LC_ALL": "C.UTF-8", "PGPASSWORD": PASSWORD}
    env["LD_LIBRARY_PATH"] = f"{libraries}{os.pathsep}{os.environ.get('LD_LIBRARY_PATH', '')}"
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / "password").write_text(PASSWORD)
        if user:
            for path in (place, place / "password"):
                os.chown(path, 65534, 65534)

        def call(*command: str | Path) -> bool:
            said = subprocess.run(
                command, cwd=place, env=env, user=user, capture_output=True, text=True, check=False
            )
            if said.returncode:
                say(f"{Path(command[0]).name}: {said.stdout}{said.stderr}")
            return said.returncode == 0

        data, log = place / "data", place / "log"
        initdb = [programs / "initdb", "--username=vesica", "--auth=scram-sha-256"]
        initdb += [f"--pwfile={place / 'password'}", "--encoding=UTF8", "--no-sync", data]
        options = f"-c listen_addresses= -c unix_socket_directories={place} -c fsync=off"
        start = [programs / "pg_ctl", "--pgdata", data, "--log", log, "--options", options]
        if not (call(*initdb) and call(*start, "--wait", "start")):
            say(log.read_text() if log.exists() else "")
            yield None
            return
        os.chmod(place, 0o755)
        try:
            yield {
                "PGHOST": name,
                "PGUSER": "vesica",
                "PGPASSWORD": PASSWORD,
                "VESICA_TEST_PSQL": str(programs / "psql"),
                "LD_LIBRARY_PATH": env["LD_LIBRARY_PATH"],
            }
        finally:
            call(programs / "pg_ctl", "--pgdata", data, "--mode", "immediate", "stop")


def main() -> int:
    WORK.mkdir(parents=True, exist_ok=True)
    folder, found = drivers(), programs()
    if folder is None or found is None:
        return 1
    with server(found) as env:
        if env is None:
            return 1
        env["VESICA_TEST_DRIVERS"] = str(folder)
        command = [
            CARGO,
            "test",
            "--locked",
            "--package",
            "vesica-cli",
            "--package",
            "vesica-tables",
            "--test",
            "e2e",
            "--test",
            "tables",
            "databases::",
        ]
        failed = run([*command, "--", "--ignored"], env=env) != 0
        # Every home of a table against every other, PostgreSQL among them.
        python = python_package.test_environment()
        matrix = python_package.PACKAGE / "tests" / "test_matrix.py"
        return int(python is None or python_package.run_tests(python, matrix, env) != 0 or failed)


if __name__ == "__main__":
    sys.exit(main())
