"""Measures what `vesica plan` goes by and what it is compared with, and writes both down.

    plan.py [--minutes M] [--only FORM]... [--no-build] [--no-runs]

Runs of every protocol for the fits become crates/plan/data/reference.json; runs that are not among those, over three links,
become the tables of evaluation/planner.md beside what is predicted for them; runs of what `auto` chooses between become one
of docs/planner.md. Each raw result is kept at once in evaluation/planner.jsonl, under its command, the binary and the
machine: what was stopped goes on. With --minutes, stops after so many. With --only, runs these forms anew and no others:
`vole semi-honest`, `auto`. With --no-runs, only writes the files anew. Exits 1 if a run failed.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import textwrap
import time
from collections.abc import Iterator
from typing import NamedTuple

from papers import BINARIES, interruptible, open_store
from published.measure import LAN, Failed, Json, Link, Store, Subject, bench, ran
from published.tables import heading, line
from reliability import replaced
from stages import CARGO, ROOT, run, say

RAW = ROOT / "evaluation" / "planner.jsonl"
PAGE = ROOT / "evaluation" / "planner.md"
# The page of `plan` itself, with what `auto` chooses between.
GUIDE = ROOT / "docs" / "planner.md"
REFERENCE = ROOT / "crates" / "plan" / "data" / "reference.json"
VERSION = 2
LINKS = (LAN, Link("1gbps"), Link("100mbps-80ms"))
# Runs over these tell how far work and transfers overlap, where they take about as long as each other.
OVERLAPPING = (Link("1gbps"), Link("100mbps"))
Sizes = list[tuple[int, int]]


class Grid(NamedTuple):
    """Pairs of sizes as powers of two: for the fit, for the overlap, and for the comparison."""

    fit: Sizes
    overlap: Sizes
    compared: Sizes
    overlapping: tuple[Link, ...] = OVERLAPPING


# By what takes how long. No pair is compared that was fitted.
SMALL = Grid(
    [(4, 4), (6, 6), (8, 8), (10, 10), (12, 12), (5, 10), (10, 5), (7, 12), (12, 7)],
    [(10, 10), (12, 12)],
    [(5, 5), (9, 9), (11, 11), (6, 11), (11, 6)],
)
MIDDLE = Grid(
    [(8, 8), (11, 11), (13, 13), (16, 16), (18, 18), (8, 13), (13, 8), (11, 16), (16, 11)],
    [(13, 13), (16, 16)],
    [(10, 10), (12, 12), (15, 15), (9, 14), (14, 9)],
)
LARGE = Grid(
    [(8, 8), (12, 12), (16, 16), (18, 18), (8, 16), (16, 8), (12, 18), (18, 12)],
    [(13, 13), (16, 16)],
    [(10, 10), (14, 14), (17, 17), (10, 16), (16, 10)],
)
LARGEST = Grid(
    [*LARGE.fit, (20, 20), (12, 20), (20, 12)],
    LARGE.overlap,
    [(10, 10), (14, 14), (19, 19), (10, 17), (17, 10)],
)


# Of a small set against a large one.
UNEQUAL = Grid(
    [(4, 4), (6, 6), (8, 8), (10, 10), (4, 10), (10, 4), (4, 14), (8, 16), (6, 18), (8, 18)],
    [(8, 12), (8, 16)],
    [(5, 5), (9, 9), (8, 14), (7, 17), (10, 6)],
    (Link("100mbps"), Link("10mbps")),
)


class Form(NamedTuple):
    """A protocol and how it is run."""

    protocol: str
    options: tuple[str, ...]
    grid: Grid
    is_compared: bool = True

    def subject(self, powers: tuple[int, int]) -> Subject:
        receiver, sender = (1 << power for power in powers)
        return bench(self.protocol, receiver, sender, *self.options)

    def name(self) -> str:
        words = [word for word in self.options if word not in ("--security", "--reveal")]
        name = " ".join([self.protocol, *words])
        return name.replace("--items 32", "numbers").replace("--optimize ", "")

    def title(self) -> str:
        return self.name().replace(self.protocol, f"`{self.protocol}`", 1)


TRUSTED = ("--security", "semi-honest")


def circuits() -> Iterator[Form]:
    for name in ("circuit-okvs", "circuit-rb-psm1", "circuit-rb-psm2"):
        size = (*TRUSTED, "--reveal", "size")
        yield Form(name, size, LARGE)
        yield Form(name, (*size, "--optimize", "traffic"), MIDDLE, name == "circuit-okvs")
        for reveal in ("sum", "inner-product", "threshold-matches:1", "shares"):
            options = (*TRUSTED, "--reveal", reveal)
            yield Form(name, options, MIDDLE, (name, reveal) == ("circuit-okvs", "sum"))


FORMS = [
    Form("compact-dh", ("--security", "malicious"), SMALL),
    Form("compact-dh-sh1", TRUSTED, SMALL),
    Form("compact-dh-sh2", TRUSTED, SMALL),
    Form("dh", TRUSTED, SMALL),
    Form("oprf-dh", ("--security", "malicious"), UNEQUAL),
    Form("vole", ("--security", "malicious"), LARGEST),
    Form("vole", TRUSTED, LARGEST),
    Form("kkrt", TRUSTED, LARGEST),
    Form("spot-low", ("--security", "malicious-sender"), MIDDLE),
    Form("spot-low", TRUSTED, MIDDLE),
    Form("spot-fast", TRUSTED, LARGE),
    Form("sparse-okvs", TRUSTED, LARGE),
    *(
        Form(f"ole-{source}", (*TRUSTED, *items), MIDDLE, bool(items))
        for source in ("lattice", "ot", "dealer", "tee")
        for items in (("--items", "32"), ())
    ),
    *circuits(),
]


# What `auto` chooses between by default, over its two links, at sizes where it changes its mind.
CHOICES = [Form(name, ("--security", "malicious"), SMALL) for name in ("compact-dh", "vole")]
CHOICE_LINKS = (LAN, Link("100mbps-20ms"))
CHOICE_POWERS = range(8, 14)


def fitted(forms: list[Form]) -> Iterator[tuple[Subject, Link]]:
    for form in forms:
        for sizes in form.grid.fit:
            yield form.subject(sizes), LAN
        for sizes in form.grid.overlap if form.is_compared else []:
            for link in form.grid.overlapping:
                yield form.subject(sizes), link


def compared(forms: list[Form]) -> Iterator[tuple[Subject, Link]]:
    for form in forms:
        if form.is_compared:
            for sizes in form.grid.compared:
                for link in LINKS:
                    yield form.subject(sizes), link


def chosen() -> Iterator[tuple[Subject, Link]]:
    for power in CHOICE_POWERS:
        for link in CHOICE_LINKS:
            for form in CHOICES:
                yield form.subject((power, power)), link


def wanted(only: list[str]) -> list[tuple[Subject, Link]]:
    """The runs of these forms; of all if there are none."""
    forms = [form for form in FORMS if not only or form.name() in only]
    return [*fitted(forms), *compared(forms), *(chosen() if not only or "auto" in only else ())]


def measure(
    store: Store, minutes: float | None, cases: list[tuple[Subject, Link]]
) -> tuple[int, list[str]]:
    """Runs what is missing, until so many minutes are over; how many runs are left, and what failed."""
    start, failed = time.monotonic(), []
    left = [case for case in cases if not store.has(case[0].command(case[1]))]
    for done, (subject, link) in enumerate(left):
        if minutes is not None and time.monotonic() - start > 60 * minutes:
            say(f"stopped: {len(left) - done} of {len(left)} runs are left")
            return len(left) - done, failed
        command = subject.command(link)
        began = time.monotonic()
        try:
            runs = "5" if max(subject.receiver, subject.sender) <= 1 << 14 else "3"
            result = ran([str(BINARIES / command[0]), *command[1:], "--runs", runs])
        except Failed as failure:
            say(str(failure))
            failed.append(str(failure))
            continue
        store.put(command, result, time.monotonic() - began)
    return 0, failed


def entry(store: Store, subject: Subject, link: Link) -> Json | None:
    return store.entries.get((store.machine, subject.command(link)))


def sample(result: Json) -> Json:
    """What a fit reads of a result."""
    seconds = {name: round(result["seconds"][name], 6) for name in ("online", "offline")}
    bytes = {
        name: result["bytes"][name]
        for name in ("receiver_to_sender", "sender_to_receiver", "offline", "dealer_to_receiver")
        if name in result["bytes"]
    }
    memory = {name: result["peak_memory_bytes"][name] for name in ("receiver", "sender")}
    names = (
        "protocol",
        "security",
        "reveal",
        "optimize",
        "receiver_size",
        "sender_size",
        "items",
        "network",
    )
    found = {name: result[name] for name in names if result.get(name) is not None}
    return {**found, "seconds": seconds, "bytes": bytes, "peak_memory_bytes": memory}


def reference(store: Store) -> str:
    """The runs of the fits, with the machine and what it did beside them."""
    entries = [found for case in fitted(FORMS) if (found := entry(store, *case)) is not None]
    results = [found["result"] for found in entries]
    yardsticks = [result["yardstick_aes_blocks_per_second"] for result in results]
    days = [time.strptime(found["day"], "%Y-%m-%d") for found in entries]
    head = {
        "version": VERSION,
        "machine": store.machine,
        "yardstick_aes_blocks_per_second": round(statistics.median(yardsticks)),
        "taken": int(max(map(time.mktime, days))),
    }
    lines = [f"  {json.dumps(name)}: {json.dumps(value)}" for name, value in head.items()]
    samples = ",\n".join(f"    {json.dumps(sample(result))}" for result in results)
    return "{\n" + ",\n".join(lines) + f',\n  "samples": [\n{samples}\n  ]\n}}\n'


def predicted(subject: Subject, link: Link, result: Json) -> Json:
    """What `vesica plan` says of such a run on the reference machine."""
    options = dict(zip(subject.words, subject.words[1:]))
    names = ("--receiver-size", "--sender-size", "--items", "--reveal", "--optimize")
    terms = [word for name in names if name in options for word in (name, options[name])]
    words = ["plan", "--json", *terms, *subject.link(link), "--calibration", str(REFERENCE)]
    answer = ran([str(BINARIES / "vesica"), *words])
    forms = ("protocol", "security")
    same = [f for f in answer["forecasts"] if all(f[name] == result[name] for name in forms)]
    # Small sets have one way.
    assert same, subject
    return next((f for f in same if f["optimize"] == result["optimize"]), same[0])


def short(seconds: float) -> str:
    return f"{seconds:.4f}" if seconds < 0.1 else f"{seconds:.2f}"


class Tally:
    """How many of the figures are how near."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.inside = 0
        self.bytes: list[float] = []
        self.memory: list[float] = []

    def lines(self) -> list[str]:
        near = sum(ratio <= 1.3 for ratio in self.seconds)
        fits = sum(ratio <= 1.25 for ratio in self.memory)
        took, held = (100 * (statistics.median(all) - 1) for all in (self.seconds, self.memory))
        text = (
            f"Of {len(self.seconds)} times {self.inside} are within their intervals and {near} within 30 %; the median "
            f"is {took:.0f} % off. Of {len(self.memory)} peaks of memory {fits} are within 25 %; the median is "
            f"{held:.0f} % off. Bytes are {100 * max(self.bytes):.3f} % off at most."
        )
        return textwrap.wrap(text, 120, break_on_hyphens=False)


