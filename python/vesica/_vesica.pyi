"""Private set intersection, without the defaults and types of the package `vesica`."""

import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Protocol, TypeAlias, final

__all__ = [
    "TERMS",
    "Batches",
    "DigestSet",
    "Identity",
    "KeyReader",
    "Link",
    "LookupHandle",
    "Server",
    "SplitJob",
    "__version__",
    "check",
    "check_arguments",
    "connect",
    "distinct",
    "exchange",
    "listen",
    "open_lookup",
    "plan",
    "publish",
    "run",
    "run_command",
    "seconds",
    "serve",
    "split",
    "split_elsewhere",
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
    def load(path: str | os.PathLike[str], passphrase: str | None = None) -> Identity: ...
    @staticmethod
    def from_pem(pem: str, passphrase: str | None = None) -> Identity: ...
    def to_pem(self) -> str: ...
    def save(self, path: str | os.PathLike[str], passphrase: str | None = None) -> None: ...
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
    def __enter__(self) -> Link: ...
    def __exit__(self, *_exception: object) -> None: ...

@final
class Batches:
    @staticmethod
    def of(table: Any) -> Batches: ...
    @staticmethod
    def from_ipc(stream: bytes) -> Batches: ...
    def to_ipc(self) -> bytes: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...
    @property
    def column_names(self) -> list[str]: ...
    def preview(self, rows: int) -> list[list[str | None]]: ...
    def __len__(self) -> int: ...

@final
class KeyReader:
    def __new__(cls, reading: dict[str, Any]) -> KeyReader: ...
    def digests(self, table: Any) -> Batches: ...

@final
class DigestSet:
    def __new__(cls, digests: Any) -> DigestSet: ...
    def has(self, digests: Any) -> Batches: ...

@final
class SplitJob:
    @staticmethod
    def open(directory: str | os.PathLike[str]) -> SplitJob: ...
    @staticmethod
    def open_draft(directory: str | os.PathLike[str]) -> SplitJob: ...
    @property
    def role(self) -> str: ...
    @property
    def contract(self) -> str: ...
    def run(
        self,
        bucket: int,
        attempt: int,
        point: tuple[str, str],
        waiting: dict[str, Any],
        threads_given: int | None,
        listener: _Listener,
    ) -> str: ...
    def next_attempts(
        self, link: Link, waiting: dict[str, Any], listener: _Listener
    ) -> list[tuple[int, int]]: ...
    def open_total(
        self,
        link: Link,
        waiting: dict[str, Any],
        ledger: str | os.PathLike[str] | None,
        ledger_answers: bool,
        listener: _Listener,
    ) -> str: ...
    def total(self) -> str: ...
    def collect(
        self,
        table: Any,
        reading: dict[str, Any],
        rows: str,
        output: str | os.PathLike[str] | None,
        threads_given: int | None,
        kept: tuple[str | os.PathLike[str] | None, bool],
    ) -> tuple[bytes, bytes | None, Batches | None]: ...
    def buckets_of(self, digests: Any) -> Batches: ...
    def cut(self, bucket: int, digests: Any) -> bytes: ...
    def matches(self, bucket: int) -> Batches: ...

@final
class LookupHandle:
    def find(
        self,
        table: Any,
        reading: dict[str, Any],
        rows: str,
        output: str | os.PathLike[str] | None,
        is_last: bool,
        listener: _Listener,
    ) -> _Rowed: ...
    def get(self, key: list[Any], listener: _Listener) -> list[tuple[str, str | None]] | None: ...
    def close(self) -> None: ...

@final
class Server:
    @property
    def address(self) -> str: ...
    @property
    def figures(self) -> dict[str, int]: ...
    def wait(self) -> None: ...
    def stop(self) -> None: ...
    def __enter__(self) -> Server: ...
    def __exit__(self, *_exception: object) -> None: ...

# A report as JSON, the rows that match, those of the result where it has others, and the table of these.
_Rowed: TypeAlias = tuple[str, bytes | None, bytes | None, Batches | None]

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

def run_command(program: list[str], arguments: list[str]) -> int: ...
def listen(address: str, *, identity: Identity, peer: str | tuple[str, str]) -> Link: ...
def connect(
    address: str,
    *,
    identity: Identity,
    peer: str | tuple[str, str],
    proxy: str | None = None,
    sni: str | None = None,
    outer_ca: str | None = None,
) -> Link: ...
def check_arguments(
    arguments: dict[str, Any], identity: Identity | None, link: Link | None, role: str | None
) -> None: ...
def run(
    role: str,
    table: Any,
    reading: dict[str, Any],
    options: dict[str, Any],
    link: Link,
    listener: _Listener,
) -> _Rowed: ...
def publish(
    table: Any,
    add: Any,
    remove: Any,
    reading: dict[str, Any],
    options: dict[str, Any],
    identity: Identity,
    listener: _Listener,
) -> str: ...
def open_lookup(
    reading: dict[str, Any], options: dict[str, Any], link: Link, listener: _Listener
) -> LookupHandle: ...
def serve(options: dict[str, Any], identity: Identity) -> Server: ...
def exchange(
    step: str,
    message: bytes | None,
    table: Any,
    reading: dict[str, Any],
    options: dict[str, Any],
    identity: Identity,
    listener: _Listener,
) -> tuple[bytes | None, _Rowed | None]: ...
def check(table: Any, reading: dict[str, Any], options: dict[str, Any]) -> tuple[str, str, Any]: ...
def split(
    role: str,
    table: Any,
    reading: dict[str, Any],
    options: dict[str, Any],
    limits: dict[str, Any],
    link: Link,
    listener: _Listener,
) -> SplitJob: ...
def split_elsewhere(
    role: str,
    count: Callable[[], int],
    cut: Callable[[], list[bytes]],
    reading: dict[str, Any],
    options: dict[str, Any],
    limits: dict[str, Any],
    link: Link,
    listener: _Listener,
) -> SplitJob: ...
def seconds(name: str, time: float | str | timedelta) -> float: ...
def distinct(digests: Any) -> Batches: ...
def plan(asked: dict[str, Any]) -> str: ...
def wait_for_runs(seconds: float) -> None: ...
