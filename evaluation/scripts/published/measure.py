"""Runs the cells of the papers' tables, and keeps each raw result at once.

A result is kept under its command, the binary that ran and the machine. One of the same three is not run again, so that
what was stopped goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import subprocess
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Union

from stages import ROOT, say

Json = dict[str, Any]

# Microseconds per item of both sides' mean, at the largest size of evaluation/papers/runs.jsonl: only for the remaining time, and
# for what is left to `PAPERS=full`. The first name that a subject begins with counts.
MICROSECONDS = {
    "auto": 0.6,
    "compact-dh": 32.0,
    "dh": 17.0,
    "kkrt": 0.8,
    "vole": 0.6,
    "spot-low": 8.0,
    "spot-fast": 2.0,
    "sparse-okvs": 2.5,
    "ole-dealer": 1.2,
    "ole-tee": 1.0,
    "ole-lattice": 3.6,
    "ole-ot": 5.0,
    "oprf-dh": 36.0,
    "circuit": 3.6,
    "paper-width": 0.8,
    "sha-256": 12.0,
    "ablate": 27.0,
    "PSTY19": 6.6,
    "CGS22": 3.6,
    "LTSXQ26": 4.0,
    "compact": 35.0,
    "ole-hashes": 2.0,
    "slices": 25.0,
}
# What a process costs beside: starting, tables, exchange of results.
STARTING = 0.3
RATES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}


class Link(NamedTuple):
    """A link as the commands name it, or by bandwidth and round trip."""

    name: str

    @property
    def bits_per_second(self) -> float | None:
        """Nothing if nothing is slowed down."""
        match = re.match(r"([\d.]+)([kmg]?)bps", self.name)
        return float(match[1]) * RATES[match[2]] if match else None

    @property
    def round_trip(self) -> str | None:
        """As `80ms`."""
        match = re.search(r"-([\d.]+ms)$", self.name)
        return match[1] if match else None

    def transmission(self, count: float) -> float:
        """Seconds that so many bytes take, one after another."""
        rate = self.bits_per_second
        return 0.0 if rate is None else 8 * count / rate

    def without_bandwidth(self) -> Link:
        """Its round trip alone: on this link one measures what is not transmission."""
        return Link(f"10gbps-{self.round_trip}") if self.round_trip else LAN


LAN = Link("lan")
# Links that slow down least: over them, a run takes little more than its work.
FAST_LINKS = (LAN, Link("10gbps-0.2ms"), Link("5gbps"), Link("3gbps-0.3ms"))
# How the words of a link begin.
LINKS = ("--network", "--bandwidth", "--link")


class Subject(NamedTuple):
    """What is measured, over whatever link: a program, its words but for link and runs, and sizes."""

    program: str
    words: tuple[str, ...]
    name: str
    receiver: int
    sender: int

    def command(self, link: Link) -> tuple[str, ...]:
        """The command but for the number of runs."""
        return (self.program, *self.words, *self.link(link))

    def link(self, link: Link) -> list[str]:
        if self.program == "vesica-research":
            return ["--link", link.name]
        if link == LAN or link.name in NAMED:
            return ["--network", link.name]
        rate, _, round_trip = link.name.partition("-")
        return ["--bandwidth", rate] + (["--rtt", round_trip] if round_trip else [])

    def base(self, link: Link) -> Link:
        """The link without its bandwidth, as far as the program knows such links: `research` has those with names."""
        return link.without_bandwidth() if self.program == "vesica" else LAN

    def estimate(self) -> float:
        """Seconds of one run over loopback, roughly."""
        known = (value for name, value in MICROSECONDS.items() if self.name.startswith(name))
        return next(known) * 1e-6 * (self.receiver + self.sender) / 2 + STARTING

    def question(self) -> tuple[str, ...] | None:
        """The words that ask for its bytes without a run; nothing for what `research` knows by runs alone."""
        if self.program != "vesica":
            is_circuit = self.words[0] == "circuits"
            return (self.program, *self.words, "--forecast") if is_circuit else None
        sizes = ("--receiver-size", str(self.receiver), "--sender-size", str(self.sender))
        options = dict(zip(self.words, self.words[1:]))
        terms = ((name, options[name]) for name in ("--items", "--reveal") if name in options)
        return (self.program, "plan", "--json", *sizes, *itertools.chain(*terms))

    def smaller(self, by: int) -> Subject:
        """The same with so many times fewer items: of both parties, or of the larger set if they differ."""
        receiver, sender = self.receiver, self.sender
        if receiver == sender:
            receiver //= by
        sender //= by
        sizes = {
            "--receiver-size": receiver,
            "--sender-size": sender,
            "--items": receiver,
            "--sender-items": sender,
        }
        if self.program == "vesica":
            # There, items are bits.
            del sizes["--items"]
        before = ("", *self.words)
        words = [str(sizes.get(name, word)) for name, word in zip(before, self.words)]
        return Subject(self.program, tuple(words), self.name, receiver, sender)

    def security(self) -> str | None:
        options = dict(zip(self.words, self.words[1:]))
        return options.get("--security")

    def runs(self) -> int:
        """Of how many the median is taken."""
        seconds = self.estimate()
        return 9 if seconds < STARTING + 0.05 else 3 if seconds < 2.5 else 1


NAMED = (
    "10gbps-0.2ms 5gbps 3gbps-0.3ms 1gbps 272mbps-80ms 100mbps-80ms 100mbps 50mbps-80ms 10mbps-80ms 10mbps 1mbps-80ms"
).split()


def bench(protocol: str, receiver: int, sender: int | None = None, *options: str) -> Subject:
    sender = receiver if sender is None else sender
    sizes = ("--receiver-size", str(receiver), "--sender-size", str(sender))
    words = ("bench", "--json", "--protocol", protocol, *sizes, *options)
    return Subject("vesica", words, protocol, receiver, sender)


def research(
    task: str,
    variant: str,
    receiver: int,
    sender: int | None = None,
    *options: str,
    name: str | None = None,
) -> Subject:
    sizes = ("--items", str(receiver))
    if sender is not None and sender != receiver:
        sizes += ("--sender-items", str(sender))
    words = (task, "--json", *sizes, *options, "--variant", variant)
    return Subject("vesica-research", words, name or task, receiver, sender or receiver)


class Part(NamedTuple):
    """Seconds and bytes both ways of a phase or of several."""

    seconds: float
    bytes: int

    def over(self, link: Link) -> float:
        """Seconds over a link, if these are of a link without its bandwidth: nothing overlaps."""
        return self.seconds + link.transmission(self.bytes)


# A part of a run by its name, or phases of it.
Which = Union[str, tuple[str, ...]]


class Measured(NamedTuple):
    """A run: all of it, what needs no items, the rest, and its phases."""

    total: Part
    offline: Part
    online: Part
    phases: dict[str, Part]
    yardstick: float

    def part(self, which: Which) -> Part:
        if isinstance(which, str):
            return {"total": self.total, "offline": self.offline, "online": self.online}[which]
        parts = [part for name, part in self.phases.items() if name in which]
        return Part(sum(part.seconds for part in parts), sum(part.bytes for part in parts))


OFFLINE = ("dealing", "prepare", "offline")


def measured(result: Json) -> Measured:
    """What `vesica bench --json` or `vesica-research … --json` printed."""
    run = result["variants"][0] if "variants" in result else result
    phases: dict[str, Part] = {}
    for phase in run["phases"]:
        part = Part(phase["seconds"], phase["bytes_sent"] + phase["bytes_received"])
        phases[phase["phase"]] = part
    # A generator hands its half to the party that it stands beside: only what passes between the two counts.
    between = run["bytes"].get("between_generators")
    if between is not None:
        phases["dealing"] = phases["dealing"]._replace(bytes=between)
    dealt = run["bytes"].get("dealer_to_sender", 0)

    def sum_of(parts: Iterable[Part]) -> Part:
        parts = list(parts)
        return Part(sum(p.seconds for p in parts), sum(p.bytes for p in parts))

    offline = sum_of(part for name, part in phases.items() if name in OFFLINE)
    offline = offline._replace(bytes=offline.bytes + dealt)
    online = sum_of(part for name, part in phases.items() if name not in OFFLINE)
    total = Part(offline.seconds + online.seconds, offline.bytes + online.bytes)
    return Measured(total, offline, online, phases, result["yardstick_aes_blocks_per_second"])


class Store:
    """Raw results in a file of one JSON object per line, written anew after each run."""

    def __init__(self, path: Path, binary: str, machine: str) -> None:
        self.path, self.binary, self.machine = path, binary, machine
        lines = path.read_text().splitlines() if path.is_file() else []
        self.entries: dict[tuple[str, tuple[str, ...]], Json] = {}
        for number, line in enumerate(lines, 1):
            try:
                entry = json.loads(line)
                self.entries[entry["machine"], tuple(entry["command"])] = entry
            except (KeyError, TypeError, ValueError) as error:
                raise Failed(f"{path}, line {number}: no result of a run ({error})") from error

    def has(self, command: tuple[str, ...]) -> bool:
        """Whether this binary has run it on this machine."""
        found = self.entries.get((self.machine, command))
        return found is not None and found["binary"] == self.binary

    def put(
        self, command: tuple[str, ...], result: Json, seconds: float, load: float | None = None
    ) -> None:
        """Keeps a result, and how busy the machine was with other work when its run began."""
        self.entries[self.machine, command] = {
            "command": list(command),
            "binary": self.binary,
            "machine": self.machine,
            "day": time.strftime("%Y-%m-%d"),
            "seconds": round(seconds, 1),
            "load": load,
            "result": result,
        }
        text = "".join(json.dumps(entry) + "\n" for _, entry in sorted(self.entries.items()))
        draft = self.path.with_suffix(".draft")
        draft.write_text(text)
        os.replace(draft, self.path)

    def result(self, command: tuple[str, ...]) -> Json | None:
        """The latest result on this machine, of whichever binary."""
        found = self.entries.get((self.machine, command))
        return None if found is None else found["result"]


def fingerprint(*binaries: Path) -> str:
    """The first digits of a hash of the binaries."""
    digest = hashlib.sha256()
    for binary in binaries:
        digest.update(binary.read_bytes())
    return digest.hexdigest()[:12]


class Failed(Exception):
    """A command that did not do what it should."""


def ran(command: list[str]) -> Json:
    """What a command prints as JSON."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr.strip()}")
    result = json.loads(done.stdout)
    assert isinstance(result, dict)
    return result


