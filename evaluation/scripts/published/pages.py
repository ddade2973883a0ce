"""What each paper's page has: which runs its tables need, the tables, and what its plots show."""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

from . import printed
from .measure import LAN, Cell, Lab, Link, Subject, Which, bench, research
from .money import cost
from .printed import Paper, size
from .tables import MISSING, Row, bits_per_item, digits, heading, line, megabytes, scaled, shown

Block = tuple[str, list[str]]
Plot = dict[str, Any]

PRTY19_LINKS = [
    Link(f"{name}") for name in ("10gbps-0.2ms 100mbps-80ms 10mbps-80ms 1mbps-80ms").split()
]
WITHOUT_ROUND_TRIP = [LAN, Link("100mbps"), Link("10mbps")]
KBM23_LINKS = [Link(name) for name in ("5gbps", "1gbps", "100mbps", "10mbps")]
SEMI_HONEST = ("--security", "semi-honest")
MALICIOUS = ("--security", "malicious")
MALICIOUS_SENDER = ("--security", "malicious-sender")


class Page(ABC):
    """A page of evaluation/papers. Making its blocks asks the lab for every run that they show."""

    name = ""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.paper = Paper(self.name)

    @abstractmethod
    def blocks(self) -> Iterator[Block]:
        """The blocks of the page, in order."""

    def plots(self) -> Iterator[Plot]:
        return iter(())

    def seconds(self, subject: Subject, link: Link, part: str = "total") -> Cell | None:
        # What has round trips in `research` cannot be computed from loopback.
        always = bool(link.round_trip) and subject.base(link) == LAN
        self.lab.want(subject, link, always=always)
        return self.lab.seconds(subject, link, part)

    def bytes(self, subject: Subject, part: str = "total") -> Cell | None:
        """Bytes both ways. The planner knows those of what ships without a run."""
        if subject.program == "vesica-research":
            self.lab.want(subject)
        return self.lab.bytes(subject, part)

    def megabytes(self, subject: Subject, part: str = "total") -> Cell | None:
        return megabytes(self.bytes(subject, part))

    def bits(self, subject: Subject, part: str = "total") -> Cell | None:
        """Bits per item of either set, which are of one size."""
        return bits_per_item(self.bytes(subject, part), subject.receiver)

    def point(self, label: str, x: Cell | float | None, y: Cell | float | None, ours: bool) -> Any:
        """A point of a plot, if it has both values."""
        pair = [value.value if isinstance(value, Cell) else value for value in (x, y)]
        return None if None in pair else {"label": label, "x": pair[0], "y": pair[1], "ours": ours}


def present(points: list[Any]) -> list[Any]:
    return [point for point in points if point is not None]


