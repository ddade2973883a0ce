"""Builds and runs the fuzz targets, on stable Rust, with no tool to install.

    fuzz.py build
    fuzz.py run --seconds N [--fresh] [TARGET ...]
    fuzz.py seeds

The targets are instrumented by flags of the stable compiler and linked with libFuzzer, which the
crate libfuzzer-sys compiles from its own source with a C++ compiler. `--driver plain` links them
with a driver that replays the seeds and changes them blindly instead; `--driver any` does so only
where there is no C++ compiler.

`run` starts from fuzz/seeds/TARGET and keeps what it finds in fuzz/corpus/TARGET; `--fresh` keeps
nothing. An input that fails is left in fuzz/artifacts/TARGET. Exits 1 if any target failed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from stages import CARGO, ROOT, Clock, captured, run, say, target_dir

FUZZ = ROOT / "fuzz"
INSTRUMENT = (
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "-Ccodegen-units=1",
    "--cfg=fuzzing",
)
# One input may take this long, in seconds, and this much memory, in MiB.
TIMEOUT, MEMORY = 20, 2048
# Longest input in bytes; files need more than messages.
LENGTH = {
    "csv": 16384,
    "jsonl": 16384,
    "parquet": 16384,
    "arrow": 16384,
    "detect": 16384,
    "dialects": 16384,
    "sheets": 16384,
}
EXECUTIONS = re.compile(r"^stat::number_of_executed_units:\s*(\d+)", re.MULTILINE)
EDGES = re.compile(r"\bcov: (\d+)")


def targets() -> list[str]:
    return sorted(path.stem for path in (FUZZ / "targets").glob("*.rs"))


def cxx() -> str | None:
    """The C++ compiler that libfuzzer-sys would use."""
    return shutil.which(os.environ.get("CXX", "c++"))


def host() -> str:
    output = subprocess.run(["rustc", "-vV"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return next(line.split()[1] for line in output.splitlines() if line.startswith("host: "))


def build(names: list[str], plain: bool) -> Path | None:
    """Builds targets; returns the folder of the programs, or nothing if that failed."""
    # With an explicit --target the flags do not reach build scripts and macros.
    triple, folder = host(), target_dir() / ("fuzz-plain" if plain else "fuzz")
    command = [CARGO, "build", "--release", "--locked", "--manifest-path", "fuzz/Cargo.toml"]
    command += ["--target", triple, "--target-dir", str(folder)]
    for name in names:
        command += ["--bin", name]
    flags = "" if plain else " ".join(INSTRUMENT)
    if not plain:
        command += ["--features", "libfuzzer"]
    if run(command, env={"RUSTFLAGS": flags}) != 0:
        return None
    return folder / triple / "release"


def fuzz(name: str, program: Path, seconds: int, fresh: bool) -> bool:
    """Runs one target; prints one line, and its output too if it failed."""
    seeds, artifacts = FUZZ / "seeds" / name, FUZZ / "artifacts" / name
    artifacts.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        corpus = Path(scratch) if fresh else FUZZ / "corpus" / name
        corpus.mkdir(parents=True, exist_ok=True)
        command = [str(program), f"-max_total_time={seconds}", "-print_final_stats=1"]
        command += [f"-timeout={TIMEOUT}", f"-rss_limit_mb={MEMORY}"]
        command += [f"-max_len={LENGTH.get(name, 4096)}", f"-artifact_prefix={artifacts}/"]
        command += [str(corpus)] + ([str(seeds)] if seeds.is_dir() else [])
        clock = Clock()
        done = captured(command)
        elapsed = clock.seconds()
    executions = EXECUTIONS.search(done.stdout)
    count = int(executions.group(1)) if executions else 0
    edges = EDGES.findall(done.stdout)
    good = done.returncode == 0 and count > 0
    text = f"{count} executions in {elapsed:.0f} s"
    if edges:
        text += f", {edges[-1]} edges covered"
    if not good:
        say(done.stdout[-6000:])
        say(f"the input that failed is in {artifacts.relative_to(ROOT)}/")
    say(f"fuzz {name}: {text}, {'ok' if good else 'FAILED'}")
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=("build", "run", "seeds"))
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="default: all")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--fresh", action="store_true", help="do not use or keep fuzz/corpus")
    parser.add_argument("--driver", choices=("libfuzzer", "plain", "any"), default="libfuzzer")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="targets at a time")
    options = parser.parse_intermixed_args()

    if options.action == "seeds":
        programs = build(["make_seeds"], plain=True)
        if programs is None:
            return 1
        return run([str(programs / "make_seeds"), str(FUZZ / "seeds")])

    names = options.targets or targets()
    if unknown := set(names) - set(targets()):
        say(f"no such target: {', '.join(sorted(unknown))}; targets: {', '.join(targets())}")
        return 2
    plain = options.driver == "plain"
    if not plain and cxx() is None:
        say("libFuzzer is C++ and no C++ compiler was found: install one (g++ or clang), name it")
        say("in CXX, or run with --driver plain, which is not guided by coverage.")
        if options.driver == "libfuzzer":
            return 1
        say("Running the plain driver.")
        plain = True
    programs = build(names, plain)
    if programs is None:
        say("the fuzz targets do not build")
        return 1
    if options.action == "build":
        return 0
    with ThreadPoolExecutor(max(1, options.jobs)) as pool:
        results = pool.map(
            lambda name: fuzz(name, programs / name, options.seconds, options.fresh), names
        )
        return 0 if all(list(results)) else 1


if __name__ == "__main__":
    sys.exit(main())
