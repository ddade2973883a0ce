"""ADBC drivers that are installed as Python packages, such as adbc-driver-postgresql."""

from __future__ import annotations

import importlib.util
import pathlib


def library(name: str) -> str | None:
    """The path of a driver's library; `None` if there is no such package."""
    package = f"adbc_driver_{name}"
    # The package is not imported: that would need the driver manager for Python as well.
    found = importlib.util.find_spec(package) if package.isidentifier() else None
    folders = found.submodule_search_locations if found is not None else None
    libraries = [
        path
        for folder in folders or []
        for path in pathlib.Path(folder).glob(f"*{package}.*")
        if path.suffix in (".so", ".dylib", ".dll")
    ]
    return str(libraries[0]) if libraries else None