class Prty19(Page):
    name = "prty19"
    SYSTEMS: ClassVar = {
        "KKRT": "kkrt",
        "DH-PSI": "dh",
        "DH-PSI (25519)": "dh",
        "spot-low": "spot-low",
        "spot-fast": "spot-fast",
    }
    SITES: ClassVar = {
        "b2b, one site": ("prty19-b2b-one-site", "9.6gbps"),
        "b2b, Ohio": ("prty19-b2b-usa", "1.08gbps"),
        "b2b, Mumbai": ("prty19-b2b-usa-mumbai", "63mbps"),
        "b2b, Sydney": ("prty19-b2b-usa-sydney", "68mbps"),
        "b2b, Sao Paulo": ("prty19-b2b-usa-sao-paulo", "84mbps"),
        "b2b, AWS zones": ("aws-2026-b2b-zones", "9.6gbps"),
        "b2b, AWS regions": ("aws-2026-b2b-regions", "1.08gbps"),
        "b2b, Google zones": ("google-2026-b2b-zones", "9.6gbps"),
        "b2b, Azure peers": ("azure-2026-b2b-peered", "9.6gbps"),
        "b2b, Azure regions": ("azure-2026-b2b-regions", "1.08gbps"),
        "Internet, USA": ("prty19-internet-usa", "170mbps"),
        "Internet, Mumbai": ("prty19-internet-mumbai", "63mbps"),
        "Internet, Sydney": ("prty19-internet-sydney", "68mbps"),
        "Internet, Sao Paulo": ("prty19-internet-sao-paulo", "84mbps"),
        "Internet, AWS": ("aws-2026-internet", "170mbps"),
        "Internet, Google": ("google-2026-internet", "170mbps"),
        "Internet, Azure": ("azure-2026-internet", "170mbps"),
    }
    COMPARED = ("dh", "kkrt", "spot-low", "spot-fast", "vole")

    def subject(self, protocol: str, n: int) -> Subject:
        return bench(protocol, n, n, *SEMI_HONEST)

    def runs_here(self, protocol: str, n: int) -> bool:
        return not (protocol == "spot-low" and n > 1 << 22)

    def blocks(self) -> Iterator[Block]:
        yield "table-1", self.table_1()
        yield "table-2", self.table_2()
        yield "table-2-four-threads", self.four_threads()
        yield "figure-6", self.figure_6()
        yield "figure-8", self.figure_8()
        yield "figures-10-and-11", self.money()
        yield "figure-12", self.figure_12()

    def table_1(self) -> list[str]:
        sizes = ("2^16", "2^20", "2^24")
        lines = heading("bits per item", "", *sizes)
        for row in self.paper["1"]:
            protocol = self.SYSTEMS[row["system"]]
            here = [
                self.bits(self.subject(protocol, size(n)))
                if self.runs_here(protocol, size(n))
                else None
                for n in sizes
            ]
            lines += Row(row["system"], [row.number(n) for n in sizes]).lines(here)
        return lines

    def table_2(self) -> list[str]:
        links = PRTY19_LINKS
        lines = heading("", "", "MB", *(f"{link.name}, s" for link in links))
        for row in self.paper["2"]:
            protocol = self.SYSTEMS.get(row["system"])
            n = row.size("n")
            figures = [scaled(row.bytes("MB"), 1e-6), *(row.number(link.name) for link in links)]
            label = f"{row['system']}, {row['n']}"
            if protocol is None:
                lines += Row(label, figures).lines("quoted")
                continue
            subject = self.subject(protocol, n)
            lines += Row(label, figures).lines(self.over(subject, links))
        for n in ("2^16", "2^20"):
            subject = bench("spot-low", size(n), size(n), *MALICIOUS_SENDER)
            cells = map(shown, self.over(subject, links))
            lines.append(line([f"spot-low, malicious sender, {n}", "here", *cells]))
        return lines

    def four_threads(self) -> list[str]:
        lines = heading("", "", *(f"{link.name}, s" for link in PRTY19_LINKS))
        for row in self.paper["2"]:
            figures = [row.number(f"{link.name}/4") for link in PRTY19_LINKS]
            if any(figures):
                made = Row(f"{row['system']}, {row['n']}", figures)
                lines += made.lines("not possible on two cores")
        return lines

    def figure_6(self) -> list[str]:
        rows = self.paper["figure 6"]
        sizes = [name for name in rows[0] if name != "failure"]
        lines = heading("bits", "", *sizes)
        for row in rows:
            failure = int(row["failure"].partition("^-")[2])
            made = Row(row["failure"], [row.number(n) for n in sizes])
            here = [Cell(width(size(n), failure), True) for n in sizes]
            lines += made.lines(here, [False] * len(here), "by proposition 2")
        return lines

    def figure_8(self) -> list[str]:
        lines = heading("seconds, 2^20 points", "paper", "here")
        for row in self.paper["figure 8"]:
            cell = self.seconds(research("slices", row["here"], 1 << 20), LAN)
            printed_at = MISSING if row["seconds"] is None else str(row["seconds"])
            lines.append(line([row["way"], printed_at, shown(cell)]))
        return lines

    def over(self, subject: Subject, links: list[Link]) -> list[Cell | None]:
        return [self.megabytes(subject), *(self.seconds(subject, link) for link in links)]

    def dollars(self, protocol: str, n: int, setting: str, rate: str) -> float | None:
        """USD of 1000 runs by the formula of section 6.2, at the time that a run takes over such a link."""
        subject = self.subject(protocol, n)
        seconds, sent = self.seconds(subject, Link(rate)), self.lab.each_way(subject)
        return (
            None if seconds is None or sent is None else 1000 * cost(setting, seconds.value, sent)
        )

    def money(self) -> list[str]:
        lines = heading("USD per 1000 runs", *(f"`{name}`" for name in self.COMPARED), "cheapest")
        for n in ("2^16", "2^20"):
            for site, (setting, rate) in self.SITES.items():
                costs = {name: self.dollars(name, size(n), setting, rate) for name in self.COMPARED}
                known = {name: cost for name, cost in costs.items() if cost is not None}
                cells = [shown(None if cost is None else Cell(cost)) for cost in costs.values()]
                best = f"`{min(known, key=known.__getitem__)}`" if known else ""
                lines.append(line([f"{n}, {site}", *cells, best]))
        return lines

    def figure_12(self) -> list[str]:
        links = [Link(row["bandwidth"]) for row in self.paper["figure 12"]]
        lines = heading("seconds", "items", *(link.name for link in links))
        for n in ("2^16", "2^20"):
            for protocol in self.COMPARED:
                cells = [self.seconds(self.subject(protocol, size(n)), link) for link in links]
                lines.append(line([f"`{protocol}`", n, *map(shown, cells)]))
        return lines

    def plots(self) -> Iterator[Plot]:
        n = 1 << 20
        for link in PRTY19_LINKS[:3]:
            points = [
                self.point(
                    row["system"], scaled(row.bytes("MB"), 1e-6), row.number(link.name), False
                )
                for row in self.paper["2"]
                if row.size("n") == n
            ]
            points += [
                self.point(
                    name,
                    self.megabytes(self.subject(name, n)),
                    self.seconds(self.subject(name, n), link),
                    True,
                )
                for name in self.COMPARED
            ]
            yield scatter(f"prty19-figure-1-{link.name}", f"2^20 items, {link.name}", points)
        for figure, kind in (("10", "b2b"), ("11", "Internet")):
            sites = {site: where for site, where in self.SITES.items() if site.startswith(kind)}
            bars = {
                name: [self.dollars(name, n, *where) for where in sites.values()]
                for name in self.COMPARED
            }
            yield {
                "file": f"prty19-figure-{figure}",
                "kind": "bars",
                "title": f"PSI of 2^20 items, {kind}",
                "y": "USD per 1000 runs",
                "groups": [site.partition(", ")[2] for site in sites],
                "series": {name: values for name, values in bars.items() if None not in values},
            }
        links = [Link(row["bandwidth"]) for row in self.paper["figure 12"]]
        series = {}
        for name in self.COMPARED:
            cells = [self.seconds(self.subject(name, n), link) for link in links]
            series[name] = [
                [link.bits_per_second / 1e6, cell.value]
                for link, cell in zip(links, cells)
                if cell is not None
            ]
        yield lines_of("prty19-figure-12", "2^20 items", "Mb/s", "seconds", series)


def width(evaluations: int, failure: int) -> int:
    """Bits of the least field for which PRTY19's proposition 2 gives at most 2^-failure, for κ = 128."""

    def suffices(columns: int) -> bool:
        light = sum(math.comb(columns, i) for i in range(128))
        return evaluations * light << failure <= 1 << columns

    return next(columns for columns in itertools.count(128) if suffices(columns))


def scatter(file: str, title: str, points: list[Any]) -> Plot:
    return {
        "file": file,
        "kind": "scatter",
        "title": title,
        "x": "MB",
        "y": "seconds",
        "points": present(points),
    }


def lines_of(file: str, title: str, x: str, y: str, series: dict[str, list[list[float]]]) -> Plot:
    drawn = {name: points for name, points in series.items() if points}
    return {"file": file, "kind": "lines", "title": title, "x": x, "y": y, "series": drawn}


