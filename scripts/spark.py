"""Tests `vesica.spark` on clusters of Spark on this machine, against each other and against the command.

Java is the machine's, or else Debian's packages, unpacked below the target directory; pyspark comes from PyPI. Two clusters
take some 5 GB of memory. Exits 1 if anything failed.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import python_package
from debian import unpack
from stages import CARGO, run, say, target_dir

WORK = target_dir() / "spark"
JAVA = "openjdk-17-jre-headless"
PACKAGES = ["pandas==2.3.3", "pyarrow==26.0.1", "pyspark[connect]==4.3.0", "pytest==9.2.0"]


def java() -> Path | None:
    """The home of a Java; nothing if it cannot be fetched."""
    if found := os.environ.get("JAVA_HOME") or shutil.which("java"):
        path = Path(found).resolve()
        return path if path.is_dir() else path.parent.parent
    if unpack([JAVA], WORK):
        return None
    root = WORK / "root"
    home = next((root / "usr/lib/jvm").glob("java-17-openjdk-*"))
    # Its settings are links to /etc, where they are not.
    for link in home.rglob("*"):
        if link.is_symlink() and (target := os.readlink(link)).startswith("/etc/"):
            link.unlink()
            link.symlink_to(root / target[1:])
    return home


def environment(profile: str, name: str) -> tuple[str, dict[str, str]] | None:
    """The Python of an environment with pyspark and a wheel built so, and the variables that it needs; nothing if that failed."""
    if sys.version_info < (3, 11):
        say("pyspark 4.3 needs Python 3.11")
        return None
    WORK.mkdir(parents=True, exist_ok=True)
    home = java()
    wheel = python_package.build(profile)
    python = python_package.environment(name, PACKAGES)
    if home is None or wheel is None or python is None or python_package.install(wheel, python):
        return None
    path = f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return python, {"JAVA_HOME": str(home), "PATH": path}


def main() -> int:
    made = environment("dev", "test-spark")
    if made is None or run([CARGO, "build", "--locked", "--package", "vesica-cli"]):
        return 1
    python, env = made
    env["VESICA_TEST_SPARK"] = "1"
    return python_package.run_tests(python, python_package.PACKAGE / "tests/test_spark.py", env)


if __name__ == "__main__":
    sys.exit(main())