def others() -> float:
    """How busy the processors are with other work, from 0 to 1, over a fifth of a second."""

    def times() -> list[int]:
        return [int(word) for word in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]

    before = times()
    time.sleep(0.2)
    spent = [now - then for now, then in zip(times(), before)]
    idle = spent[3] + spent[4]
    return round(1 - idle / max(1, sum(spent)), 2)


class Cell(NamedTuple):
    """Seconds or bytes here, and whether they were measured or computed."""

    value: float
    is_computed: bool = False
    # Seconds where the yardstick is 1.
    at_one: float | None = None
    # Whether it is computed from a run with fewer items.
    is_scaled: bool = False

    def times(self, factor: float) -> Cell:
        at_one = None if self.at_one is None else self.at_one * factor
        return self._replace(value=self.value * factor, at_one=at_one)

    def plus(self, other: Cell, sign: int = 1) -> Cell:
        """The sum of both, or the difference if the sign is -1."""
        ones = self.at_one, other.at_one
        return Cell(
            self.value + sign * other.value,
            self.is_computed or other.is_computed,
            None if None in ones else ones[0] + sign * ones[1],
            self.is_scaled or other.is_scaled,
        )


class Lab:
    """Knows which runs there are, runs those that are missing, and says what a cell is."""

    def __init__(
        self,
        store: Store,
        binaries: Path,
        full: bool,
        *,
        only_new: bool = False,
        only_stored: bool = False,
    ) -> None:
        self.store, self.binaries, self.full, self.only_new = store, binaries, full, only_new
        # Runs nothing and asks no binary.
        self.only_stored = only_stored
        # Runs over loopback that may take longer are for `PAPERS=full`; cells over links are then computed.
        self.longest = 1500.0 if full else 40.0
        self.largest = 1 << 26 if full else 1 << 24
        self.longest_link = 150.0 if full else 8.0
        self.wanted: dict[tuple[Subject, Link], bool] = {}
        self.failed: list[str] = []
        self.broken: set[Subject] = set()

    def want(self, subject: Subject, link: Link = LAN, *, always: bool = False) -> None:
        """Asks for a cell: the run without the bandwidth, and the link's own unless that is long."""
        self.wanted.setdefault((subject, subject.base(link)), False)
        key = (subject, link)
        self.wanted[key] = self.wanted.get(key, False) or always

    def base(self, subject: Subject, link: Link) -> Measured | None:
        """The run over the link without its bandwidth."""
        return self.run_of(subject, subject.base(link))

    def run_of(self, subject: Subject, link: Link) -> Measured | None:
        result = self.store.result(subject.command(link))
        return None if result is None else measured(result)

    def is_long(self, subject: Subject, link: Link) -> bool:
        base = self.base(subject, link)
        return base is not None and base.total.over(link) > self.longest_link

    def is_in_scope(self, subject: Subject) -> bool:
        """Whether it is run, or left to `PAPERS=full`: stored tuples of 2^24 items take 14 GB of memory."""
        is_heavy = subject.name.startswith("ole-") and not self.full
        is_small = max(subject.receiver, subject.sender) <= (1 << 22 if is_heavy else self.largest)
        return is_small and subject.estimate() <= self.longest

    def missing(self) -> list[tuple[Subject, Link]]:
        """The runs that are left, those without bandwidth before those that may be computed from them."""
        left = []
        for (subject, link), always in self.wanted.items():
            # What has failed once is not tried over every other link.
            if subject in self.broken or not self.is_in_scope(subject):
                continue
            if self.is_done(subject, link):
                continue
            if link == subject.base(link) or always or not self.is_long(subject, link):
                left.append((subject, link))
        return sorted(left, key=lambda run: (run[1] != LAN, self.estimate(*run)))

    def is_done(self, subject: Subject, link: Link) -> bool:
        """Whether this binary has run it, or any has if others' results are not run anew."""
        command = subject.command(link)
        return self.store.has(command) or (self.only_new and self.store.result(command) is not None)

    def estimate(self, subject: Subject, link: Link) -> float:
        base = self.base(subject, link)
        once = subject.estimate() if base is None else base.total.over(link) + STARTING
        return once * self.runs(subject, link)

    def runs(self, subject: Subject, link: Link) -> int:
        """Of how many the median is taken: one over a link that makes it long."""
        return 1 if self.is_long(subject, link) else subject.runs()

    def run(self, minutes: float | None) -> None:
        """Runs what is missing, until so many minutes are over."""
        start, spent, expected, tried = time.monotonic(), 0.0, 0.0, set()
        while True:
            left = [run for run in self.missing() if run not in tried]
            if not left:
                return
            pace = spent / expected if expected else 1.0
            remaining = pace * sum(self.estimate(*run) for run in left)
            if minutes is not None and time.monotonic() - start > 60 * minutes:
                say(f"stopped: {len(left)} runs are left, some {remaining / 60:.0f} minutes")
                return
            subject, link = left[0]
            tried.add(left[0])
            command = subject.command(link)
            say(f"{len(left)} runs left, some {remaining / 60:.0f} min: {' '.join(command)}")
            began, guess = time.monotonic(), self.estimate(subject, link)
            load = others()
            words = [
                str(self.binaries / command[0]),
                *command[1:],
                "--runs",
                str(self.runs(subject, link)),
            ]
            try:
                result = ran(words)
            except Failed as failed:
                say(str(failed))
                self.failed.append(str(failed))
                self.broken.add(subject)
                continue
            took = time.monotonic() - began
            spent, expected = spent + took, expected + guess
            self.store.put(command, result, took, load)

    def seconds(self, subject: Subject, link: Link = LAN, part: Which = "total") -> Cell | None:
        """Seconds of the whole run or of a part: measured over the link, or else computed."""
        run = self.run_of(subject, link)
        if run is not None:
            return self.timed(subject, part, run.part(part).seconds, run.yardstick)
        return self.computed(subject, link, part) or self.scaled(subject, link, part)

    def timed(self, subject: Subject, part: Which, seconds: float, yardstick: float) -> Cell:
        """A cell of a run whose yardstick this is: at 1, its work is faster or slower, and what the link takes is not."""
        runs = (self.run_of(subject, link) for link in FAST_LINKS)
        fast = next((run for run in runs if run is not None), None)
        if fast is None:
            return Cell(seconds)
        speed = yardstick / 1e9
        work = min(seconds, fast.part(part).seconds * fast.yardstick / yardstick)
        return Cell(seconds, at_one=seconds - work + work * speed)

    def computed(self, subject: Subject, link: Link, part: Which = "total") -> Cell | None:
        """Seconds over a link from a run without its bandwidth; nothing if its round trip was not in that run."""
        base = self.base(subject, link)
        if base is None or (link.round_trip and subject.base(link) == LAN):
            return None
        seconds = base.part(part).over(link)
        return self.timed(subject, part, seconds, base.yardstick)._replace(is_computed=True)

    def scaled(
        self, subject: Subject, link: Link, part: Which = "total", count: Cell | None = None
    ) -> Cell | None:
        """Seconds from the loopback run with fewer items, in proportion, and what the bytes take at the bandwidth.

        `count` is those bytes, if they are known here alone.
        """
        if link.round_trip:
            return None
        found = self.largest_below(subject)
        if found is None:
            return None
        smaller, base = found
        items, fewer = subject.receiver + subject.sender, smaller.receiver + smaller.sender
        if count is None:
            # Bytes of phases are known from runs alone.
            grown = Cell(base.part(part).bytes * items / fewer)
            count = self.bytes(subject, part) if isinstance(part, str) else grown
        if count is None and link != LAN:
            return None
        work = base.part(part).seconds * items / fewer
        waiting = 0.0 if count is None else link.transmission(count.value)
        return Cell(work + waiting, True, work * base.yardstick / 1e9 + waiting, True)

    def largest_below(self, subject: Subject) -> tuple[Subject, Measured] | None:
        """The loopback run with a quarter of the items, or a sixteenth or a 64th."""
        for by in (4, 16, 64):
            smaller = subject.smaller(by)
            run = self.run_of(smaller, LAN)
            if run is not None:
                return smaller, run
        return None

    def results(self, subject: Subject) -> Iterator[Json]:
        """Of all runs of the subject here, over whatever link."""
        start = (subject.program, *subject.words)
        for (machine, command), entry in self.store.entries.items():
            rest = command[len(start) :]
            if (machine, command[: len(start)]) == (self.store.machine, start) and rest[0] in LINKS:
                yield entry["result"]

    def bytes(self, subject: Subject, part: str = "total") -> Cell | None:
        """Bytes both ways: of a run, or else computed without one."""
        for result in self.results(subject):
            return Cell(measured(result).part(part).bytes)
        planned = self.planned(subject)
        if planned is not None and part in planned:
            return Cell(planned[part], True)
        # What passes between the generators does not grow with the sets.
        found = self.largest_below(subject) if subject.name == "ole-tee" else None
        return None if found is None else Cell(found[1].part(part).bytes, True)

    def planned(self, subject: Subject) -> dict[str, float] | None:
        """Bytes by part, as `vesica plan` or `research` computes them; nothing for what they do not know."""
        question = subject.question()
        if question is None:
            return None
        if not self.store.has(question) and not self.only_stored:
            words = [str(self.binaries / question[0]), *question[1:]]
            try:
                known = ran(words)["forecasts"]
            except Failed:
                return None
            # What it says of this machine is not wanted.
            answer = [
                {name: one[name] for name in ("protocol", "security", "bytes")} for one in known
            ]
            self.store.put(question, {"forecasts": answer}, 0.0)
        found, security = self.store.result(question), subject.security()
        for forecast in found["forecasts"] if found else ():
            if forecast["protocol"] == subject.name and security in (None, forecast["security"]):
                count = forecast["bytes"]
                offline = count["offline"] + count["dealer_to_receiver"]
                total = (
                    count["receiver_to_sender"]
                    + count["sender_to_receiver"]
                    + count["dealer_to_receiver"]
                )
                parts = {"total": total, "online": total - offline}
                # It does not count the few hundred bytes between generators.
                return parts if subject.name == "ole-tee" else {**parts, "offline": offline}
        return None

    def each_way(self, subject: Subject) -> tuple[float, float] | None:
        """Bytes that the receiver sends, and the sender."""
        for result in self.results(subject):
            sent = (result["variants"][0] if "variants" in result else result)["bytes"]
            return sent["receiver_to_sender"], sent["sender_to_receiver"]
        return None

    def yardsticks(self) -> list[float]:
        """Of all runs here, in blocks per second, sorted."""
        mine = (e for e in self.store.entries.values() if e["machine"] == self.store.machine)
        field = "yardstick_aes_blocks_per_second"
        return sorted(e["result"][field] for e in mine if field in e["result"])