class Rt21(Page):
    name = "rt21"
    SYSTEMS: ClassVar = {
        ("Classic DH", "semi-honest"): "dh",
        ("DH-PSI", "semi-honest"): "dh",
        ("KKRT", "semi-honest"): "kkrt",
        ("SpOT-low", "one-sided"): "spot-low",
        ("SpOT-low", "semi-honest"): "spot-low",
        ("SpOT-fast", "semi-honest"): "spot-fast",
        ("VOLE-PSI (interpolation)", "semi-honest"): "vole",
        ("VOLE-PSI (interpolation)", "malicious"): "vole",
        ("Ours", "semi-honest"): "compact-dh-sh1",
        ("Ours (var. 1)", "semi-honest"): "compact-dh-sh1",
        ("Ours (var. 2)", "semi-honest"): "compact-dh-sh2",
        ("Ours", "malicious"): "compact-dh",
    }
    SECURITY: ClassVar = {
        "semi-honest": SEMI_HONEST,
        "one-sided": MALICIOUS_SENDER,
        "malicious": MALICIOUS,
    }
    LINKS_2 = (Link("10gbps-0.2ms"), Link("50mbps-80ms"))
    LINKS_3 = (*LINKS_2, Link("1mbps-80ms"))

    def subject(self, row: printed.Row, receiver: int, sender: int) -> Subject | None:
        protocol = self.SYSTEMS.get((row["system"], row["security"]))
        security = self.SECURITY[row["security"]]
        return None if protocol is None else bench(protocol, receiver, sender, *security)

    def blocks(self) -> Iterator[Block]:
        yield "table-1", self.table_1()
        yield "table-2", self.table_2()
        yield "table-3", self.table_3()
        yield "appendix-b", self.appendix_b()

    def appendix_b(self) -> list[str]:
        sizes = ("2^12", "2^16", "2^18", "2^20")
        lines = heading("seconds, lan; bits per item", "", *sizes)
        for variant in ("figure 5, polynomial", "appendix B, OKVS"):
            subjects = [research("compact", variant, size(n)) for n in sizes]
            seconds = [shown(self.seconds(subject, LAN)) for subject in subjects]
            lines.append(line([variant, "seconds", *seconds]))
            bits = [shown(self.bits(subject)) for subject in subjects]
            lines.append(line(["", "bits", *bits]))
        return lines

    def table_1(self) -> list[str]:
        sizes = ("2^8", "2^9", "2^10", "2^12", "2^16", "2^20")
        lines = heading("bits per item", "", *sizes)
        for row in self.paper["1"]:
            made = Row(f"{row['system']}, {row['security']}", [row.number(n) for n in sizes])
            subjects = [self.subject(row, size(n), size(n)) for n in sizes]
            lines += made.lines([self.bits(s) for s in subjects if s] or "quoted")
        return lines

    def cells(
        self, subject: Subject, links: tuple[Link, ...], with_offline: bool, by: float
    ) -> list[Cell | None]:
        parts = ("offline", "online", "total") if with_offline else ("online", "total")
        found = [self.seconds(subject, link, part) for link in links for part in parts]
        return [None if cell is None else cell.times(by) for cell in found]

    def table_2(self) -> list[str]:
        columns = [
            f"{link.name}{part}" for link in self.LINKS_2 for part in (" offline", " online", "")
        ]
        lines = heading("milliseconds", "", "KB", *columns)
        for row in self.paper["2"]:
            figures = [scaled(row.bytes("KB"), 1e-3), *(row.number(column) for column in columns)]
            made = Row(f"{row['system']}, {row['security']}, {row['n']}", figures)
            subject = self.subject(row, row.size("n"), row.size("n"))
            if subject is None:
                lines += made.lines("quoted")
                continue
            sent = self.megabytes(subject)
            kilobytes = None if sent is None else sent.times(1000)
            # Base OTs are the paper's offline part of these, and in the online part here.
            has_offline = subject.name.startswith("compact-dh")
            compared = [has_offline or not column.endswith(" offline") for column in columns]
            here = [kilobytes, *self.cells(subject, self.LINKS_2, True, 1000)]
            lines += made.lines(here, [True, *compared])
            if subject.name == "compact-dh-sh1":
                other = self.variant_2(subject)
                sent = self.megabytes(other)
                cells = [
                    None if sent is None else sent.times(1000),
                    *self.cells(other, self.LINKS_2, True, 1000),
                ]
                lines.append(line(["", "here, figure 6", *map(shown, cells)]))
        return lines

    def variant_2(self, subject: Subject) -> Subject:
        """What the tables of seconds do not tell from variant 1."""
        return bench("compact-dh-sh2", subject.receiver, subject.sender, *SEMI_HONEST)

    def table_3(self) -> list[str]:
        columns = [f"{link.name}{part}" for link in self.LINKS_3 for part in (" online", "")]
        lines = heading("seconds", "", "MB", *columns)
        for row in self.paper["3"]:
            figures = [scaled(row.bytes("MB"), 1e-6), *(row.number(column) for column in columns)]
            made = Row(f"{row['system']}, {row['security']}, {row['n_r']} : {row['n_s']}", figures)
            subject = self.subject(row, row.size("n_r"), row.size("n_s"))
            here = subject and [
                self.megabytes(subject),
                *self.cells(subject, self.LINKS_3, False, 1),
            ]
            lines += made.lines(here or "quoted")
            if subject and subject.name == "compact-dh-sh1":
                other = self.variant_2(subject)
                cells = [self.megabytes(other), *self.cells(other, self.LINKS_3, False, 1)]
                lines.append(line(["", "here, figure 6", *map(shown, cells)]))
        return lines

    def plots(self) -> Iterator[Plot]:
        points = []
        for row in self.paper["2"]:
            if row["n"] != "2^8":
                continue
            label = f"{row['system']}, {row['security']}"
            points.append(
                self.point(
                    label,
                    scaled(row.bytes("KB"), 1e-6),
                    scaled(row.number("10gbps-0.2ms"), 1e-3),
                    False,
                )
            )
            subject = self.subject(row, 256, 256)
            if subject:
                pair = self.megabytes(subject), self.seconds(subject, self.LINKS_2[0])
                points.append(self.point(subject.name, *pair, True))
        yield scatter("rt21-figure-1", "256 items, 10 Gb/s and 0.2 ms", points)