def off(one: float, other: float) -> float:
    """How many times the smaller the larger is."""
    return math.inf if min(one, other) <= 0 else max(one, other) / min(one, other)


def tables(store: Store) -> dict[str, list[str]]:
    """The blocks of the page."""
    seconds = heading("", "receiver", "sender", *(link.name for link in LINKS))
    sizes = heading("", "receiver", "sender", "bytes", "receiver, MiB", "sender, MiB")
    tally = Tally()
    for form in FORMS if REFERENCE.exists() else []:
        if not form.is_compared:
            continue
        title = form.title()
        for powers in form.grid.compared:
            subject = form.subject(powers)
            found = [(link, entry(store, subject, link)) for link in LINKS]
            results = [(link, run["result"]) for link, run in found if run is not None]
            if len(results) != len(LINKS):
                continue
            row = [title, *(f"2^{power}" for power in powers)]
            title = ""
            cells = []
            for link, result in results:
                said, took = predicted(subject, link, result), result["seconds"]["total"]
                likely, low, high = (said["seconds"][name] for name in ("likely", "low", "high"))
                cells.append(f"{short(likely)}, {short(took)}")
                tally.seconds.append(off(likely, took))
                tally.inside += low <= took <= high
            seconds.append(line([*row, *cells]))
            # The same over every link.
            both = [
                sum(
                    of["bytes"].get(name, 0)
                    for name in ("receiver_to_sender", "sender_to_receiver")
                )
                for of in (said, result)
            ]
            tally.bytes.append(abs(both[0] - both[1]) / both[1])
            cells = [f"{both[0]:,}, {both[1]:,}"]
            for side in ("receiver", "sender"):
                peaks = [of["peak_memory_bytes"][side] for of in (said, result)]
                tally.memory.append(off(*peaks))
                cells.append(", ".join(f"{peak / 2**20:.1f}" for peak in peaks))
            sizes.append(line([*row, *cells]))
    summary = tally.lines() if tally.seconds else []
    return {"summary": summary, "seconds": seconds, "sizes": sizes}


