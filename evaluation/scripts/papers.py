"""Runs the tables of the papers, and writes evaluation/papers: ours beside the papers' own figures.

    papers.py [--full] [--only PAPER]... [--new] [--minutes M] [--no-build] [--no-runs]

Each raw result is kept at once in evaluation/papers/runs.jsonl, under its command, the binary and the machine; what has been run
is not run again, so that a run that was stopped goes on. With --new, what another binary has run here is not run again
either. With --minutes, stops after so many. With --full, runs the largest sizes too. With --no-runs, only writes the
pages anew, from the results of the machine that ran last: this needs no build. Exits 1 if a run failed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path

from published.measure import (
    LAN,
    Failed,
    Lab,
    Link,
    Store,
    Subject,
    bench,
    fingerprint,
    measured,
    ran,
    research,
)
from published.pages import MALICIOUS, PAGES, SEMI_HONEST, Page, circuits
from published.printed import PAPERS
from published.tables import MISSING, digits, heading, line
from python_package import environment
from reliability import replaced
from stages import CARGO, ROOT, run, say, target_dir

FOLDER = ROOT / "evaluation" / "papers"
BINARIES = target_dir() / "release"
PROGRAMS = ("vesica", "vesica-research")
MATPLOTLIB = ["matplotlib==3.11.2"]
# Cells that are computed elsewhere, measured: the computation has to agree with them.
CHECKS: tuple[tuple[Subject, Link], ...] = (
    (bench("kkrt", 1 << 18, 1 << 18, *SEMI_HONEST), Link("10mbps-80ms")),
    (bench("spot-fast", 1 << 16, 1 << 16, *SEMI_HONEST), Link("1mbps-80ms")),
    (bench("compact-dh", 1 << 16, 1 << 16, *MALICIOUS), Link("1mbps-80ms")),
    (bench("circuit-okvs", 1 << 18, 1 << 18, "--reveal", "size", *SEMI_HONEST), Link("10mbps")),
    (research("paper-width", "figure 14, three-hash", 1 << 20), Link("10mbps")),
)


def checks(lab: Lab) -> list[str]:
    """Computed times beside measured ones."""
    lines = heading("", "items", "link", "computed, s", "measured, s", "computed / measured")
    for subject, link in CHECKS:
        lab.want(subject, link, always=True)
        computed, found = lab.computed(subject, link), lab.run_of(subject, link)
        cells = [MISSING if computed is None else digits(computed.value)]
        cells += [MISSING if found is None else digits(found.total.seconds)]
        both = computed is not None and found is not None
        cells += [f"{computed.value / found.total.seconds:.3f}" if both else MISSING]
        lines.append(line([f"`{subject.name}`", f"{subject.receiver:,}", link.name, *cells]))
    return lines


# Runs over loopback beside what is computed for them from runs with fewer items.
SCALED: tuple[Subject, ...] = (
    *(bench(name, 1 << 24, 1 << 24, *SEMI_HONEST) for name in ("kkrt", "spot-fast", "vole")),
    *(
        bench(f"ole-{how}", 1 << 22, 1 << 22, "--items", "32")
        for how in ("dealer", "tee", "lattice", "ot")
    ),
    *(circuits(name, 1 << 22) for name in ("PSTY19", "CGS22, C-PSI2, KKRT", "circuit-okvs")),
    research("paper-width", "figure 15, three-hash", 1 << 10, 1 << 24),
    bench("vole", 1 << 10, 1 << 24, *MALICIOUS),
)


# Larger than what is run otherwise, to compare with.
LARGE: tuple[Subject, ...] = (
    bench("circuit-okvs", 1 << 24, 1 << 24, "--reveal", "size", *SEMI_HONEST),
    bench("vole", 1 << 8, 1 << 26, *MALICIOUS),
)


def scaled_checks(lab: Lab) -> list[str]:
    """Times computed from runs with fewer items beside measured ones, at the yardstick of the measured."""
    lines = heading("", "items", "from", "computed, s", "measured, s", "computed / measured")
    for subject in SCALED:
        lab.want(subject)
    pairs = [(lab, subject) for subject in SCALED]
    # These two were run on the other processor.
    others = stored(FOLDER / "without-avx512.jsonl")
    if others is not None:
        other = Lab(others, BINARIES, lab.full, only_stored=True)
        pairs += [(other, subject) for subject in LARGE]
    for of, subject in pairs:
        below, found = of.largest_below(subject), of.run_of(subject, LAN)
        scaled = of.scaled(subject, LAN)
        pair = subject, None if below is None else below[0]
        sizes = [MISSING if s is None else f"{s.receiver:,} : {s.sender:,}" for s in pair]
        cells = [MISSING] * 3
        if scaled is not None and found is not None:
            computed = scaled.at_one / (found.yardstick / 1e9)
            seconds = found.total.seconds
            cells = [digits(computed), digits(seconds), digits(computed / seconds, 2)]
        lines.append(line([f"`{subject.name}`", *sizes, *cells]))
    return lines


# What is run on a processor without AVX-512 too.
NARROW: tuple[Subject, ...] = (
    *(bench("vole", 1 << n, 1 << n, *MALICIOUS) for n in (16, 20, 24)),
    *(bench("vole", 1 << n, 1 << n, *SEMI_HONEST) for n in (16, 20, 24)),
    *(bench("kkrt", 1 << n, 1 << n, *SEMI_HONEST) for n in (16, 20)),
    *(bench("spot-low", 1 << n, 1 << n, *SEMI_HONEST) for n in (16, 20)),
    *(bench("spot-fast", 1 << n, 1 << n, *SEMI_HONEST) for n in (16, 20)),
    bench("dh", 1 << 16, 1 << 16, *SEMI_HONEST),
    *(
        bench("circuit-okvs", 1 << n, 1 << n, "--reveal", reveal, *SEMI_HONEST)
        for reveal in ("size", "sum", "inner-product")
        for n in (16, 20)
    ),
    *(circuits(name, 1 << 20) for name in ("PSTY19", "CGS22, C-PSI1, KKRT", "CGS22, C-PSI2, KKRT")),
    *(
        research("paper-width", f"figure 14, {okvs}", 1 << 20)
        for okvs in ("three-hash", "random band")
    ),
    *(
        bench(f"ole-{how}", 1 << 20, 1 << 20, "--items", "32")
        for how in ("dealer", "tee", "lattice", "ot")
    ),
)


def narrow(lab: Lab) -> list[str]:
    """Times over loopback beside those of a processor without AVX-512, each at one speed of AES too."""
    others = stored(FOLDER / "without-avx512.jsonl")
    lines = heading(
        "seconds over loopback", "items", "here", "without AVX-512", "times", "times at yardstick 1"
    )
    for subject in NARROW if others is not None else ():
        lab.want(subject)
        found = lab.run_of(subject, LAN)
        beside = others.result(subject.command(LAN))
        cells = [MISSING] * 4
        if found is not None and beside is not None:
            there = measured(beside)
            pair = found.total.seconds, there.total.seconds
            at_one = there.total.seconds * there.yardstick / (found.total.seconds * found.yardstick)
            cells = [*map(digits, pair), digits(pair[1] / pair[0], 2), digits(at_one, 2)]
        words = dict(zip(subject.words, subject.words[1:]))
        more = [words[name] for name in ("--security", "--reveal", "--variant") if name in words]
        more = [word for word in more if word != subject.name]
        lines.append(
            line([" ".join([f"`{subject.name}`", *more]), f"{subject.receiver:,}", *cells])
        )
    return lines


def about(lab: Lab) -> list[str]:
    """What ran the figures of a page."""
    entries = [e for e in lab.store.entries.values() if e["machine"] == lab.store.machine]
    yardsticks = [f"{blocks / 1e9:.2f}" for blocks in lab.yardsticks()]
    if not yardsticks:
        return ["Nothing has been run yet."]
    days = sorted({entry["day"] for entry in entries})
    span = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    middle = yardsticks[len(yardsticks) // 2]
    text = (
        f"Here: {lab.store.machine}; both parties share it, one thread each. Its yardstick, in G blocks of AES-128 per "
        f"second on one core (`vesica bench --yardstick`), was {yardsticks[0]} to {yardsticks[-1]} beside these runs, "
        f"{middle} in the middle: other work ran at times. {span}. `vesica bench` runs the parties as two processes over "
        f"loopback. `vesica-research` runs them as two threads of one process, over a channel in memory."
    )
    return textwrap.wrap(text, 120, break_on_hyphens=False)


def write(pages: list[Page], lab: Lab) -> int:
    plots = []
    for page in pages:
        path = FOLDER / f"{page.name}.md"
        blocks = {"machine": about(lab), **dict(page.blocks())}
        path.write_text(replaced(path.read_text(), blocks, keep=False))
        plots += list(page.plots())
    listing = FOLDER / "README.md"
    blocks = {
        "checks": checks(lab),
        "scaled-checks": scaled_checks(lab),
        "narrow": narrow(lab),
    }
    listing.write_text(replaced(listing.read_text(), blocks, keep=False))
    python = environment("papers", MATPLOTLIB)
    if python is None:
        return 1
    command = [python, str(ROOT / "evaluation" / "scripts" / "published" / "plots.py"), str(FOLDER)]
    return subprocess.run(command, input=json.dumps(plots), text=True, check=False).returncode


def open_store(path: Path, *programs: str, versions: Sequence[str] = ()) -> Store | None:
    """The results in this file, for these programs, these versions of others and this machine; nothing if that failed."""
    try:
        machine = ran([str(BINARIES / "vesica"), "bench", "--yardstick", "--json"])["machine"]
        binary = fingerprint(*(BINARIES / program for program in programs))
        return Store(path, " ".join([binary, *versions]), machine)
    except (Failed, OSError) as failed:
        say(f"cannot begin: {failed}")
        return None


def stored(path: Path) -> Store | None:
    """The results in this file of the machine that ran last; nothing if there are none."""
    lines = path.read_text().splitlines() if path.is_file() else []
    entries = [json.loads(line) for line in lines]
    if not entries:
        say(f"{path}: no results")
        return None
    return Store(path, "", max(entries, key=lambda entry: entry["day"])["machine"])


def interruptible(main: Callable[[], int]) -> int:
    """The exit code of a script that goes on when it is started again."""
    try:
        return main()
    except KeyboardInterrupt:
        say("stopped: the same command goes on")
        return 130


def build() -> int:
    packages = ["--package", "vesica-cli", "--package", "vesica-research"]
    return run([CARGO, "build", "--release", "--locked", *packages])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="the largest sizes too: hours")
    parser.add_argument("--only", action="append", choices=PAPERS, help="all if none")
    parser.add_argument("--new", action="store_true", help="only what no binary has run here")
    parser.add_argument("--minutes", type=float, help="stop after so many")
    parser.add_argument(
        "--no-build", action="store_true", help="take the release build that there is"
    )
    parser.add_argument("--no-runs", action="store_true", help="write the pages from the results")
    options = parser.parse_args()
    if not (options.no_build or options.no_runs) and build():
        return 1
    results = FOLDER / "runs.jsonl"
    store = stored(results) if options.no_runs else open_store(results, *PROGRAMS)
    if store is None:
        return 1
    lab = Lab(store, BINARIES, options.full, only_new=options.new, only_stored=options.no_runs)
    pages = [page(lab) for page in PAGES if options.only is None or page.name in options.only]
    # The first pass asks for the runs.
    checks(lab)
    scaled_checks(lab)
    narrow(lab)
    for page in pages:
        list(page.blocks())
        list(page.plots())
    if not options.no_runs:
        lab.run(options.minutes)
    return write(pages, lab) or int(bool(lab.failed))


if __name__ == "__main__":
    sys.exit(interruptible(main))
