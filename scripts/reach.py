"""Tests runs, look-ups and tasks through proxies that others wrote, where no other way leads from one side to the other.

    reach.py [--build] [WAY ...]

Two network namespaces have a link each to a third, which forwards nothing: a side in one reaches the other only through what
runs in the third. That is Debian's squid, tinyproxy, microsocks, HAProxy, nginx and Caddy, unpacked below the target directory.
Needs Debian on x86-64 and root, or user namespaces. Prints a table of what passed, and exits 1 if anything failed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from debian import is_here, unpack
from stages import CARGO, run, say, target_dir

WORK = target_dir() / "reach"
PACKAGES = [
    "squid",
    "tinyproxy-bin",
    "microsocks",
    "haproxy",
    "nginx-light",
    "libnginx-mod-stream",
    "apache2-utils",
    "caddy",
    "openssl",
]
INSIDE = "VESICA_REACH_INSIDE"
# The namespaces of the side that connects and of the one that listens, and their addresses and the middle's.
LEFT, RIGHT = "left", "right"
NEAR, FAR = "10.7.1.1", "10.7.2.2"
NAME = "psi.example"
# A name of the side that listens, with an address that is silent before its own.
BOTH = "both.example"
# Rows that both tables have.
SHARED = 250


class Way(NamedTuple):
    """A way through: what starts the program, and what the side that connects says."""

    name: str
    start: Callable[[Path], list[str]]
    port: int
    options: list[str]
    environment: dict[str, str]
    # Where it connects to, if not to the peer itself.
    address: str | None = None


def program(name: str) -> str:
    for folder in ("usr/sbin", "usr/bin"):
        path = WORK / "root" / folder / name
        if path.is_file():
            return str(path)
    raise FileNotFoundError(name)


def squid(place: Path, port: int, rules: str) -> list[str]:
    config = place / f"squid-{port}.conf"
    root = WORK / "root"
    config.write_text(
        f"{rules}http_access deny all\nhttp_port {NEAR}:{port}\npid_filename {place}/squid-{port}.pid\n"
        f"cache deny all\naccess_log none\ncache_log {place}/squid-{port}.log\ncache_store_log none\n"
        f"coredump_dir {place}\nmime_table {root}/usr/share/squid/mime.conf\n"
        f"icon_directory {root}/usr/share/squid/icons\nerror_directory {root}/usr/share/squid/errors/templates\n"
        f"shutdown_lifetime 1 seconds\ncache_effective_user nobody\n"
        f"err_page_stylesheet {root}/etc/squid/errorpage.css\npinger_enable off\nunlinkd_program {root}/usr/lib/squid/unlinkd\n"
    )
    return [program("squid"), "-N", "-f", str(config)]


def squid_with_password(place: Path) -> list[str]:
    users = place / "users"
    hashed = subprocess.check_output(["openssl", "passwd", "-apr1", "a b@c"], text=True).strip()
    users.write_text(f"ann:{hashed}\n")
    users.chmod(0o644)
    helper = WORK / "root/usr/lib/squid/basic_ncsa_auth"
    rules = f"auth_param basic program {helper} {users}\nauth_param basic children 1\n"
    return squid(place, 3129, f"{rules}acl known proxy_auth REQUIRED\nhttp_access allow known\n")


def squid_for_443(place: Path) -> list[str]:
    return squid(place, 3130, "acl usual port 443\nhttp_access allow CONNECT usual\n")


def tinyproxy(place: Path) -> list[str]:
    config = place / "tinyproxy.conf"
    config.write_text(f"Port 8888\nListen {NEAR}\nTimeout 600\nAllow 10.7.1.0/24\nLogLevel Error\n")
    return [program("tinyproxy"), "-d", "-c", str(config)]


def haproxy(place: Path) -> list[str]:
    config = place / "haproxy.cfg"
    config.write_text(
        "defaults\n mode tcp\n timeout connect 5s\n timeout client 600s\n timeout server 600s\n"
        f"frontend shared\n bind {NEAR}:7443\n tcp-request inspect-delay 5s\n"
        " tcp-request content accept if { req_ssl_hello_type 1 }\n"
        f" use_backend psi if {{ req_ssl_sni -i {NAME} }}\n"
        f"backend psi\n server far {FAR}:7340\n"
    )
    return [program("haproxy"), "-db", "-f", str(config)]


def nginx(place: Path) -> list[str]:
    config = place / "nginx.conf"
    module = WORK / "root/usr/lib/nginx/modules/ngx_stream_module.so"
    config.write_text(
        f"load_module {module};\ndaemon off;\nuser root;\npid {place}/nginx.pid;\nerror_log {place}/nginx.log;\n"
        f"events {{}}\nstream {{\n map $ssl_preread_server_name $to {{ {NAME} {FAR}:7340; }}\n"
        f" server {{ listen {NEAR}:8443; ssl_preread on; proxy_pass $to; proxy_timeout 600s; }}\n}}\n"
    )
    return [program("nginx"), "-c", str(config), "-p", str(place)]


def certified(place: Path) -> tuple[Path, Path]:
    """A certificate for the middle's address with its key, by an authority made for it."""
    chain = place / "chain.pem"
    if not chain.exists():
        openssl = shutil.which("openssl") or program("openssl")
        names = place / "names"
        names.write_text(f"subjectAltName=IP:{NEAR}\n")
        sign = [openssl, "x509", "-req", "-in", "web.csr", "-CA", "ca.pem", "-CAkey", "ca.key"]
        new = [openssl, "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        for words in (
            [*new, "-x509", "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=Authority"],
            [*new, "-keyout", "web.key", "-out", "web.csr", "-subj", f"/CN={NAME}"],
            [*sign, "-CAcreateserial", "-extfile", str(names), "-out", str(chain)],
        ):
            subprocess.run(words, cwd=place, check=True, capture_output=True)
        (place / "both.pem").write_text(chain.read_text() + (place / "web.key").read_text())
    return chain, place / "web.key"


