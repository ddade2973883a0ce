"""Private set intersection, without the defaults and types of the package `vesica`."""

import os
from typing import Any, Protocol, final

__all__ = [
    "TERMS",
    "Batches",
    "Identity",
    "Link",
    "__version__",
    "check",
    "connect",
    "listen",
    "plan",
    "run",
    "wait_for_runs",
]

__version__: str
# The options that set what both sides must agree on.
TERMS: list[str]

@final
class Identity:
    @staticmethod
    def generate() -> Identity: ...
    @staticmethod
    def load(path: str | os.PathLike[str]) -> Identity: ...
    @staticmethod
    def from_pem(pem: str) -> Identity: ...
    def to_pem(self) -> str: ...
    def save(self, path: str | os.PathLike[str]) -> None: ...
    @property
    def fingerprint(self) -> str: ...

@final
class Link:
    @property
    def address(self) -> str: ...
    @property
    def listens(self) -> bool: ...
    @property
    def peer(self) -> str: ...
    def cancel(self) -> None: ...

@final
class Batches:
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...
    @property
    def column_names(self) -> list[str]: ...
    def __len__(self) -> int: ...

class _Listener(Protocol):
    def warn(self, text: str) -> None: ...
    def progress(
        self,
        stage: str,
        done: int | None,
        total: int | None,
        bucket: int | None,
        buckets: int | None,
        bytes_sent: int,
        bytes_received: int,
        /,
    ) -> None: ...

def listen(address: str, *, identity: Identity, peer: str) -> Link: ...
def connect(address: str, *, identity: Identity, peer: str) -> Link: ...
def run(
    role: str,
    table: Any,
    reading: dict[str, Any],
    options: dict[str, Any],
    link: Link,
    listener: _Listener,
) -> tuple[str, bytes | None, Batches | None]: ...
def check(table: Any, reading: dict[str, Any]) -> tuple[str, str]: ...
def plan(asked: dict[str, Any]) -> str: ...
def wait_for_runs(seconds: float) -> None: ...
