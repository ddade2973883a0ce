"""Ways to the peer, and keys on both ends of them."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars
import pytest

import vesica

OURS = polars.DataFrame({"id": range(50)})
THEIRS = polars.DataFrame({"id": range(30, 90)})
Background = Callable[..., Callable[[], Any]]


def copied(source: socket.socket, target: socket.socket) -> None:
    while data := source.recv(1 << 16):
        target.sendall(data)
    target.shutdown(socket.SHUT_WR)


def proxy() -> tuple[str, list[str]]:
    """A proxy for one connection, and the requests that it has had."""
    listener = socket.create_server(("127.0.0.1", 0))
    requests: list[str] = []

    def serve() -> None:
        near, _ = listener.accept()
        listener.close()
        request = b""
        while not request.endswith(b"\r\n\r\n"):
            request += near.recv(1)
        requests.append(request.decode())
        host, _, port = request.split()[1].decode().rpartition(":")
        far = socket.create_connection((host, int(port)))
        near.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        back = threading.Thread(target=copied, args=(far, near))
        back.start()
        copied(near, far)
        back.join()
        near.close()
        far.close()

    threading.Thread(target=serve, daemon=True).start()
    return f"127.0.0.1:{listener.getsockname()[1]}", requests


def identities(count: int) -> list[vesica.Identity]:
    return [vesica.Identity.generate() for _ in range(count)]


def met(background: Background, listens: vesica.Link, connects: vesica.Link) -> Any:
    sent = background(vesica.send, THEIRS, on="id", link=listens)
    received = vesica.receive(OURS, on="id", link=connects)
    sent()
    assert received.size == 20
    return received


def test_a_proxy_is_passed(background: Background) -> None:
    me, other = identities(2)
    address, requests = proxy()
    listens = vesica.listen("127.0.0.1:0", identity=other, peer=me.fingerprint)
    connects = vesica.connect(
        listens.address,
        identity=me,
        peer=other.fingerprint,
        proxy=f"http://ann:secret@{address}",
        sni="psi.example",
    )
    received = met(background, listens, connects)
    assert requests[0].startswith(f"CONNECT {listens.address} HTTP/1.1\r\n")
    assert "Proxy-Authorization: Basic YW5uOnNlY3JldA==\r\n" in requests[0]
    assert "secret" not in repr((received, received.report, connects))


def test_a_web_socket_is_an_address(background: Background) -> None:
    me, other = identities(2)
    listens = vesica.listen("127.0.0.1:0", identity=other, peer=me.fingerprint)
    connects = vesica.connect(
        f"ws://{listens.address}/psi", identity=me, peer=other.fingerprint, proxy="none"
    )
    met(background, listens, connects)


def test_a_peer_that_changes_its_key_is_met_with_either(background: Background) -> None:
    me, old, new = identities(3)
    for held in (old, new):
        listens = vesica.listen("127.0.0.1:0", identity=held, peer=me.fingerprint)
        both = (old.fingerprint, new.fingerprint)
        connects = vesica.connect(listens.address, identity=me, peer=both)
        assert met(background, listens, connects).report["peer"] == held.fingerprint


def test_what_is_no_way_is_refused() -> None:
    me, other = identities(2)
    wrong: list[dict[str, Any]] = [
        {"address": "https://psi.example/"},
        {"address": "wss://user@psi.example/"},
        {"proxy": "ftp://proxy.example"},
        {"sni": "10.0.0.1"},
        {"outer_ca": "no certificate"},
        {"peer": (other.fingerprint, me.fingerprint)},
        {"peer": (other.fingerprint, "vs1:short")},
    ]
    for options in wrong:
        all_of_them = {"address": "h:1", "identity": me, "peer": other.fingerprint} | options
        with pytest.raises(vesica.UsageError):
            vesica.connect(all_of_them.pop("address"), **all_of_them)


def test_an_identity_is_read_with_its_passphrase(tmp_path: Path) -> None:
    (me,) = identities(1)
    path = tmp_path / "me.key"
    me.save(path, passphrase="correct horse")
    assert "ENCRYPTED PRIVATE KEY" in path.read_text()
    loaded = vesica.Identity.load(path, passphrase="correct horse")
    assert loaded.fingerprint == me.fingerprint
    pem = path.read_text()
    assert vesica.Identity.from_pem(pem, passphrase="correct horse").fingerprint == me.fingerprint
    for passphrase in (None, "", "Correct horse"):
        with pytest.raises(vesica.UsageError) as error:
            vesica.Identity.load(path, passphrase=passphrase)
        assert "horse" not in str(error.value)
        with pytest.raises(vesica.UsageError):
            vesica.Identity.from_pem(pem, passphrase=passphrase)