class Cgs22(Page):
    name = "cgs22"
    VARIANTS: ClassVar = {
        "PSTY": "PSTY19",
        "C-PSI1": "CGS22, C-PSI1, KKRT",
        "C-PSI2": "CGS22, C-PSI2, KKRT",
    }
    SHIPPED = ("circuit-rb-psm1", "circuit-rb-psm2", "circuit-okvs")
    SIZES = ("2^14", "2^16", "2^18", "2^20", "2^22")
    LINKS = (Link("3gbps-0.3ms"), Link("272mbps-80ms"))
    # PSTY19 with this is what runs here.
    EQUALITY = "PSTY, equality of PSM2"
    PARTS: ClassVar = {
        "Hashing": ("bins",),
        "OPRF": ("oprf", "encode", "expand", "decode", "encoding"),
        "Hint": ("hint",),
        "Circuit/PSM": ("correlations", "membership"),
    }
    # Its parts in the paper, which are one phase here.
    HINT = ("Hint Creation", "Hint Transmission", "Hint Evaluation")
    # What C-PSI2's second OPPRF has in its run, beside the first.
    OPPRF = (*PARTS["OPRF"], "hint")

    def subject(self, variant: str, n: str) -> Subject:
        return circuits(variant, size(n))

    def blocks(self) -> Iterator[Block]:
        yield "table-1", self.table_1()
        yield "table-2", self.table_2()
        yield "table-2-psm", self.psm_bytes()
        yield "table-3", self.table_3()
        yield "table-4", self.table_4()

    def table_1(self) -> list[str]:
        lines = heading("bits", "paper", "by its count", "by its Table 1", "here, 2^22")
        counted = {"PSM1": psm(64, 4, 3), "PSM2": psm(64, 4, 1) + opprf(64)}
        ell, lam, elements, slots = 64, 128, 3, 4
        formulas = {
            "CO": 2 * ell * elements * lam + elements * lam,
            "ABY": 2 * elements * lam * (ell - 1),
            "PSM1": ell * elements * lam // 4 + ell * lam // 2 + 8 * ell * elements,
            "PSM2": (8 + slots) * ell + 3 * ell * lam // 4 + 9 * lam // 2,
        }
        here = {"PSM1": self.per_bin("C-PSI1", "2^22"), "PSM2": self.per_bin("C-PSI2", "2^22")}
        for row in self.paper["1"]:
            name = row["system"]
            cells = [MISSING if name not in of else f"{of[name]:,}" for of in (counted, formulas)]
            last = shown(here[name]) if name in here else "quoted"
            lines.append(line([name, f"{row['bits']:,}", *cells, last]))
        return lines

    def per_bin(self, system: str, n: str) -> Cell | None:
        """Bits per bin of a membership test, with its correlations, and for C-PSI2 with the second OPPRF."""
        of = self.PARTS["Circuit/PSM"]
        sent = self.phase(self.VARIANTS[system], n, *of)
        if system == "C-PSI2":
            with_it = self.phase(self.VARIANTS[system], n, *of, *self.OPPRF)
            first = self.phase(self.VARIANTS["C-PSI1"], n, *self.OPPRF)
            sent = difference(with_it, first)
        return None if sent is None else sent.times(8e6 / bins(size(n)))

    def psm_bytes(self) -> list[str]:
        """Bytes of membership in Table 2, and by the paper's count with digits of four and of five bits."""
        lines = heading("MB", "", *self.SIZES)
        rows = {row["row"]: row for row in self.paper["2"]}
        for name in ("PSM1", "PSM2"):
            row = rows[name]
            lines.append(line([name, "paper", *(digits(row.bytes(n) / 1e6) for n in self.SIZES)]))
            for digit in (4, 5):
                cells = []
                for n in self.SIZES:
                    count = bins(size(n))
                    ell = 40 + math.ceil(math.log2(3 * count))
                    each = psm(ell, digit, 3) if name == "PSM1" else psm(ell, digit, 1) + opprf(ell)
                    cells.append(shown(Cell(each * count / 8e6, True)))
                lines.append(line(["", f"digits of {digit} bits", *cells]))
        return lines

    def phase(self, variant: str, n: str, *names: str) -> Cell | None:
        """MB of these phases."""
        run = self.lab.run_of(self.subject(variant, n), LAN)
        if run is None:
            return None
        return Cell(run.part(names).bytes / 1e6)

    def equality(self, what: str, of: int | None = None) -> list[float | None]:
        """Figures of section 6.2, at 2^20 alone, for this network, or as so many times fewer bytes."""
        value = next(row for row in self.paper["6.2"] if row["of"] == what).number("2^20")
        at = value if of is None or value is None else of / value
        return [at if n == "2^20" else None for n in self.SIZES]

    def table_2(self) -> list[str]:
        lines = heading("MB", "", *self.SIZES)
        phases = {"OPRF": ("oprf",), "Hint transmission": ("hint",)}
        tests = {"PSM1": "C-PSI1", "PSM2": "C-PSI2"}
        for row in self.paper["2"]:
            name, figures = row["row"], [scaled(row.bytes(n), 1e-6) for n in self.SIZES]
            if name == "PSTY":
                lines += Row(name, figures).lines("quoted")
                largest = next(r for r in self.paper["2"] if r["row"] == "C-PSI2").bytes("2^20")
                made = Row(self.EQUALITY, self.equality("C-PSI2 over its bytes", largest / 1e6))
                here = [self.megabytes(self.subject(self.VARIANTS[name], n)) for n in self.SIZES]
                lines += made.lines(here)
                continue
            if name in phases:
                first = self.VARIANTS["C-PSI1"]
                here = [self.phase(first, n, *phases[name]) for n in self.SIZES]
            else:
                variant = self.VARIANTS[tests.get(name, name)]
                here = [self.megabytes(self.subject(variant, n)) for n in self.SIZES]
            if name in tests:
                # As the paper counts: what is neither the first OPRF nor the first hint.
                both = [self.phase(self.VARIANTS["C-PSI1"], n, "oprf", "hint") for n in self.SIZES]
                here = [difference(cell, less) for cell, less in zip(here, both)]
            lines += Row(name, figures).lines(here)
        for name in self.SHIPPED:
            here = [self.megabytes(self.subject(name, n)) for n in self.SIZES]
            lines.append(line([f"`{name}`", "here", *map(shown, here)]))
        return lines

    def table_3(self) -> list[str]:
        lines = heading("seconds", "", *self.SIZES)
        for row in self.paper["3"]:
            link = Link(row["network"])
            made = Row(f"{row['system']}, {link.name}", [row.number(n) for n in self.SIZES])
            if row["system"] == "PSTY":
                lines += made.lines("quoted")
                made = Row(f"{self.EQUALITY}, {link.name}", self.equality(link.name))
            variant = self.VARIANTS[row["system"]]
            lines += made.lines([self.seconds(self.subject(variant, n), link) for n in self.SIZES])
        for name in self.SHIPPED:
            for link in self.LINKS:
                here = [self.seconds(self.subject(name, n), link) for n in self.SIZES]
                lines.append(line([f"`{name}`, {link.name}", "here", *map(shown, here)]))
        return lines

    def part(self, system: str, n: str, link: Link, part: str) -> Cell | None:
        """Seconds of a part as the paper counts: the second OPPRF of C-PSI2 is in its membership.

        Its first OPPRF is that of C-PSI1, so it is taken from that run.
        """
        subjects = {name: self.subject(variant, n) for name, variant in self.VARIANTS.items()}

        def of(name: str, phases: Which) -> Cell | None:
            run = self.lab.run_of(subjects[name], link)
            return run and self.lab.seconds(subjects[name], link, phases)

        if part == "Total":
            return of(system, "total")
        if system == "C-PSI2" and part in ("OPRF", "Hint"):
            return of("C-PSI1", self.PARTS[part])
        found = of(system, self.PARTS[part])
        if system == "C-PSI2" and part == "Circuit/PSM":
            second = difference(of("C-PSI2", self.OPPRF), of("C-PSI1", self.OPPRF))
            return None if found is None or second is None else found.plus(second)
        return found

    def table_4(self) -> list[str]:
        columns = [
            f"{system} {n}" for system in ("PSTY", "C-PSI2") for n in ("2^16", "2^20", "2^22")
        ]
        lines = heading("seconds", "", *columns)
        for row in self.paper["4"]:
            link, part = Link(row["network"]), row["part"]
            made = Row(f"{part}, {link.name}", [row.number(column) for column in columns])
            if part in self.HINT:
                lines += made.lines("quoted")
                if part != self.HINT[-1]:
                    continue
                part = "Hint"
                figures = [self.printed_part(part, link, column) for column in columns]
                made = Row(f"the three together, {link.name}", figures)
            here = [self.part(*column.split(), link, part) for column in columns]
            # The paper's PSTY has another circuit.
            is_circuit = part in ("Circuit/PSM", "Total")
            compared = [not (is_circuit and column.startswith("PSTY")) for column in columns]
            lines += made.lines(here, compared)
        return lines

    def printed_part(self, part: str, link: Link, column: str) -> float:
        names = self.HINT if part == "Hint" else (part,)
        return sum(
            row[column]
            for row in self.paper["4"]
            if row["network"] == link.name and row["part"] in names
        )

    def plots(self) -> Iterator[Plot]:
        columns, series = [], {part: [] for part in self.PARTS}
        link = self.LINKS[0]
        for name in ("PSTY", "C-PSI2"):
            here = {part: self.part(name, "2^20", link, part) for part in self.PARTS}
            has_run = None not in here.values()
            columns += [f"{name}, paper"] + ([f"{name}, here"] if has_run else [])
            for part, cell in here.items():
                series[part].append(self.printed_part(part, link, f"{name} 2^20"))
                if has_run:
                    series[part].append(cell.value)
        yield {
            "file": "cgs22-table-4",
            "kind": "bars",
            "title": "2^20 items, 3 Gb/s and 0.3 ms: seconds of each part",
            "y": "seconds",
            "groups": columns,
            "series": series,
        }


