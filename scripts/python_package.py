"""Builds the Python package of python/, and tests it.

    python_package.py install    into the virtual environment target/python/venv
    python_package.py test       in an environment of its own: tests, docstrings, stub, example
    python_package.py wheels     for any Linux of the last ten years, on x86-64 and on aarch64
    python_package.py wheel      for this system, or another processor of it: --target TRIPLE, --out DIR

Tools and libraries come from PyPI, pinned. `wheels` links with zig, and runs what it built in environments with nothing
else, that for aarch64 emulated. Exits 1 if anything failed.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

import aarch64
from debian import unpack
from stages import CARGO, ROOT, run, say, target_dir

PACKAGE = ROOT / "python"
WORK = target_dir() / "python"
WHEELS = WORK / "wheels"
MATURIN = "maturin==1.16.0"
ZIG = "ziglang==0.15.2"
# By the first Python for which they are: the last that each library supports, and the present ones.
LIBRARIES = {
    (
        3,
        9,
    ): "adbc-driver-manager==1.8.0 adbc-driver-postgresql==1.8.0 adbc-driver-sqlite==1.8.0 duckdb==1.4.5 "
    "numpy==2.0.2 pandas==2.3.3 polars==1.36.1 pyarrow==21.0.0",
    (
        3,
        10,
    ): "adbc-driver-manager==1.12.0 adbc-driver-postgresql==1.12.0 adbc-driver-sqlite==1.12.0 duckdb==1.5.6 "
    "numpy==2.2.6 pandas==2.3.3 polars==2.0.0 pyarrow==25.0.1",
    (
        3,
        11,
    ): "adbc-driver-manager==1.13.0 adbc-driver-postgresql==1.13.0 adbc-driver-sqlite==1.13.0 duckdb==2.0.0 "
    "numpy==2.4.6 pandas==3.1.1 polars==2.1.0 pyarrow==26.0.1",
}
TESTS = {
    (
        3,
        9,
    ): "deltalake==1.2.1 ipykernel==6.31.0 mypy==1.19.1 nbclient==0.10.2 pyiceberg[sql-sqlite]==0.10.0 "
    "pydantic==2.11.10 pyparsing==3.2.5 pytest==8.4.2 pyyaml==6.0.3 sqlalchemy==2.0.58",
    (
        3,
        10,
    ): "deltalake==1.6.6 ipykernel==7.3.0 mypy==2.4.1 nbclient==0.11.0 pyiceberg[sql-sqlite]==0.12.0 "
    "pytest==9.2.0 pyyaml==6.0.3 sqlalchemy==2.0.58",
    (
        3,
        11,
    ): "deltalake==1.6.6 ipykernel==7.4.0 mypy==2.4.1 nbclient==0.11.0 pyiceberg[sql-sqlite]==0.12.0 "
    "pytest==9.2.0 pyyaml==6.0.3 sqlalchemy==2.0.58",
}
Version = tuple[int, int]
# The oldest Linux on which the wheels run: glibc 2.17, of 2012.
PLATFORM = "manylinux2014"


def python_of(venv: Path) -> str:
    return str(venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python"))


def pins(table: dict[Version, str], version: Version = sys.version_info[:2]) -> list[str]:
    """What of a table is for a version of Python."""
    return table[max(first for first in table if first <= version)].split()


def pythons() -> dict[Version, str]:
    """The Pythons that the package runs on, of those on the path and of pyenv's, and the one that runs this."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = {}
    for minor in range(9, 30):
        name = f"python3.{minor}"
        for path in [shutil.which(name), *map(str, sorted(pyenv.glob(f"3.{minor}.*/bin/{name}")))]:
            try:
                # A name on the path may be one that only says where to get it.
                subprocess.run([path or "", "-c", "import venv"], check=True, capture_output=True)
                found[3, minor] = path
                break
            except (OSError, subprocess.CalledProcessError):
                pass
    return {**found, sys.version_info[:2]: sys.executable}