def choices(store: Store) -> list[str]:
    """Seconds of what `auto` chooses between, and its choice."""
    columns = [(form, link) for link in CHOICE_LINKS for form in CHOICES]
    titles = (f"`{form.protocol}`, {link.name}" for form, link in columns)
    lines = heading("items each", *titles, "`auto` takes")
    for power in CHOICE_POWERS:
        sizes = (power, power)
        runs = [entry(store, form.subject(sizes), link) for form, link in columns]
        if not all(runs):
            continue
        seconds = [short(run["result"]["seconds"]["total"]) for run in runs if run is not None]
        size = str(1 << power)
        answer = ran([str(BINARIES / "vesica"), "plan", "--json", "--receiver-size", size])
        lines.append(line([f"2^{power}", *seconds, f"`{answer['auto']}`"]))
    return lines


def write(store: Store) -> int:
    """The reference, the command that goes by it, and the page."""
    if not any(entry(store, *case) for case in fitted(FORMS)):
        say("nothing was run on this machine")
        return 1
    text = reference(store)
    if REFERENCE.read_text() != text:
        REFERENCE.write_text(text)
        if build() != 0:
            return 1
    PAGE.write_text(replaced(PAGE.read_text(), tables(store), keep=False))
    GUIDE.write_text(replaced(GUIDE.read_text(), {"auto": choices(store)}, keep=False))
    return 0


def build() -> int:
    return run([CARGO, "build", "--release", "--locked", "--package", "vesica-cli"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, help="stop after so many")
    parser.add_argument(
        "--only",
        action="append",
        choices=[*(form.name() for form in FORMS), "auto"],
        metavar="FORM",
        help="run these alone",
    )
    parser.add_argument(
        "--no-build", action="store_true", help="take the release build that there is"
    )
    parser.add_argument("--no-runs", action="store_true", help="write the files from the results")
    options = parser.parse_args()
    if not options.no_build and build() != 0:
        return 1
    store = open_store(RAW, "vesica")
    if store is None:
        return 1
    cases = wanted(options.only or [])
    left, failed = (0, []) if options.no_runs else measure(store, options.minutes, cases)
    if failed or left:
        return int(bool(failed))
    return write(store)


if __name__ == "__main__":
    sys.exit(interruptible(main))