def difference(of: Cell | None, less: Cell | None) -> Cell | None:
    return None if of is None or less is None else of.plus(less, -1)


def bins(items: int) -> int:
    return math.ceil(1.27 * items)


def psm(bits: int, digit: int, elements: int) -> int:
    """Bits of PSM1 by CGS22's count, general case: one string of so many bits among others, by digits."""
    whole, rest = divmod(bits, digit)
    leaves = whole * (2 * 128 + elements * 2**digit)
    if rest:
        leaves += 2 * 128 + elements * 2**rest
    ands = whole + (rest > 0) - 1
    return leaves + elements * ands * (128 + 16)


def opprf(bits: int) -> int:
    """Bits of PSM2's OPPRF by CGS22's count: 3.5·λ, and a hint of λ and four strings."""
    return 7 * 128 // 2 + 128 + 4 * bits


def circuits(variant: str, n: int, reveal: str = "size") -> Subject:
    options = () if reveal == "size" else ("--reveal", reveal)
    return research("circuits", variant, n, n, *options, name=variant)


def fullest_bin(items: int, hashes: int, of_bins: int) -> int:
    """Items that a bin exceeds with probability at most 2^-40, as `vesica_encodings::simple` bounds them."""
    p = hashes / of_bins
    for most in itertools.count(1):
        i = most + 1
        log = math.lgamma(items + 1) - math.lgamma(i + 1) - math.lgamma(items - i + 1)
        log += i * math.log(p) + (items - i) * math.log1p(-p)
        ratio = (items - i) / (i + 1) * p / (1 - p)
        if ratio < 1 and math.log2(of_bins / (1 - ratio)) + log / math.log(2) <= -40:
            return most
    raise AssertionError