def nginx_web(place: Path) -> list[str]:
    chain, key = certified(place)
    config = place / "nginx-web.conf"
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    folders = "".join(f" {kind}_temp_path {place}/{kind};\n" for kind in kinds)
    config.write_text(
        f"daemon off;\nuser root;\npid {place}/nginx.pid;\nerror_log {place}/nginx.log;\nevents {{}}\n"
        f"http {{\n access_log off;\n{folders} server {{\n  listen {NEAR}:9443 ssl;\n  ssl_certificate {chain};\n"
        f"  ssl_certificate_key {key};\n  location /psi {{\n   proxy_pass http://{FAR}:7340;\n"
        "   proxy_http_version 1.1;\n   proxy_set_header Upgrade $http_upgrade;\n"
        '   proxy_set_header Connection "upgrade";\n   proxy_set_header Host $host;\n'
        "   proxy_read_timeout 1h;\n   proxy_send_timeout 1h;\n  }\n }\n}\n"
    )
    return [program("nginx"), "-c", str(config), "-p", str(place)]


def caddy(place: Path) -> list[str]:
    chain, key = certified(place)
    config = place / "Caddyfile"
    config.write_text(
        "{\n admin off\n auto_https off\n}\n"
        f"https://{NEAR}:9444 {{\n tls {chain} {key}\n"
        f" handle /psi* {{\n  reverse_proxy {FAR}:7340\n }}\n}}\n"
    )
    words = [program("caddy"), "run", "--adapter", "caddyfile", "--config", str(config)]
    return ["env", f"HOME={place}", *words]


