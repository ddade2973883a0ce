"""Builds what a release gives away for Linux, and tries it where nothing is installed.

    release.py                  everything, into target/dist
    release.py PART…            some of it, in this order: build, archives, again, crates, try

`build` makes a static binary and a wheel for musl, for x86-64 and for aarch64, and what `make wheels` does, for glibc.
`archives` packs the binaries with completions and manual pages, and makes an image for containers, the list of what all
is made of (SBOM, CycloneDX) and checksums. `again` builds the x86-64 binary and wheel for musl once more, from a clone in
another folder, and compares. `crates` packs the crates, and builds two programs with them outside the workspace. `try`
runs the demo of each artifact in a folder with nothing else, or with the C library of Debian's oldoldstable, and runs
between them.

What is for musl is built with Debian's Rust, which has the source of the standard library, and zig from PyPI, which links and
compiles C. The emulator is Debian's. Everything is kept below the target directory. Exits 1 if anything failed.
"""

from __future__ import annotations

import argparse
import base64
import functools
import gzip
import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import uuid
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import aarch64
import check_packages
import python_package
from debian import is_here, unpack
from python_package import MATURIN, SMOKE, ZIG, environment
from stages import CARGO, ROOT, Clock, captured, in_turn, run, say, target_dir

ZIGBUILD = "cargo-zigbuild==0.24.0"
TOOLS = "rustc-web rust-web-src libstd-rust-web-dev qemu-user-static".split()
DIST = target_dir() / "dist"
WORK = target_dir() / "release-work"
RUST = WORK / "tools/root"
EMULATOR = RUST / "usr/bin/qemu-aarch64-static"
SHELLS = {"bash": "vesica.bash", "zsh": "_vesica", "fish": "vesica.fish"}
# The numbers of the image's user, who is nobody.
NOBODY = 65532
Entries = "list[tuple[str, bytes, int]]"
# The file with the licences of what is not ours, and names of files with such.
NOTICES = "THIRD-PARTY-LICENSES"
LICENCE = re.compile("LICEN[CS]E|COPYING|NOTICE|UNLICENSE", re.IGNORECASE)


@dataclass(frozen=True)
class Target:
    processor: str
    libc: str

    @property
    def triple(self) -> str:
        return f"{self.processor}-unknown-linux-{self.libc}"


PROCESSORS = ("x86_64", "aarch64")
MUSL, GNU = ([Target(processor, libc) for processor in PROCESSORS] for libc in ("musl", "gnu"))