def environment(name: str, packages: list[str], base: str = sys.executable) -> str | None:
    """The Python of a virtual environment with these packages; nothing if it cannot be made."""
    venv = WORK / name
    stamp = venv / "installed"
    if stamp.is_file() and stamp.read_text() == " ".join(packages):
        return python_of(venv)
    if run([base, "-m", "venv", "--clear", str(venv)]) == 0:
        pip = [python_of(venv), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        if not packages or run([*pip, *packages]) == 0:
            stamp.write_text(" ".join(packages))
            return python_of(venv)
    say("cannot install the packages: Python's venv and pip, and a package index, are needed")
    return None


def run_with(name: str, packages: list[str], script: str) -> int:
    """Runs a script anew, with its arguments, by the Python of such an environment, which has pyarrow too."""
    pyarrow = [pin for pin in pins(LIBRARIES) if pin.startswith("pyarrow=")]
    python = environment(name, [*packages, *pyarrow])
    return 1 if python is None else run([python, "-B", script, *sys.argv[1:]])


def build(profile: str, *options: str, rust: dict[str, str] | None = None) -> Path | None:
    """Builds a wheel, with another compiler and elsewhere if `rust` says so; nothing if that failed."""
    python = environment("build", [MATURIN, ZIG] if "--zig" in options else [MATURIN])
    if python is None:
        return None
    # A wheel to give away is not replaced by one for tests.
    out = WHEELS if profile == "release" else WORK / "wheels-for-tests"
    before = {wheel: wheel.stat().st_mtime_ns for wheel in out.glob("*.whl")}
    command = [python, "-m", "maturin", "build", "--manifest-path", str(PACKAGE / "Cargo.toml")]
    target = (rust or {}).get("CARGO_TARGET_DIR", str(target_dir()))
    command += ["--target-dir", target, "--out", str(out), "--profile", profile]
    tools = {"PATH": f"{Path(python).parent}{os.pathsep}{os.environ['PATH']}"}
    if profile == "release":
        # No path of this machine goes into what is given away.
        cargo = os.environ.get("CARGO_HOME", Path.home() / ".cargo")
        maps = {cargo: "/cargo", ROOT: "/vesica"}
        flags = [f"--remap-path-prefix={path}={to}" for path, to in maps.items()]
        tools["CARGO_ENCODED_RUSTFLAGS"] = "\x1f".join(flags)
    if run([*command, *options], env={**tools, **(rust or {})}) != 0:
        return None
    wheels = [w for w in out.glob("*.whl") if before.get(w) != w.stat().st_mtime_ns]
    return wheels[0] if len(wheels) == 1 else None


def install(wheel: Path, python: str) -> int:
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    return run([*pip, "--force-reinstall", "--no-deps", str(wheel)])


def install_here() -> int:
    """Installs the package beside the libraries that it is used with."""
    wheel, python = build("release"), environment("venv", pins(LIBRARIES))
    if wheel is None or python is None or install(wheel, python):
        return 1
    say(f"installed; run: {python}")
    return 0


def test_environments(versions: dict[Version, str]) -> dict[Version, str]:
    """Pythons of environments with the package and what its tests need, by version; fewer if something failed."""
    wheel = build("dev")
    if wheel is None or run([CARGO, "build", "--locked", "--package", "vesica-cli"]):
        return {}
    made = {}
    for version, base in versions.items():
        packages = pins(LIBRARIES, version) + pins(TESTS, version)
        python = environment(f"test-3.{version[1]}", packages, base)
        if python is not None and install(wheel, python) == 0:
            made[version] = python
    return made


def test_environment() -> str | None:
    """The same for the Python that runs this; nothing if that failed."""
    here = sys.version_info[:2]
    return test_environments({here: sys.executable}).get(here)


def run_tests(python: str, tests: Path, env: dict[str, str]) -> int:
    """Runs these tests, away from python/, whose folder `vesica` has no module built for it."""
    # jupyter_core warns without it.
    env["JUPYTER_PLATFORM_DIRS"] = "1"
    env["VESICA_COMMAND"] = str(target_dir() / "debug" / "vesica")
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tests)]
    return run(command, env=env, cwd=WORK)