def haproxy_web(place: Path) -> list[str]:
    certified(place)
    config = place / "haproxy-web.cfg"
    config.write_text(
        "defaults\n mode http\n timeout connect 5s\n timeout client 60s\n timeout server 60s\n"
        f" timeout tunnel 1h\nfrontend web\n bind {NEAR}:9445 ssl crt {place / 'both.pem'}\n"
        f" use_backend psi if {{ path_beg /psi }}\nbackend psi\n server far {FAR}:7340\n"
    )
    return [program("haproxy"), "-db", "-f", str(config)]


def microsocks(*words: str) -> Callable[[Path], list[str]]:
    return lambda place: [program("microsocks"), "-i", NEAR, *words]


def ways() -> list[Way]:
    everybody = "http_access allow all\n"
    with_password = {"HTTPS_PROXY": f"http://ann:a%20b%40c@{NEAR}:3129"}
    by_name = ["--sni", NAME]
    # Beside the sides' own folders.
    trusted = ["--outer-ca", "../../proxy/ca.pem"]
    return [
        Way(
            "squid",
            lambda place: squid(place, 3128, everybody),
            3128,
            ["--proxy", f"http://{NEAR}:3128"],
            {},
        ),
        Way("squid, HTTPS_PROXY with a password", squid_with_password, 3129, [], with_password),
        Way("tinyproxy, ALL_PROXY", tinyproxy, 8888, [], {"ALL_PROXY": f"http://{NEAR}:8888"}),
        Way(
            "microsocks", microsocks("-p", "1080"), 1080, ["--proxy", f"socks5h://{NEAR}:1080"], {}
        ),
        Way(
            "microsocks with a password",
            microsocks("-p", "1081", "-u", "ann", "-P", "secret"),
            1081,
            [],
            {"VESICA_PROXY": f"socks5://ann:secret@{NEAR}:1081"},
        ),
        Way("HAProxy, by name", haproxy, 7443, by_name, {}, f"{NEAR}:7443"),
        Way("nginx, by name", nginx, 8443, by_name, {}, f"{NEAR}:8443"),
        Way("nginx, WebSocket", nginx_web, 9443, trusted, {}, f"wss://{NEAR}:9443/psi"),
        Way("Caddy, WebSocket", caddy, 9444, trusted, {}, f"wss://{NEAR}:9444/psi"),
        Way("HAProxy, WebSocket", haproxy_web, 9445, trusted, {}, f"wss://{NEAR}:9445/psi/a?b=c"),
    ]


def inside(where: str, words: list[str]) -> list[str]:
    return ["ip", "netns", "exec", where, *words]


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def lay() -> None:
    """Makes the namespaces and their links."""
    ip("link", "set", "lo", "up")
    for number, side in ((1, LEFT), (2, RIGHT)):
        ip("netns", "add", side)
        ip("link", "add", f"to-{side}", "type", "veth", "peer", "name", "out", "netns", side)
        ip("address", "add", f"10.7.{number}.1/24", "dev", f"to-{side}")
        ip("address", "add", f"fd07:{number}::1/64", "dev", f"to-{side}", "nodad")
        ip("link", "set", f"to-{side}", "up")
        for words in (
            ["link", "set", "lo", "up"],
            ["address", "add", f"10.7.{number}.2/24", "dev", "out"],
            ["address", "add", f"fd07:{number}::2/64", "dev", "out", "nodad"],
            ["link", "set", "out", "up"],
            ["route", "add", "default", "via", f"10.7.{number}.1"],
            # Whatever takes this way is lost without a word.
            ["-6", "route", "add", "default", "via", f"fd07:{number}::1"],
        ):
            ip("-netns", side, *words)


class Failed(Exception):
    """A run that did not do what it should."""


