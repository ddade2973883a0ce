"""Tests tables and results in object stores that others wrote: moto's S3, and Azurite for Azure.

moto comes from PyPI and Azurite from npm; both listen on the loopback interface, on ports of their own, and end with this
script. Exits 1 if anything failed. There is no emulator of Google Cloud Storage in these registries.
"""

from __future__ import annotations

import base64
import contextlib
import email.utils
import hashlib
import hmac
import http.client
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from stages import CARGO, run, say, target_dir

WORK = target_dir() / "object_stores"
MOTO, AZURITE = "moto[server]==5.2.5", "azurite@3.37.0"
# Azurite's own account, which its documentation prints.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
SECONDS_TO_START = 60


def installed(name: str, stamp: str, command: Sequence[str]) -> Path | None:
    """A folder for what `command` installs, of which it may make use; nothing if that failed."""
    folder, done = WORK / name, WORK / f"{name}.installed"
    if not (done.is_file() and done.read_text() == stamp):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        if run([*command, stamp]):
            say(f"cannot install {stamp}: a package index is needed")
            return None
        done.write_text(stamp)
    return folder


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def server(command: Sequence[str], port: int) -> Iterator[bool]:
    """A server while it runs; false if it does not answer."""
    with tempfile.TemporaryDirectory() as place, open(Path(place) / "log", "w") as log:
        process = subprocess.Popen(command, cwd=place, stdout=log, stderr=log)
        try:
            until, is_up = time.monotonic() + SECONDS_TO_START, False
            while not is_up and process.poll() is None and time.monotonic() < until:
                with contextlib.suppress(OSError):
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    is_up = True
                if not is_up:
                    time.sleep(0.1)
            if not is_up:
                say(f"{command[0]} does not start: {(Path(place) / 'log').read_text()}")
            yield is_up
        finally:
            process.terminate()
            process.wait()


def put(port: int, path: str, headers: dict[str, str], body: bytes = b"") -> None:
    """Sends a request and fails if it is refused."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("PUT", path, body, headers)
    answer = connection.getresponse()
    if answer.status not in (200, 201):
        raise SystemExit(f"PUT {path}: {answer.status} {answer.read()!r}")
    connection.close()


def put_azure(port: int, path: str, query: str = "", body: bytes | None = None) -> None:
    """The same with the signature of Azure's shared keys."""
    headers = {
        "x-ms-date": email.utils.formatdate(usegmt=True),
        "x-ms-version": "2021-12-02",
    }
    if body is not None:
        headers["x-ms-blob-type"] = "BlockBlob"
    lines = "".join(f"{name}:{headers[name]}\n" for name in sorted(headers))
    resource = f"/{ACCOUNT}/{ACCOUNT}{path}" + "".join(
        f"\n{pair.replace('=', ':')}" for pair in sorted(query.split("&")) if pair
    )
    length = str(len(body)) if body else ""
    signed = "\n".join(["PUT", "", "", length, *[""] * 8]) + "\n" + lines + resource
    mac = hmac.new(base64.b64decode(KEY), signed.encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(mac).decode()}"
    target = f"/{ACCOUNT}{path}" + (f"?{query}" if query else "")
    put(port, target, headers, body or b"")


def parts() -> dict[str, bytes]:
    """A table in two objects."""
    rows = [f"{row},x{row}\n" for row in range(1000)]
    return {
        f"/in/part-{i}.csv": f"id,name\n{''.join(rows[600 * i : 600 * i + 600])}".encode()
        for i in range(2)
    }


def main() -> int:
    WORK.mkdir(parents=True, exist_ok=True)
    python = str(WORK / "venv/bin/python")
    if not Path(python).exists() and run([sys.executable, "-m", "venv", str(WORK / "venv")]):
        return 1
    pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    moto = installed("moto", MOTO, pip)
    npm = ["npm", "install", "--silent", "--no-fund", "--no-audit", "--prefix"]
    azurite = installed("azurite", AZURITE, [*npm, str(WORK / "azurite")])
    if moto is None or azurite is None:
        return 1
    s3_port, azure_port = free_port(), free_port()
    s3 = [python, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(s3_port)]
    azure = ["node", str(azurite / "node_modules/azurite/dist/src/blob/main.js"), "--silent"]
    azure += ["--inMemoryPersistence", "--skipApiVersionCheck", "--blobHost", "127.0.0.1"]
    azure += ["--blobPort", str(azure_port)]
    with (
        server(s3, s3_port) as has_s3,
        server(azure, azure_port) as has_azure,
    ):
        if not (has_s3 and has_azure):
            return 1
        # moto takes any credentials, and the region from them.
        put(s3_port, "/box", {})
        put_azure(azure_port, "/box", "restype=container")
        for path, body in parts().items():
            put(s3_port, f"/box{path}", {}, body)
            put_azure(azure_port, f"/box{path}", body=body)
        env = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{s3_port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AZURE_STORAGE_USE_EMULATOR": "true",
            "AZURITE_BLOB_STORAGE_URL": f"http://127.0.0.1:{azure_port}",
        }
        command = [CARGO, "test", "--locked", "--package", "vesica-cli", "--test", "e2e"]
        return run([*command, "objects::", "--", "--ignored"], env=env)


if __name__ == "__main__":
    sys.exit(main())