def test() -> int:
    """Runs everything that the package is tested by, on a wheel in environments of its own: with every Python that is
    on the path, and types with the newest.
    """
    versions = pythons()
    made = test_environments(versions)
    failed = [version for version in versions if version not in made]
    for version, python in made.items():
        say(f"with Python 3.{version[1]}:")
        if run_tests(python, PACKAGE / "tests", {}) != 0:
            failed.append(version)
    if made:
        python = made[max(made)]
        settings = str(PACKAGE / "pyproject.toml")
        stub = [python, "-m", "mypy.stubtest", "--mypy-config-file", settings, "vesica"]
        typed = [python, "-m", "mypy", "--config-file", settings, "-p", "vesica"]
        env = {"MYPY_CACHE_DIR": str(WORK / "mypy")}
        failed += [max(made) for line in (stub, typed) if run(line, env=env, cwd=WORK) != 0]
    for version in failed:
        say(f"failed with Python 3.{version[1]}")
    return int(bool(failed))


# Run in an environment with the wheel alone: the package needs nothing else.
SMOKE = """
import vesica, pathlib, tempfile
folder = pathlib.Path(tempfile.mkdtemp())
for name, ids in (("a", range(5000)), ("b", range(4000, 9000))):
    (folder / name).write_text("id\\n" + "".join(f"{i}\\n" for i in ids))
for protocol in ("auto", "compact-dh"):
    received, sent = vesica.rehearse({"table": folder / "a", "on": "id"}, {"table": folder / "b", "on": "id"},
                                     protocol=protocol)
    assert received.size == 1000 and list(received.rows) == list(range(4000, 5000)), received
    print(vesica.__version__, received)
"""


def build_to_give_away(target: str, rust: dict[str, str]) -> Path | None:
    options = ["--target", target, "--zig", "--compatibility", PLATFORM]
    return build("release", *options, rust=rust)


def wheel_for_this_machine() -> int:
    """Builds a wheel, and runs it in an environment with nothing else."""
    wheel = build_to_give_away(f"{os.uname().machine}-unknown-linux-gnu", {})
    python = environment("smoke", [])
    if wheel is None or python is None or install(wheel, python):
        return 1
    return run([python, "-c", SMOKE], cwd=WORK)


def wheel_for_aarch64() -> int:
    """Builds a wheel, and runs it under emulation, in a Debian with Python and nothing else."""
    tools = aarch64.environment()
    if tools is None:
        return 1
    rust = {name: value for name, value in tools.items() if name in ("RUSTC", "CARGO_TARGET_DIR")}
    wheel = build_to_give_away(aarch64.TARGET, rust)
    machine, packages = WORK / "aarch64", WORK / "aarch64" / "packages-of-python"
    if wheel is None or unpack(["python3"], machine, ["arm64"], bare=True):
        return 1
    shutil.rmtree(packages, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    pip += ["--no-deps", "--only-binary", ":all:", "--target", str(packages)]
    pip += ["--platform", f"{PLATFORM}_aarch64", "--abi", "abi3", "--python-version", "3.9"]
    root = machine / "root"
    python = [str(aarch64.EMULATOR), "-L", str(root), str(root / "usr/bin/python3")]
    env = {"PYTHONHOME": str(root / "usr"), "PYTHONPATH": str(packages)}
    return run([*pip, str(wheel)]) or run([*python, "-c", SMOKE], env=env, cwd=WORK)


def wheels() -> int:
    """Builds the wheels to give away."""
    makers = [wheel_for_this_machine]
    if os.uname().machine == "x86_64":
        makers.append(wheel_for_aarch64)
    failed = [make() != 0 for make in makers]
    return int(any(failed))


def wheel_to_give_away(target: str | None, out: str | None) -> int:
    """Builds one wheel for this system."""
    wheel = build("release", *(["--target", target] if target else []))
    if wheel is None:
        return 1
    if out:
        Path(out).mkdir(parents=True, exist_ok=True)
        shutil.copy(wheel, out)
    return 0


ACTIONS = {"install": install_here, "test": test, "wheels": wheels}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=[*ACTIONS, "wheel"])
    parser.add_argument("--target", metavar="TRIPLE", help="of the wheel")
    parser.add_argument("--out", metavar="DIR", help="where to put the wheel too")
    options = parser.parse_args()
    if options.action == "wheel":
        return wheel_to_give_away(options.target, options.out)
    return ACTIONS[options.action]()


if __name__ == "__main__":
    sys.exit(main())