class Kbm23(Page):
    name = "kbm23"
    SIZES = ("2^20", "2^22", "2^24", "2^26")
    # Bins per item.
    BINS: ClassVar = {2: 2.4, 3: 1.27, 4: 1.09}
    FUNCTIONS: ClassVar = {2: "k = 2 and a stash", 3: "k = 3", 4: "k = 4"}
    OFFLINE: ClassVar = {
        "SGX": "ole-tee",
        "TTP": "ole-dealer",
        "LBE": "ole-lattice",
        "OT": "ole-ot",
    }

    def ole(self, how: str, n: int) -> Subject:
        return bench(self.OFFLINE[how], n, n, "--items", "32")

    def blocks(self) -> Iterator[Block]:
        yield "table-2", self.table_2()
        yield "table-3", self.table_3()
        yield "table-4", self.table_4()
        yield "table-5", self.table_5()
        yield "table-6", self.table_6()

    def table_2(self) -> list[str]:
        lines = heading("bits per element", "", *self.SIZES)
        for k, variant in self.FUNCTIONS.items():
            rows = {row["n"]: row for row in self.paper["2"] if row["k"] == k}
            made = Row(variant, [rows[n].number("bits") for n in self.SIZES])
            here = [self.bits(research("ole-hashes", variant, size(n))) for n in self.SIZES[:2]]
            # Tuples of the larger two take more memory than there is.
            for n in self.SIZES[2:]:
                bits = self.bits_online(k, size(n), rows[n]["stash"])
                here.append(Cell(bits, True))
            lines += made.lines(here)
        return lines

    def bits_online(self, hashes: int, items: int, stash: int) -> float:
        """Bits per element of the online phase, but for some bytes of framing.

        For each bin one number of the receiver, and one of the sender for each of as many items as the fullest bin may
        have; for each item and place of the stash one of 33 bits.
        """
        of_bins = math.ceil(self.BINS[hashes] * items)
        numbers = hashes * 2**32 / of_bins + 2
        width = math.ceil(math.log2(numbers))
        return of_bins / items * (1 + fullest_bin(items, hashes, of_bins)) * width + 33 * stash

    def table_3(self) -> list[str]:
        lines = heading("bits per element", "", *self.SIZES)
        plain = {"KKRT16": "kkrt", "PRTY19": "spot-low"}
        on_kkrt = {"PSTY19": "PSTY19", "CGS22 (PSM2)": "CGS22, C-PSI2, KKRT"}
        for row in self.paper["3"]:
            made = Row(row["row"], [row.number(n) for n in self.SIZES])
            name = row["row"]
            if name == "Ours, online":
                cells = [self.bits(self.ole("TTP", size(n)), "online") for n in self.SIZES]
            elif name.startswith("Ours, total "):
                how = name.rpartition(" ")[2]
                cells = [self.bits(self.ole(how, size(n))) for n in self.SIZES]
            elif name in plain:
                protocol = plain[name]
                known = [n for n in self.SIZES if protocol != "spot-low" or size(n) <= 1 << 22]
                bits = {
                    n: self.bits(bench(protocol, size(n), size(n), *SEMI_HONEST)) for n in known
                }
                cells = [bits.get(n) for n in self.SIZES]
            elif name == "RS21, total":
                cells = [
                    self.bits(bench("vole", size(n), size(n), *SEMI_HONEST)) for n in self.SIZES
                ]
            elif name in on_kkrt:
                cells = [self.bits(circuits(on_kkrt[name], size(n))) for n in self.SIZES]
            else:
                lines += made.lines("quoted")
                continue
            # The paper's PSTY19 has another circuit.
            lines += made.lines(cells, [name != "PSTY19"] * len(cells))
        return lines

    def table_4(self) -> list[str]:
        clouds = ("Intra-Cont.", "Inter-Cont.")
        names = ("CPU", *(link.name for link in KBM23_LINKS), *clouds)
        lines = heading("offline, seconds", "", *names, "MB")
        for row in self.paper["4"]:
            subject = self.ole(row["row"], row.size("n"))
            figures = [row[name] for name in names]
            made = Row(f"{row['row']}, {row['n']}", [*figures, scaled(row.bytes("MB"), 1e-6)])
            here = [self.seconds(subject, link, "offline") for link in (LAN, *KBM23_LINKS)]
            here += [None] * len(clouds)
            lines += made.lines([*here, self.megabytes(subject, "offline")])
        return lines

    def table_5(self) -> list[str]:
        quoted_columns = ("GPRTY21", "CM20", "RS21, online")
        theirs = ("KKRT16", "PRTY19", *quoted_columns, "RS21, total")
        columns = (*theirs, *(f"Ours, {part}" for part in ("online", *self.OFFLINE)))
        plain = {"KKRT16": "kkrt", "PRTY19": "spot-fast", "RS21, total": "vole"}
        lines = heading("seconds", "", *columns)
        quoted = []
        for row in self.paper["5"]:
            made = Row(f"{row['n']}, {row['network']}", [row[column] for column in columns])
            if row["network"].endswith("Cont."):
                quoted += made.lines("quoted")
                continue
            link, n, here = Link(row["network"]), row.size("n"), []
            for column in columns:
                if column in quoted_columns:
                    here.append(None)
                elif column in plain:
                    here.append(self.seconds(bench(plain[column], n, n, *SEMI_HONEST), link))
                elif column == "Ours, online":
                    here.append(self.seconds(self.ole("TTP", n), link, "online"))
                else:
                    here.append(self.seconds(self.ole(column.rpartition(" ")[2], n), link))
            lines += made.lines(here)
            if link == KBM23_LINKS[-1]:
                lines += self.table_5_bytes(row["n"], columns)
        return lines + quoted

    def table_5_bytes(self, size_of: str, columns: tuple[str, ...]) -> list[str]:
        """MB of the paper's protocol; those of the others are torn off in the text."""
        row = next(row for row in self.paper["5, bytes"] if row["n"] == size_of)
        n, paper, here = size(size_of), [], []
        for column in columns:
            name = column.rpartition(" ")[2]
            is_ours = column.startswith("Ours")
            paper.append(scaled(row.bytes(column), 1e-6) if is_ours else None)
            subject = self.ole(name if name in self.OFFLINE else "TTP", n)
            here.append(
                self.megabytes(subject, "online" if name == "online" else "total")
                if is_ours
                else None
            )
        return Row(f"{size_of}, MB", paper).lines(here)

    def table_6(self) -> list[str]:
        columns = {"PSTY19": "PSTY19", "CGS22 (PSM2)": "CGS22, C-PSI2, KKRT"}
        lines = heading("2^20, seconds", "", *columns, "Ours, online")
        # The paper's PSTY19 has another circuit.
        n, compared = 1 << 20, [False, True, True]
        for row in self.paper["6"]:
            link = Link(row["network"])
            made = Row(link.name, [row[column] for column in (*columns, "Ours")])
            here = [self.seconds(circuits(variant, n), link) for variant in columns.values()]
            here.append(self.seconds(self.ole("TTP", n), link, "online"))
            lines += made.lines(here, compared)
        row = self.paper["6, bytes"][0]
        made = Row("MB", [scaled(row.bytes(column), 1e-6) for column in (*columns, "Ours")])
        here = [self.megabytes(circuits(variant, n)) for variant in columns.values()]
        return lines + made.lines([*here, self.megabytes(self.ole("TTP", n), "online")], compared)

    def plots(self) -> Iterator[Plot]:
        n, link = 1 << 20, Link("100mbps")
        bits = {row["row"]: row.number("2^20") for row in self.paper["3"]}
        printed_at = next(
            row for row in self.paper["5"] if (row["n"], row["network"]) == ("2^20", "100mbps")
        )
        names = {
            "KKRT16": "KKRT16",
            "PRTY19": "PRTY19",
            "CM20": "CM20",
            "RS21": "RS21, online",
            "GPRTY21": "GPRTY21",
        }
        points = []
        for name, column in {**names, "KBM23": "Ours, online"}.items():
            per_item = bits["Ours, online" if name == "KBM23" else column]
            points.append(
                self.point(name, scaled(per_item, n / 8e6), printed_at.number(column), False)
            )
        subjects = {name: bench(name, n, n, *SEMI_HONEST) for name in ("kkrt", "spot-fast", "vole")}
        for name, subject in subjects.items():
            points.append(
                self.point(name, self.megabytes(subject), self.seconds(subject, link), True)
            )
        online = self.ole("TTP", n)
        pair = self.megabytes(online, "online"), self.seconds(online, link, "online")
        points.append(self.point("ole, online", *pair, True))
        yield scatter("kbm23-figure-1", "2^20 items, 100 Mb/s, online", points)