class Sides:
    """Both sides' files, and the commands that they run."""

    def __init__(self, place: Path) -> None:
        self.place, self.binary = place, str(target_dir() / "release" / "vesica")
        self.fingerprints = {}
        for side, first in ((LEFT, 0), (RIGHT, SHARED)):
            folder = place / side
            folder.mkdir()
            rows = "".join(f"{number}\n" for number in range(first, first + 2 * SHARED))
            (folder / "table.csv").write_text("id\n" + rows)
            made = self.ran(side, {}, "keygen", "--out", "own.key")
            self.fingerprints[side] = made.stdout.strip()
        (place / RIGHT / "clients").write_text(self.fingerprints[LEFT] + "\n")

    def who(self, side: str) -> list[str]:
        other = RIGHT if side == LEFT else LEFT
        return ["--identity", "own.key", "--peer", self.fingerprints[other]]

    def start(self, side: str, env: dict[str, str], *words: str) -> subprocess.Popen[str]:
        plain = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
        return subprocess.Popen(
            inside(side, [self.binary, *words]),
            cwd=self.place / side,
            env={**plain, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def ran(
        self, side: str, env: dict[str, str], *words: str, expected: int = 0
    ) -> subprocess.CompletedProcess[str]:
        process = self.start(side, env, *words)
        out, err = process.communicate(timeout=120)
        if process.returncode != expected:
            raise Failed(f"{side}: vesica {words[0]} ended with {process.returncode}: {err}")
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def pair(self, way: Way, left: list[str], right: list[str]) -> str:
        """Runs the right side, which listens, and the left, which connects; what the left says."""
        listening = self.start(RIGHT, {}, *right, "--listen", f"{FAR}:7340", *self.who(RIGHT))
        try:
            address = way.address or f"{FAR}:7340"
            connect = ["--connect", address, *way.options, *self.who(LEFT)]
            done = self.ran(LEFT, way.environment, *left, *connect)
            if code := listening.wait(60):
                raise Failed(f"{right[0]} ended with {code}: {listening.stderr.read()}")
            return done.stdout + done.stderr
        finally:
            listening.kill()
            listening.communicate()

    def check(self, text: str) -> None:
        rows = sorted(int(row) for row in text.split()[1:] if row.isdigit())
        if rows != list(range(SHARED, 2 * SHARED)):
            raise Failed(f"wrong rows: {text[:300]}")

    TABLE = ("--input", "table.csv", "--key", "id")

    def run(self, way: Way) -> None:
        said = self.pair(
            way, ["receive", *self.TABLE, "--output", "shared.csv"], ["send", *self.TABLE]
        )
        self.check((self.place / LEFT / "shared.csv").read_text())
        if (way.address is None) != ("through the proxy" in said):
            raise Failed(f"it does not say which proxy: {said}")
        if "secret" in said or "a%20b" in said:
            raise Failed("it says a password")

    def look_up(self, way: Way) -> None:
        right = self.place / RIGHT
        if not (right / "set.vset").exists():
            words = ["publish", *self.TABLE, "--set-dir", "set", "--identity", "own.key"]
            self.ran(RIGHT, {}, *words, "--output", "set.vset", "--queries", "2^16")
            shutil.copy(right / "set.vset", self.place / LEFT / "set.vset")
        serve = ["serve", "--set-dir", "set", "--identity", "own.key", "--clients", "clients"]
        serving = self.start(RIGHT, {}, *serve, "--quota", "60000", "--listen", f"{FAR}:7340")
        try:
            connect = ["--connect", way.address or f"{FAR}:7340", *way.options, *self.who(LEFT)]
            words = ["lookup", *self.TABLE, "--set", "set.vset", "--output", "found.csv", *connect]
            self.ran(LEFT, way.environment, *words)
            self.check((self.place / LEFT / "found.csv").read_text())
        finally:
            serving.terminate()
            serving.communicate()

    def tasks(self, way: Way) -> None:
        for side in (LEFT, RIGHT):
            shutil.rmtree(self.place / side / "job", ignore_errors=True)
        split = ["split", *self.TABLE, "--job", "job", "--task-memory", "1G", "--role"]
        self.pair(way, [*split, "receiver"], [*split, "sender"])
        bucket = ["bucket", "--job", "job", "--bucket", "0"]
        listening = self.start(RIGHT, {}, *bucket, "--listen", f"{FAR}:7340")
        try:
            address = way.address or f"{FAR}:7340"
            self.ran(LEFT, way.environment, *bucket, "--connect", address, *way.options)
            if code := listening.wait(60):
                raise Failed(f"the other task ended with {code}: {listening.stderr.read()}")
        finally:
            listening.kill()
            listening.communicate()
        collect = ["collect", "--job", "job", *self.TABLE, "--output", "collected.csv"]
        self.ran(LEFT, {}, *collect)
        self.check((self.place / LEFT / "collected.csv").read_text())

    def examine(self, way: Way) -> None:
        said = self.pair(way, ["doctor", "--json"], ["doctor", "--json"])
        found = json.loads(said.splitlines()[0])
        named = {finding["what"]: finding["state"] for finding in found["findings"]}
        if found["exit_code"] or "bandwidth" not in named:
            raise Failed(said)

    def refused(self) -> None:
        """What has no way says so: directly, and through a proxy that allows port 443 alone."""
        words = ["receive", *self.TABLE, "--connect", f"{FAR}:7340", *self.who(LEFT), "--wait", "2"]
        self.ran(LEFT, {}, *words, "--proxy", "none", expected=4)
        done = self.ran(LEFT, {}, *words, "--proxy", f"http://{NEAR}:3130", expected=4)
        if "port 443 alone" not in done.stderr:
            raise Failed(f"no word of the port: {done.stderr}")

    def dead_way(self) -> None:
        """A name whose first address is silent costs a moment, and not the ten seconds of an attempt."""
        began = time.monotonic()
        way = Way("directly", lambda _: [], 0, ["--proxy", "none"], {}, f"{BOTH}:7340")
        self.pair(way, ["receive", *self.TABLE, "--output", "shared.csv"], ["send", *self.TABLE])
        self.check((self.place / LEFT / "shared.csv").read_text())
        if (took := time.monotonic() - began) > 5:
            raise Failed(f"a dead address costs {took:.1f} s")

    def forgotten(self) -> None:
        """A router that forgets a connection ends the run on both sides within --timeout, and the next run passes."""
        fifo = self.place / RIGHT / "later.csv"
        os.mkfifo(fifo)
        late = ["send", "--input", "later.csv", "--format", "csv", "--key", "id"]
        patience = ["--timeout", "5", "--wait", "60"]
        listen = ["--listen", f"{FAR}:7340", *self.who(RIGHT)]
        right = self.start(RIGHT, {}, *late, *patience, *listen)
        words = ["receive", *self.TABLE, "--output", "forgotten.csv", "--proxy", "none", *patience]
        left = self.start(LEFT, {}, *words, "--connect", f"{FAR}:7340", *self.who(LEFT))
        try:
            with open(fifo, "w") as table:
                table.write("id\n")
                table.flush()
                time.sleep(3)
                # From now on its connections have another address, and what has the old one is lost on both ways.
                ip("-netns", LEFT, "address", "add", "10.7.1.3/24", "dev", "out")
                way = ["via", "10.7.1.1", "src", "10.7.1.3"]
                ip("-netns", LEFT, "route", "replace", "default", *way)
                ip("rule", "add", "from", "10.7.1.2", "blackhole")
                ip("rule", "add", "to", "10.7.1.2", "blackhole")
                began = time.monotonic()
                table.write((self.place / RIGHT / "table.csv").read_text().removeprefix("id\n"))
            codes = [left.wait(60), right.wait(60)]
            took = time.monotonic() - began
            said = [side.stderr.read() for side in (left, right) if side.stderr]
            if codes != [4, 4] or took > 10 or not all("for 5 seconds" in of for of in said):
                raise Failed(f"codes {codes} after {took:.1f} s: {said}")
            self.dead_way()
        finally:
            for side in (left, right):
                side.kill()
                side.communicate()


@contextlib.contextmanager
def running(way: Way, place: Path) -> Iterator[None]:
    with open(place / "proxy.log", "w") as log:
        libraries = WORK / "root/usr/lib/x86_64-linux-gnu"
        env = {**os.environ, "LD_LIBRARY_PATH": f"{libraries}:{WORK / 'root/usr/lib'}"}
        process = subprocess.Popen(way.start(place), stdout=log, stderr=log, env=env, cwd=place)
        try:
            until = time.monotonic() + 20
            while True:
                with contextlib.suppress(OSError):
                    socket.create_connection((NEAR, way.port), 1).close()
                    break
                if process.poll() is not None or time.monotonic() > until:
                    raise Failed(f"{way.name} does not start: {(place / 'proxy.log').read_text()}")
                time.sleep(0.1)
            yield
        finally:
            process.terminate()
            process.wait()


def tested(wanted: list[str]) -> int:
    lay()
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        of_sides, place = Path(name) / "sides", Path(name) / "proxy"
        for folder in (of_sides, place):
            folder.mkdir()
        # Squid gives up root.
        Path(name).chmod(0o755)
        place.chmod(0o777)
        sides = Sides(of_sides)
        kinds = {
            "run": sides.run,
            "look-up": sides.look_up,
            "task": sides.tasks,
            "doctor": sides.examine,
        }
        rows = []
        for way in ways():
            if wanted and not any(word in way.name for word in wanted):
                continue
            cells = []
            for kind, test in kinds.items():
                try:
                    with running(way, place):
                        test(way)
                    cells.append("passed")
                except (Failed, OSError, subprocess.SubprocessError, ValueError) as problem:
                    say(f"{way.name}, {kind}: {problem}")
                    cells.append("FAILED")
                    failed += 1
            rows.append([way.name, *cells])
        try:
            closed = Way("squid for 443", squid_for_443, 3130, [], {})
            with running(closed, place):
                sides.refused()
        except (Failed, OSError, subprocess.SubprocessError) as problem:
            say(f"no way: {problem}")
            failed += 1
        # The middle forwards from now on, but for what has no way in version 6.
        Path("/proc/sys/net/ipv4/ip_forward").write_text("1\n")
        hosts = of_sides / "hosts"
        hosts.write_text(f"127.0.0.1 localhost\nfd07:9::9 {BOTH}\n{FAR} {BOTH}\n")
        subprocess.run(["mount", "--bind", str(hosts), "/etc/hosts"], check=True)
        for test in (sides.dead_way, sides.forgotten):
            try:
                test()
                say(f"passed: {test.__doc__}")
            except (Failed, OSError, subprocess.SubprocessError) as problem:
                say(f"FAILED: {test.__doc__} {problem}")
                failed += 1
        say("| | " + " | ".join(kinds) + " |")
        say("|" + "---|" * (1 + len(kinds)))
        for row in rows:
            say("| " + " | ".join(row) + " |")
    return int(failed > 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--build", action="store_true", help="build the command before")
    parser.add_argument(
        "ways", nargs="*", metavar="WAY", help="those with this in their name; all if none"
    )
    options = parser.parse_args()
    if os.environ.get(INSIDE):
        return tested(options.ways)
    if not is_here() or unpack(PACKAGES, WORK):
        return 1
    if options.build and run([CARGO, "build", "--release", "--locked", "--package", "vesica-cli"]):
        return 1
    # Names of namespaces are files below /run, and squid's memory below /dev/shm.
    alone = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child"]
    if os.geteuid() != 0:
        alone += ["--user", "--map-root-user"]
    words = [
        "sh",
        "-c",
        'mount -t tmpfs run /run && mount -t tmpfs -o mode=1777 shm /dev/shm && exec "$@"',
        "sh",
        sys.executable,
        *sys.argv,
    ]
    return subprocess.run([*alone, *words], env={**os.environ, INSIDE: "1"}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
