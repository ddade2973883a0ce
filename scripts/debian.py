"""Debian's packages, unpacked in a folder: nothing is installed, and no root is needed."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from stages import run, say


def is_here(otherwise: str = "") -> bool:
    """Whether packages of Debian for x86-64 can be unpacked here, and run."""
    here = os.uname().machine == "x86_64" and shutil.which("apt-get") is not None
    if not here:
        say(f"this needs Debian on x86-64{otherwise}")
    return here


def archive_of_releases() -> str:
    """Where this machine gets whole releases from, rather than updates of them."""
    form = "$(RELEASE) $(COMPONENT) $(REPO_URI)"
    lines = subprocess.check_output(["apt-get", "indextargets", "--format", form], text=True)
    found = [line.split() for line in lines.splitlines()]
    return next(uri for name, part, uri in found if part == "main" and name.isalpha())


def unpack(
    packages: Sequence[str],
    work: Path,
    architectures: Sequence[str] = (),
    wanted: Callable[[Path], bool] = lambda archive: True,
    bare: bool = False,
    release: str = "",
) -> int:
    """Downloads packages with what they need, and unpacks those `wanted` into `work/root`, unless that has been done.

    With `bare` they are for a machine of the first of `architectures` that has no packages yet. They are of this machine's
    release of Debian, or of another.
    """
    done, root = work / "packages", work / "root"
    names = "\n".join([*packages, *([release] if release else [])]) + "\n"
    if done.exists() and done.read_text() == names:
        return 0
    shutil.rmtree(work / "apt", ignore_errors=True)
    shutil.rmtree(root, ignore_errors=True)
    for folder in ("apt/lists/partial", "apt/archives/partial", "root"):
        (work / folder).mkdir(parents=True)
    # Lists and archives of our own; the machine's packages count as there already.
    options = {
        "Dir::State::Lists": work / "apt/lists",
        "Dir::Cache": work / "apt",
        "APT::Sandbox::User": "",
        "Debug::NoLocking": "1",
        "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled": "false",
    }
    if architectures:
        options["APT::Architectures"] = ",".join(architectures)
    if bare:
        options |= {"APT::Architecture": architectures[0], "Dir::State::status": "/dev/null"}
    if release:
        sources = work / "apt/sources.list"
        sources.write_text(f"deb {archive_of_releases()} {release} main\n")
        options |= {"Dir::Etc::SourceList": sources, "Dir::Etc::SourceParts": "/dev/null"}
    apt = ["apt-get", "-qq", *(f"-o{name}={value}" for name, value in options.items())]
    install = [*apt, "install", "--yes", "--download-only", "--no-install-recommends", *packages]
    for command in ([*apt, "update"], install):
        if code := run(command):
            return code
    for archive in sorted((work / "apt/archives").glob("*.deb")):
        if wanted(archive) and (code := run(["dpkg-deb", "--extract", archive, root])):
            return code
    shutil.rmtree(work / "apt")
    done.write_text(names)
    return 0


def wrapper(work: Path, name: str, program: str, *arguments: str | Path) -> str:
    """A program of the unpacked packages, with their libraries."""
    libraries = work / "root/usr/lib/x86_64-linux-gnu"
    command = shlex.join(map(str, [work / "root/usr" / program, *arguments]))
    path = work / name
    path.write_text(
        f'#!/bin/sh\nLD_LIBRARY_PATH={shlex.quote(str(libraries))} exec {command} "$@"\n'
    )
    path.chmod(0o755)
    return str(path)