class Ltsxq26(Page):
    name = "ltsxq26"
    OKVS: ClassVar = {"RR": "three-hash", "BPSY": "random band"}
    FIGURE: ClassVar = {"semi-honest": "figure 14", "malicious": "figure 15"}
    REVEALS: ClassVar = {"4": "shares", "5": "size", "6": "sum", "7": "inner-product"}

    def paper_width(
        self, security: str, okvs: str, n_r: int, n_s: int, oracle: str = "AES"
    ) -> Subject:
        variant = f"{self.FIGURE[security]}, {self.OKVS[okvs]}"
        if oracle == "AES":
            return research("paper-width", variant, n_r, n_s)
        return research("paper-width", f"{variant}, {oracle}", n_r, n_s, name="sha-256")

    def blocks(self) -> Iterator[Block]:
        yield "table-1", self.table_1()
        yield "table-2", self.table_2()
        yield "table-3", self.table_3()
        for table, reveal in self.REVEALS.items():
            yield f"table-{table}", self.circuit(table, reveal)
        yield "table-8", self.table_8()
        yield "table-9", self.table_9()

    def table_2(self) -> list[str]:
        sizes = ("2^16", "2^20", "2^24")
        lines = heading("bits per item", "", *sizes)
        for row in self.paper["2"]:
            made = Row(f"{row['system']}, {row['security']}", [row.number(n) for n in sizes])
            lines += made.lines([self.bits(self.plain(row, "BPSY", size(n))) for n in sizes])
        return lines

    def table_1(self) -> list[str]:
        names = [link.name for link in WITHOUT_ROUND_TRIP]
        lines = heading("times", "", *names, "bytes")
        n = 1 << 20
        pairs = {
            "PSI": (
                bench("vole", n, n, *SEMI_HONEST),
                self.paper_width("semi-honest", "BPSY", n, n),
            ),
            "Circuit PSI": (self.safe("shares", n), circuits("LTSXQ26, random band", n, "shares")),
        }
        for row in self.paper["1"]:
            figures = [row[name] for name in (*names, "bytes")]
            # By how much of a whole it is worse.
            figures = [f"↓ {-value:g}" if value < 0 else value for value in figures]
            made = Row(f"{row['function']}, {row['beside']}", figures)
            if row["function"] not in pairs:
                lines += made.lines("quoted")
                continue
            theirs, ours = (self.here(subject) for subject in pairs[row["function"]])
            times = [
                None if None in both else Cell(both[0].value / both[1].value, both[0].is_computed)
                for both in zip(theirs, ours)
            ]
            lines += made.lines(times, [False] * len(times))
        return lines

    def plain(self, row: printed.Row, okvs: str, n: int) -> Subject:
        if row["system"] == "Ours":
            return self.paper_width(row["security"], okvs, n, n)
        protocol = {"KKRT": "kkrt", "VOLE-based PSI": "vole"}[row["system"]]
        return bench(protocol, n, n, "--security", row["security"])

    def table_3(self) -> list[str]:
        links = WITHOUT_ROUND_TRIP
        lines = heading("seconds", "", *(link.name for link in links), "MB")
        for row in self.paper["3"]:
            made = self.row(
                row,
                ", ".join(filter(None, (row["system"], row["security"], row["okvs"], row["n"]))),
            )
            if row["system"] == "VOLE-based PSI" and row["okvs"] == "RR":
                lines += made.lines("quoted")
                continue
            lines += made.lines(self.here(self.plain(row, row["okvs"], row.size("n"))))
        for n in ("2^16", "2^20", "2^24"):
            cells = self.here(bench("sparse-okvs", size(n), size(n), *SEMI_HONEST))
            lines.append(line([f"`sparse-okvs`, {n}", "here", *map(shown, cells)]))
        return lines

    def row(self, row: printed.Row, label: str) -> Row:
        return Row(
            label,
            [
                *(row.number(link.name) for link in WITHOUT_ROUND_TRIP),
                scaled(row.bytes("MB"), 1e-6),
            ],
        )

    def here(self, subject: Subject) -> list[Cell | None]:
        return [
            *(self.seconds(subject, link) for link in WITHOUT_ROUND_TRIP),
            self.megabytes(subject),
        ]

    # Phases of its circuits up to the second OKVS: no correlations, no membership, no function.
    TWO_OKVS = ("offline", "bins", "rows", "message", "hint")

    def circuit(self, table: str, reveal: str) -> list[str]:
        lines = heading("seconds", "", *(link.name for link in WITHOUT_ROUND_TRIP), "MB")
        baselines = {"PSTY": "PSTY19", "CGS": "CGS22, C-PSI2, KKRT"} if table in "45" else {}
        for row in self.paper[table]:
            n = row.size("n")
            made = self.row(row, ", ".join(filter(None, (row["system"], row["okvs"], row["n"]))))
            if row["system"] in baselines:
                here = self.here(circuits(baselines[row["system"]], n))
                # The paper's PSTY has another circuit.
                lines += made.lines(here, [row["system"] != "PSTY"] * len(here))
            elif row["system"] == "Ours":
                subject = circuits(f"LTSXQ26, {self.OKVS[row['okvs']]}", n, reveal)
                whole = self.here(subject)
                if table == "4":
                    # The paper's row has no more bytes than two OKVSs.
                    lines += made.lines(self.okvs_alone(subject), label="here, two OKVSs alone")
                    lines.append(line(["", "here, the circuit too", *map(shown, whole)]))
                else:
                    lines += made.lines(whole, self.is_possible(row))
            elif row["okvs"] == "BPSY":
                lines += made.lines(self.here(self.safe(reveal, n)))
            else:
                lines += made.lines("quoted")
        for power in ("2^16", "2^20", "2^24"):
            cells = self.here(self.safe(reveal, size(power)))
            lines.append(line([f"`circuit-okvs`, {power}", "here", *map(shown, cells)]))
        return lines

    def okvs_alone(self, subject: Subject) -> list[Cell | None]:
        run, below = self.lab.run_of(subject, LAN), self.lab.largest_below(subject)
        sent = None
        if run is not None:
            sent = Cell(run.part(self.TWO_OKVS).bytes / 1e6)
        elif below is not None:
            smaller, base = below
            grown = base.part(self.TWO_OKVS).bytes * subject.receiver / smaller.receiver
            sent = Cell(grown / 1e6, True, is_scaled=True)
        seconds = [self.lab.seconds(subject, link, self.TWO_OKVS) for link in WITHOUT_ROUND_TRIP]
        return [*seconds, sent]

    def is_possible(self, row: printed.Row) -> list[bool]:
        """Which figures of a row are not below those of Table IV, which has no circuit."""
        under = next(
            other
            for other in self.paper["4"]
            if (other["system"], other["okvs"], other["n"]) == ("Ours", row["okvs"], row["n"])
        )
        columns = [*(link.name for link in WITHOUT_ROUND_TRIP), "MB"]
        return [row[column] >= under[column] for column in columns]

    def safe(self, reveal: str, n: int) -> Subject:
        return bench("circuit-okvs", n, n, "--reveal", reveal, *SEMI_HONEST)

    def table_8(self) -> list[str]:
        links = WITHOUT_ROUND_TRIP
        lines = heading("n_r, n_s", "", *(link.name for link in links), "MB")
        for row in self.paper["8"]:
            n_r, n_s = row.size("n_r"), row.size("n_s")
            figures = [row.number(f"Ours {link.name}") for link in links]
            made = Row(
                f"{row['n_r']}, {row['n_s']}", [*figures, scaled(row.bytes("Ours MB"), 1e-6)]
            )
            lines += made.lines(self.figure_15(n_r, n_s))
            safe = self.here(bench("vole", n_r, n_s, *MALICIOUS))
            lines.append(line(["", "`vole`", *map(shown, safe)]))
            small = bench("oprf-dh", n_r, n_s, *MALICIOUS)
            # All but the bytes is the sender's work, which is in proportion.
            self.lab.want(small.smaller(n_s >> 20))
            lines.append(line(["", "`oprf-dh`", *map(shown, self.here(small))]))
            for system in ("APSI", "CM"):
                figures = [row.number(f"{system} {link.name}") for link in links]
                if None not in figures:
                    quoted = Row("", [*figures, scaled(row.bytes(f"{system} MB"), 1e-6)])
                    lines += quoted.lines(f"{system}, quoted")
        return lines

    def figure_15(self, n_r: int, n_s: int) -> list[Cell | None]:
        """Its cells, or what they come to from the run with fewer items of the sender."""
        subject = self.paper_width("malicious", "RR", n_r, n_s)
        cells = self.here(subject)
        found = self.lab.largest_below(subject)
        sent = found and self.lab.each_way(found[0])
        if cells[-1] is not None or sent is None:
            return cells
        # The receiver's bytes are of its own items alone. Sorted masks take log₂ n bits less, and 1.55 more.
        count = Cell(sent[0] + n_s * (128 - math.log2(n_s) + 1.55) / 8, True)
        seconds = [self.lab.scaled(subject, link, count=count) for link in WITHOUT_ROUND_TRIP]
        return [*seconds, megabytes(count)]

    def table_9(self) -> list[str]:
        sizes = ("2^16", "2^20", "2^24")
        lines = heading("seconds, lan", "", *sizes)
        oracles = {"SHA-256": "SHA-256", "AES": "AES"}
        for row in self.paper["9"]:
            made = Row(
                f"{row['security']}, {row['okvs']}, {row['oracle']}", [row.number(n) for n in sizes]
            )
            which = row["security"], row["okvs"]
            subjects = [self.paper_width(*which, size(n), size(n), row["oracle"]) for n in sizes]
            lines += made.lines([self.seconds(subject, LAN) for subject in subjects])
        for okvs in self.OKVS.values():
            for oracle in oracles.values():
                subjects = [research("ablate", f"{okvs}, {oracle}", size(n)) for n in sizes]
                cells = [self.seconds(subject, LAN) for subject in subjects]
                lines.append(line([f"secure width, {okvs}, {oracle}", "here", *map(shown, cells)]))
        return lines

    def plots(self) -> Iterator[Plot]:
        series: dict[str, list[list[float]]] = {}
        for row in self.paper["3"]:
            is_ours = (row["system"], row["okvs"]) != ("VOLE-based PSI", "RR")
            if row["security"] == "malicious" or not is_ours:
                continue
            name = ", ".join(filter(None, (row["system"], row["okvs"])))
            series.setdefault(f"{name}, paper", []).append([row.size("n"), row["lan"]])
            cell = self.seconds(self.plain(row, row["okvs"], row.size("n")), LAN)
            if cell is not None:
                series.setdefault(f"{name}, here", []).append([row.size("n"), cell.value])
        yield lines_of("ltsxq26-table-3", "Semi-honest, LAN", "items", "seconds", series)


PAGES: tuple[type[Page], ...] = (Prty19, Rt21, Cgs22, Kbm23, Ltsxq26)