def version() -> str:
    found = re.search(r'^version = "(.*)"', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def git(*words: str) -> str:
    return subprocess.check_output(["git", *words], cwd=ROOT, text=True).strip()


def epoch() -> int:
    """The seconds of the commit: the time of everything that is packed."""
    return int(git("log", "-1", "--format=%ct"))


def script(name: str, *lines: str) -> str:
    path = WORK / "bin" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(["#!/bin/sh", *lines, ""])
    # A new time would make Cargo build again.
    if not path.is_file() or path.read_text() != text:
        path.write_text(text)
        path.chmod(0o755)
    return str(path)


class Tools:
    """The compilers, unpacked."""

    def __init__(self, python: str) -> None:
        self.bin = Path(python).parent
        self.python = python

    def zig(self, tool: str, target: Target) -> str:
        words = {
            "cc": "zig cc --",
            "c++": "zig c++ --",
            "ar": "zig ar --",
            "ranlib": "zig ranlib --",
        }
        more = (
            f"-g0 -fno-sanitize=all -target {target.processor}-linux-musl "
            if tool in ("cc", "c++")
            else ""
        )
        return script(
            f"{tool}-{target.triple}",
            f"export CARGO_ZIGBUILD_ZIG_VERSION={ZIG.partition('==')[2]}",
            f"export CARGO_ZIGBUILD_ZIG_COMMAND='{self.python}'",
            "export CARGO_ZIGBUILD_ZIG_COMMAND_ARGS='-m ziglang'",
            f"exec '{self.bin}/cargo-zigbuild' {words[tool]} {more}\"$@\"",
        )

    def rustc(self) -> str:
        """Debian's, which writes no path of this machine into what it makes."""
        cargo = os.environ.get("CARGO_HOME", Path.home() / ".cargo")
        return script(
            "rustc",
            f"export LD_LIBRARY_PATH='{RUST}/usr/lib/x86_64-linux-gnu'",
            f"exec '{RUST}/usr/bin/rustc' --sysroot '{RUST}/usr' \\",
            '  --remap-path-prefix "$RELEASE_ROOT=/vesica" \\',
            f"  --remap-path-prefix '{cargo}=/cargo' --remap-path-prefix '{RUST}=/rust' \\",
            # Cargo names what is below the workspace from there.
            f"  --remap-path-prefix '{os.path.relpath(RUST, ROOT)}=/rust' \"$@\"",
        )

    def environment(self, target: Target, root: Path) -> dict[str, str]:
        """What makes Cargo build the workspace in `root` for a target of musl."""
        name = target.triple.replace("-", "_")
        tools = {"CC": "cc", "CXX": "c++", "AR": "ar", "RANLIB": "ranlib"}
        env = {f"{variable}_{name}": self.zig(tool, target) for variable, tool in tools.items()}
        prefixes = {str(root): "/vesica", str(Path.home()): "/home"}
        maps = " ".join(f"-ffile-prefix-map={path}={to}" for path, to in prefixes.items())
        return env | {
            "RUSTC_BOOTSTRAP": "1",
            "CARGO_UNSTABLE_BUILD_STD": "std,panic_unwind",
            "PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}",
            "RUSTC": self.rustc(),
            "RELEASE_ROOT": str(root),
            "CARGO_TARGET_DIR": str(root / "target/release-work/build"),
            f"CARGO_TARGET_{name.upper()}_LINKER": self.zig("cc", target),
            # Shared by the wheel and the binary, which is made static when it is linked.
            "CARGO_ENCODED_RUSTFLAGS": "-C\x1ftarget-feature=-crt-static",
            "CARGO_INCREMENTAL": "0",
            f"CFLAGS_{name}": maps,
            "SOURCE_DATE_EPOCH": str(epoch()),
            "ZIG_GLOBAL_CACHE_DIR": str(WORK / "zig"),
            "ZIG_LOCAL_CACHE_DIR": str(WORK / "zig"),
        }


def tools() -> Tools | None:
    if not is_here():
        return None
    python = environment("release", [MATURIN, ZIG, ZIGBUILD])
    (WORK / "tools").mkdir(parents=True, exist_ok=True)
    if python is None or unpack(TOOLS, WORK / "tools"):
        return None
    return Tools(python)


def build_target(made: Tools, target: Target, root: Path, out: Path) -> int:
    """Builds the wheel and the binary for a target of musl, from the workspace in `root` into `out`."""
    env = made.environment(target, root)
    wheel = [made.python, "-m", "maturin", "build", "--profile", "release", "--out", str(out)]
    wheel += ["--target", target.triple, "--compatibility", "musllinux_1_2"]
    wheel += ["--manifest-path", str(root / "python/Cargo.toml")]
    wheel += ["--target-dir", env["CARGO_TARGET_DIR"]]
    if code := run(wheel, env=env, cwd=root):
        return code
    binary = [CARGO, "rustc", "--release", "--locked", "--target", target.triple]
    binary += ["--package", "vesica-cli", "--bin", "vesica", "--"]
    flags = ["target-feature=+crt-static", "link-self-contained=no"]
    # zig makes a static program that is loaded anywhere of these, and not of -static-pie.
    flags += ["link-arg=-static", "link-arg=-pie"]
    binary += [word for flag in flags for word in ("-C", flag)]
    if code := run(binary, env=env, cwd=root):
        return code
    built = Path(env["CARGO_TARGET_DIR"]) / target.triple / "release/vesica"
    shutil.copyfile(built, binary_of(target.processor, out))
    binary_of(target.processor, out).chmod(0o755)
    return 0


def binary_of(processor: str, folder: Path = DIST) -> Path:
    return folder / f"vesica-{processor}"


def wheel_of(target: Target, folder: Path = DIST) -> Path:
    kind = "manylinux" if target.libc == "gnu" else "musllinux"
    (found,) = folder.glob(f"vesica-{version()}-*{kind}*_{target.processor}.whl")
    return found


def build() -> int:
    made = tools()
    if made is None:
        return 1
    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir(parents=True)
    for target in MUSL:
        clock = Clock()
        if code := build_target(made, target, ROOT, DIST):
            return code
        say(f"{target.triple}: {clock.seconds():.0f} s")
    clock = Clock()
    if code := python_package.wheels():
        return code
    for target in GNU:
        shutil.copy(wheel_of(target, python_package.WHEELS), DIST)
    say(f"wheels for glibc: {clock.seconds():.0f} s")
    return 0


def tarball(entries: Entries) -> bytes:
    """An archive of names, contents and modes, the same whenever it is made."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content, mode in entries:
            info = tarfile.TarInfo(name)
            info.size, info.mode, info.mtime = len(content), mode, epoch()
            if name.endswith("/"):
                info.type = tarfile.DIRTYPE
            archive.addfile(info, io.BytesIO(content))
    return packed.getvalue()


def compressed(content: bytes) -> bytes:
    return gzip.compress(content, 9, mtime=0)


def said_by(command: list[str]) -> bytes:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout


@functools.cache
def notices() -> bytes:
    """The licences of all that binaries and wheels are made of, each text once, with the packages that it comes with."""
    packages = {p["id"]: p for target in MUSL + GNU for p in resolved(target) if p["source"]}
    texts: dict[str, list[str]] = {}
    for package in packages.values():
        name = f"{package['name']} {package['version']} ({package['license']})"
        folder = Path(package["manifest_path"]).parent
        files = (f for f in sorted(folder.iterdir()) if LICENCE.match(f.name) and f.is_file())
        found = {f.read_text(errors="replace").strip() for f in files}
        for text in found or {"No text comes with these."}:
            texts.setdefault(text, []).append(name)
    parts = (f"{', '.join(sorted(names))}\n\n{text}\n" for text, names in texts.items())
    return ("\n" + "-" * 79 + "\n").join(sorted(parts)).encode()


def add_to_wheel(wheel: Path, name: str, content: bytes) -> None:
    """Puts a text beside the licences of a wheel, unless it is there."""
    with zipfile.ZipFile(wheel) as old:
        entries = [(info, old.read(info)) for info in old.infolist()]
    (record,) = (i for i, _ in entries if i.filename.endswith(".dist-info/RECORD"))
    added = zipfile.ZipInfo(f"{Path(record.filename).parent}/licenses/{name}", record.date_time)
    if any(info.filename == added.filename for info, _ in entries):
        return
    added.compress_type, added.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    line = f"{added.filename},sha256={digest},{len(content)}\n"
    with zipfile.ZipFile(wheel, "w") as new:
        for info, had in entries:
            if info is record:
                new.writestr(added, content)
                had += line.encode()
            new.writestr(info, had)


def licences() -> Entries:
    own = [(name, (ROOT / name).read_bytes(), 0o644) for name in check_packages.LICENCES]
    return [*own, (NOTICES, notices(), 0o644)]


def beside_the_binary() -> Entries:
    """What to read, licences, completions and manual pages."""
    vesica = str(binary_of(os.uname().machine))
    entries = [("README.md", (ROOT / "README.md").read_bytes(), 0o644), *licences()]
    for shell, name in SHELLS.items():
        entries.append((f"completions/{name}", said_by([vesica, "completions", shell]), 0o644))
    entries.append(("man/man1/vesica.1", said_by([vesica, "man"]), 0o644))
    listed = said_by([vesica, "--help"]).decode()
    for name in re.findall(r"^  ([a-z]+)  ", listed, re.MULTILINE):
        if name != "help":
            page = said_by([vesica, "man", name])
            entries.append((f"man/man1/vesica-{name}.1", page, 0o644))
    return entries


def archives() -> int:
    beside = beside_the_binary()
    for wheel in DIST.glob("*.whl"):
        add_to_wheel(wheel, NOTICES, notices())
    for processor in PROCESSORS:
        name = f"vesica-{version()}-{processor}-linux"
        entries = [("vesica", binary_of(processor).read_bytes(), 0o755), *beside]
        packed = tarball([(f"{name}/{path}", content, mode) for path, content, mode in entries])
        (DIST / f"{name}.tar.gz").write_bytes(compressed(packed))
    (DIST / f"vesica-{version()}-image.tar").write_bytes(image())
    (DIST / f"vesica-{version()}.cdx.json").write_text(json.dumps(bill(), indent=1) + "\n")
    checksums()
    return 0


class Image:
    """An OCI image layout."""

    def __init__(self) -> None:
        self.entries: Entries = []

    def blob(self, content: bytes, kind: str) -> dict:
        digest = hashlib.sha256(content).hexdigest()
        self.entries.append((f"blobs/sha256/{digest}", content, 0o644))
        media = f"application/vnd.oci.image.{kind}"
        return {"mediaType": media, "digest": f"sha256:{digest}", "size": len(content)}

    def manifest(self, processor: str) -> dict:
        """Of the binary for one processor, as nobody, and an empty /tmp."""
        files = [("usr/", b"", 0o755), ("usr/bin/", b"", 0o755), ("tmp/", b"", 0o1777)]
        files += [("usr/bin/vesica", binary_of(processor).read_bytes(), 0o755)]
        files += [("usr/share/", b"", 0o755), ("usr/share/vesica/", b"", 0o755)]
        files += [(f"usr/share/vesica/{name}", text, mode) for name, text, mode in licences()]
        layer = tarball(files)
        labels = {
            "org.opencontainers.image.title": "vesica",
            "org.opencontainers.image.version": version(),
            "org.opencontainers.image.revision": git("rev-parse", "HEAD"),
            "org.opencontainers.image.licenses": "Apache-2.0 OR MIT",
        }
        platform = {"os": "linux", "architecture": {"x86_64": "amd64"}.get(processor, "arm64")}
        config = {
            **platform,
            "config": {
                "User": f"{NOBODY}:{NOBODY}",
                "Entrypoint": ["/usr/bin/vesica"],
                "WorkingDir": "/tmp",
                "Labels": labels,
            },
            "rootfs": {
                "type": "layers",
                "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"],
            },
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": self.blob(json.dumps(config).encode(), "config.v1+json"),
            "layers": [self.blob(compressed(layer), "layer.v1.tar+gzip")],
        }
        described = self.blob(json.dumps(manifest).encode(), "manifest.v1+json")
        return {**described, "platform": platform}


def image() -> bytes:
    made = Image()
    index = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [made.manifest(processor) for processor in PROCESSORS],
    }
    named = made.blob(json.dumps(index).encode(), "index.v1+json")
    named["annotations"] = {"org.opencontainers.image.ref.name": version()}
    top = {"schemaVersion": 2, "manifests": [named]}
    layout = [
        ("oci-layout", b'{"imageLayoutVersion": "1.0.0"}', 0o644),
        ("index.json", json.dumps(top).encode(), 0o644),
    ]
    return tarball([*layout, *dict.fromkeys(made.entries)])


def resolved(target: Target) -> Iterator[dict]:
    """The packages that the command and the Python package are made of on a target."""
    command = [CARGO, "metadata", "--format-version", "1", "--locked"]
    command += ["--filter-platform", target.triple]
    metadata = json.loads(subprocess.check_output(command, cwd=ROOT))
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    to_do = [i for i, p in packages.items() if p["name"] == "vesica-python"]
    seen = set(to_do)
    while to_do:
        key = to_do.pop()
        built = (u for u in nodes[key]["deps"] if any(k["kind"] != "dev" for k in u["dep_kinds"]))
        uses = [used["pkg"] for used in built]
        yield {**packages[key], "uses": uses}
        to_do += [used for used in dict.fromkeys(uses) if used not in seen]
        seen.update(uses)


def bill() -> dict:
    """What the binaries and the wheels are made of, as CycloneDX has it."""
    locked = (ROOT / "Cargo.lock").read_text()
    pattern = r'name = "(.*)"\nversion = "(.*)"\nsource = .*\nchecksum = "(.*)"'
    sums = {(name, number): checksum for name, number, checksum in re.findall(pattern, locked)}
    packages = {p["id"]: p for target in MUSL + GNU for p in resolved(target)}
    urls = {i: f"pkg:cargo/{p['name']}@{p['version']}" for i, p in packages.items()}
    components = []
    for key, package in sorted(packages.items(), key=lambda item: urls[item[0]]):
        component = {
            "type": "library",
            "bom-ref": urls[key],
            "name": package["name"],
            "version": package["version"],
            "purl": urls[key],
        }
        if package["license"]:
            component["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
        if checksum := sums.get((package["name"], package["version"])):
            component["hashes"] = [{"alg": "SHA-256", "content": checksum}]
        components.append(component)
    libraries = f"LD_LIBRARY_PATH={RUST}/usr/lib/x86_64-linux-gnu"
    rust = said_by(["env", libraries, str(RUST / "usr/bin/rustc"), "--version"]).decode()
    built_with = [
        {"type": "library", "name": "rust-std", "version": rust.split()[1]},
        {"type": "library", "name": "musl", "version": f"of ziglang {ZIG.partition('==')[2]}"},
    ]
    commands = [
        urls[i] for i, p in packages.items() if p["name"] in ("vesica-cli", "vesica-python")
    ]
    serial = uuid.uuid5(uuid.NAMESPACE_URL, f"vesica {version()} {git('rev-parse', 'HEAD')}")
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": "vesica",
                "name": "vesica",
                "version": version(),
            },
        },
        "components": [*components, *built_with],
        "dependencies": [{"ref": "vesica", "dependsOn": sorted(commands)}]
        + [
            {"ref": urls[i], "dependsOn": sorted({urls[used] for used in p["uses"]})}
            for i, p in sorted(packages.items(), key=lambda item: urls[item[0]])
        ],
    }


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def checksums() -> None:
    files = sorted(p for p in DIST.iterdir() if p.name != "SHA256SUMS")
    (DIST / "SHA256SUMS").write_text("".join(f"{sha256(p)}  {p.name}\n" for p in files))


def different(one: Path, other: Path) -> list[str]:
    """The parts of two wheels that differ; the whole of two other files."""
    if sha256(one) == sha256(other):
        return []
    if one.suffix != ".whl":
        return [one.name]
    with zipfile.ZipFile(one) as a, zipfile.ZipFile(other) as b:
        names = sorted({*a.namelist(), *b.namelist()})
        have = {*a.namelist()} & {*b.namelist()}
        return [n for n in names if n not in have or a.read(n) != b.read(n)] or ["its order"]


def again() -> int:
    """Builds one binary and one wheel from another folder, and compares. Says what differs."""
    made, target = tools(), Target("x86_64", "musl")
    if made is None:
        return 1
    clone, out = WORK / "a-clone-elsewhere", WORK / "again"
    for folder in (clone, out):
        shutil.rmtree(folder, ignore_errors=True)
    out.mkdir(parents=True)
    if run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(clone)]):
        return 1
    clock = Clock()
    if code := build_target(made, target, clone, out):
        return code
    shutil.rmtree(clone)
    add_to_wheel(wheel_of(target, out), NOTICES, notices())
    code = 0
    for built in (binary_of("x86_64", out), wheel_of(target, out)):
        parts = different(DIST / built.name, built)
        code |= bool(parts)
        say(f"{built.name}: {', '.join(parts) + ' DIFFERS' if parts else 'the same again'}")
    say(f"a second build: {clock.seconds():.0f} s")
    return code


# Crates whose examples are built by themselves, and what else these use.
PROGRAMS = {"vesica-encodings": "vesica-primitives", "vesica": ""}


def crates() -> int:
    """Packs the crates, and builds the README's example of two of them with nothing but the packages."""
    names = check_packages.in_order(check_packages.published(check_packages.described()))
    each = [word for name in names for word in ("--package", name)]
    if run([CARGO, "package", "--locked", "--no-verify", "--allow-dirty", *each]):
        return 1
    folder = WORK / "crates"
    shutil.rmtree(folder, ignore_errors=True)
    for name in names:
        packed = target_dir() / "package" / f"{name}-{version()}.crate"
        with tarfile.open(packed) as archive:
            archive.extractall(folder)
    patches = "".join(f'{n} = {{ path = "{folder}/{n}-{version()}" }}\n' for n in names)
    for name, more in PROGRAMS.items():
        program = folder / f"uses-{name}"
        (program / "src").mkdir(parents=True)
        readme = (folder / f"{name}-{version()}" / "README.md").read_text()
        example = re.search(r"```rust(?:,no_run)?\n(.*?)```", readme, re.DOTALL)
        assert example is not None
        text = example[1]
        (program / "src/main.rs").write_text(
            text if "fn main" in text else f"fn main() {{\n{text}}}\n"
        )
        uses = "".join(f'{used} = "{version()}"\n' for used in (name, more) if used)
        (program / "Cargo.toml").write_text(
            f'[package]\nname = "uses-{name}"\nedition = "2024"\n\n[dependencies]\n{uses}\n'
            f"[workspace]\n\n[patch.crates-io]\n{patches}"
        )
        shutil.copyfile(ROOT / "Cargo.lock", program / "Cargo.lock")
        env = {"CARGO_TARGET_DIR": str(folder / "build")}
        # The first runs; the second would look for a peer.
        if code := run([CARGO, "build" if name == "vesica" else "run"], cwd=program, env=env):
            return code
    return 0


def inside(root: Path, *words: str) -> list[str]:
    """A command whose root directory is another."""
    may = [] if os.geteuid() == 0 else ["unshare", "--map-root-user"]
    return [
        *may,
        "env",
        "-i",
        "TMPDIR=/tmp",
        "PATH=/usr/sbin:/usr/bin",
        "chroot",
        str(root),
        *words,
    ]


def fresh(name: str) -> Path:
    root = WORK / "roots" / name
    shutil.rmtree(root, ignore_errors=True)
    (root / "tmp").mkdir(parents=True)
    return root


def demo_shown(name: str, command: list[str]) -> bool:
    clock, done = Clock(), captured(command)
    right = done.returncode == 0 and "a plain intersection of the two tables gives" in done.stdout
    say(f"demo, {name}: {'ok' if right else 'FAILED'}, {clock.seconds():.1f} s")
    if not right:
        say(done.stdout)
    return right


def try_binary() -> bool:
    """The binary alone: no library, no /proc, no /dev."""
    root = fresh("nothing")
    shutil.copy(binary_of("x86_64"), root / "vesica")
    return demo_shown("static binary, nothing else", inside(root, "/vesica", "demo"))


def try_image() -> bool:
    """The image's files, read-only but for /tmp, as its user."""
    root = fresh("image")
    with tarfile.open(DIST / f"vesica-{version()}-image.tar") as archive:

        def blob(described: dict) -> bytes:
            name = described["digest"].replace(":", "/")
            content = archive.extractfile(f"blobs/{name}")
            assert content is not None
            read = content.read()
            assert hashlib.sha256(read).hexdigest() == name.partition("/")[2]
            return read

        top = archive.extractfile("index.json")
        assert top is not None
        index = json.loads(blob(json.load(top)["manifests"][0]))
        manifest = json.loads(blob(index["manifests"][0]))
        user = json.loads(blob(manifest["config"]))["config"]["User"]
        layer = gzip.decompress(blob(manifest["layers"][0]))
    with tarfile.open(fileobj=io.BytesIO(layer)) as files:
        files.extractall(root)
    own = os.geteuid() == 0
    become = f"--userspec={user} " if own else ""
    steps = (
        f"mount --bind {root} {root} && mount -o remount,bind,ro {root}"
        f" && mount -t tmpfs -o mode=1777 tmpfs {root}/tmp"
        f" && exec env -i PATH=/usr/sbin:/usr/bin chroot {become}{root} /usr/bin/vesica demo"
    )
    private = ["unshare", "--mount", *([] if own else ["--map-root-user"]), "sh", "-euc", steps]
    return demo_shown("image, read-only", private)


def install_wheel(target: Target, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    with zipfile.ZipFile(wheel_of(target)) as archive:
        archive.extractall(folder)


def old_debian() -> Path | None:
    """Debian's oldoldstable with Python and nothing else."""
    work = WORK / "oldoldstable"
    work.mkdir(parents=True, exist_ok=True)
    if unpack(["python3"], work, ["amd64"], bare=True, release="oldoldstable"):
        return None
    (work / "root/tmp").mkdir(exist_ok=True)
    return work / "root"


def try_wheel(root: Path) -> bool:
    install_wheel(Target("x86_64", "gnu"), root / "usr/lib/python3/dist-packages")
    (root / "smoke.py").write_text(SMOKE)
    shown = demo_shown(
        "wheel, Debian oldoldstable", inside(root, "/usr/bin/python3", "-m", "vesica", "demo")
    )
    return shown and run(inside(root, "/usr/bin/python3", "/smoke.py")) == 0


def needs_of(library: Path) -> tuple[set[str], set[str]]:
    """The libraries that a shared library names, and the symbols that it leaves to others."""
    lines = captured(["readelf", "--wide", "--dynamic", "--dyn-syms", str(library)]).stdout
    libraries = set(re.findall(r"\(NEEDED\).*\[(.*)\]", lines))
    return libraries, set(re.findall(r" GLOBAL .* UND (\w+)", lines))


def try_musl_wheels() -> bool:
    """No registry has a Python for musl: what the wheel leaves to other libraries is musl's or Python's."""
    (WORK / "musl").mkdir(exist_ok=True)
    if unpack(["musl"], WORK / "musl", ["amd64"]):
        return False
    (musl,) = (WORK / "musl/root").glob("lib/ld-musl-*.so.1")
    lines = captured(["readelf", "--wide", "--dyn-syms", str(musl)]).stdout
    given = set(re.findall(r" (?:GLOBAL|WEAK) .* \d+ (\w+)$", lines, re.MULTILINE))
    right = True
    for processor in PROCESSORS:
        folder = fresh(f"musl-{processor}")
        install_wheel(Target(processor, "musl"), folder)
        (library,) = folder.glob("vesica/*.so")
        libraries, symbols = needs_of(library)
        missing = {s for s in symbols - given if not s.startswith(("Py", "_Py"))}
        right &= libraries <= {"libc.so"} and not missing
        say(f"musllinux wheel, {processor}: needs {', '.join(sorted(libraries | missing))}")
    return right


def emulated_wheel() -> list[str] | None:
    """The command of the wheel for aarch64, emulated."""
    work = WORK / "debian-arm64"
    work.mkdir(exist_ok=True)
    if unpack(["python3"], work, ["arm64"], bare=True):
        return None
    root, packages = work / "root", work / "packages-of-python"
    install_wheel(Target("aarch64", "gnu"), packages)
    python = [str(EMULATOR), "-L", str(root), str(root / "usr/bin/python3")]
    env = ["env", f"PYTHONHOME={root}/usr", f"PYTHONPATH={packages}"]
    return [*env, *python, "-m", "vesica"]


def native_wheel(root: Path) -> list[str]:
    """The command of the wheel for x86-64, with the old C library, outside its root."""
    libraries = f"{root}/lib/x86_64-linux-gnu:{root}/usr/lib/x86_64-linux-gnu"
    # A link in /lib64 would lead to this machine's own.
    (own,) = root.glob("lib/x86_64-linux-gnu/ld-2*.so")
    loader = [str(own), "--library-path", libraries]
    env = ["env", f"PYTHONHOME={root}/usr", f"PYTHONPATH={root}/usr/lib/python3/dist-packages"]
    return [*env, *loader, f"{root}/usr/bin/python3", "-m", "vesica"]


def try_pairs(root: Path) -> bool:
    """Runs between two artifacts, the results compared with a plain intersection."""
    emulated = emulated_wheel()
    if emulated is None:
        return False
    parties = {
        "static x86-64": [str(binary_of("x86_64"))],
        "static aarch64": [str(EMULATOR), str(binary_of("aarch64"))],
        "wheel x86-64": native_wheel(root),
        "wheel aarch64": emulated,
    }
    pairs = [
        ("static x86-64", "wheel x86-64"),
        ("wheel x86-64", "static aarch64"),
        ("static aarch64", "static x86-64"),
        ("wheel aarch64", "static x86-64"),
    ]
    right = True
    for receiver, sender in pairs:
        clock = Clock()
        with tempfile.TemporaryDirectory() as folder:
            met = aarch64.meet(parties[receiver], parties[sender], "", Path(folder))
        right &= met
        outcome = "ok" if met else "FAILED"
        say(f"{receiver} receives from {sender}: {outcome}, {clock.seconds():.1f} s")
    return right


def tries() -> int:
    root = old_debian()
    if root is None:
        return 1
    checks: list[Callable[[], bool]] = [try_binary, try_image, lambda: try_wheel(root)]
    checks += [try_musl_wheels, lambda: try_pairs(root)]
    results = [check() for check in checks]
    return int(not all(results))


PARTS: dict[str, Callable[[], int]] = {
    "build": build,
    "archives": archives,
    "again": again,
    "crates": crates,
    "try": tries,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], help="some of it")
    chosen = parser.parse_args().parts or list(PARTS)
    if git("status", "--porcelain"):
        say("note: there are changes that no commit has; a release is built without any")
    clock = Clock()
    code = in_turn((name, PARTS[name]) for name in PARTS if name in chosen)
    say("")
    for path in sorted(DIST.iterdir()) if DIST.is_dir() else []:
        say(f"{path.stat().st_size:>10}  {sha256(path)}  {path.name}")
    say(f"release: {clock.seconds():.0f} s")
    return code


if __name__ == "__main__":
    sys.exit(main())
