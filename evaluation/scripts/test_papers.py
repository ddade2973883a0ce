"""The papers' figures are read as they are meant, and runs go on where they stopped."""

from __future__ import annotations

import json
import math
import re
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from papers import CHECKS, FOLDER, checks, stored
from published import money, tables
from published.measure import (
    LAN,
    Cell,
    Failed,
    Lab,
    Link,
    Part,
    Store,
    Subject,
    bench,
    measured,
    research,
)
from published.pages import PAGES, Kbm23, fullest_bin, opprf, psm, width
from published.printed import PAPERS, Paper, size

# Prints a run as `vesica bench --json` does, writes down that it ran, and fails for one protocol.
FAKE = """#!{python}
import json, sys
words = sys.argv[1:]
with open({log!r}, "a") as log:
    log.write(" ".join(words) + "\\n")
if words[0] == "plan" or "--forecast" in words:
    name = "kkrt" if words[0] == "plan" else "PSTY19"
    count = {{"receiver_to_sender": 30, "sender_to_receiver": 20, "offline": 7, "dealer_to_receiver": 5}}
    print(json.dumps({{"forecasts": [{{"protocol": name, "security": "semi-honest", "bytes": count}}]}}))
    sys.exit()
if "dh" in words:
    sys.exit("no such run")
phases = [["prepare", 0, 0, 0.25], ["masks", 1000, 500, 0.5]]
names = ("phase", "bytes_sent", "bytes_received", "seconds")
print(json.dumps({{
    "phases": [dict(zip(names, phase)) for phase in phases],
    "bytes": {{"receiver_to_sender": 1000, "sender_to_receiver": 500}},
    "yardstick_aes_blocks_per_second": 10**9,
}}))
"""
KKRT = bench("kkrt", 64, 64, "--security", "semi-honest")


class Place:
    """A directory with fake binaries and a store."""

    def __init__(self, folder: str) -> None:
        self.folder = Path(folder)
        self.log = self.folder / "log"
        for name in ("vesica", "vesica-research"):
            fake = self.folder / name
            fake.write_text(FAKE.format(python=sys.executable, log=str(self.log)))
            fake.chmod(0o755)

    def lab(self, binary: str = "b1", machine: str = "m", full: bool = False) -> Lab:
        return Lab(Store(self.folder / "runs.jsonl", binary, machine), self.folder, full)

    def ran(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.is_file() else []


class WithPlace(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.place = Place(folder.name)
        quiet = mock.patch("published.measure.say")
        quiet.start()
        self.addCleanup(quiet.stop)


class Printed(unittest.TestCase):
    def test_every_table_has_the_cells_of_its_columns(self) -> None:
        for name in PAPERS:
            paper = Paper(name)
            for table in paper.text["tables"]:
                self.assertGreater(len(paper[table]), 0, (name, table))

    def test_units_are_those_of_the_row(self) -> None:
        rows = {(row["system"], row["n"]): row for row in Paper("prty19")["2"]}
        # 500 bits for each of 2^20 items, and base OTs, are so many MiB, but not so many MB.
        self.assertAlmostEqual(
            rows["spot-low", "2^20"].bytes("MB") / (500 / 8 * 2**20), 1, delta=0.02
        )
        # 36 + 36 + 10 bytes for each item; the row's unit is 1000 KiB.
        found = rows["DH-PSI (K-283)", "2^20"].bytes("MB")
        self.assertAlmostEqual(found / (82 * 2**20), 1, delta=0.001)
        ours = next(r for r in Paper("rt21")["3"] if r["system"] == "Ours" and r["n_s"] == "2^20")
        self.assertAlmostEqual(ours.bytes("MB") / (42 * 2**20), 1, delta=0.001)
        # The roles of RT21's Table 3: points of the receiver's items, masks of the sender's.
        unequal = [r for r in Paper("rt21")["3"] if (r["n_r"], r["n_s"]) == ("2^16", "2^20")]
        ours = next(r for r in unequal if r["system"] == "Ours" and r["security"] == "semi-honest")
        self.assertAlmostEqual(ours.bytes("MB") / (32 * 2**16 + 10 * 2**20), 1, delta=0.001)

    def test_sizes_and_words(self) -> None:
        self.assertEqual([size("2^20"), size("4096"), size(7)], [1 << 20, 4096, 7])
        row = next(row for row in Paper("kbm23")["4"] if row["row"] == "OT")
        self.assertIsNone(row.number("100mbps"))
        self.assertEqual(row.number("5gbps"), 44.7)

    def test_readme_has_every_table(self) -> None:
        listing = (FOLDER / "README.md").read_text()
        sections = dict(
            zip(PAPERS, re.split(r"^## (?=[A-Z]+\d+$)", listing, flags=re.MULTILINE)[1:])
        )
        roman = {
            "1": "I",
            "2": "II",
            "3": "III",
            "4": "IV",
            "5": "V",
            "6": "VI",
            "7": "VII",
            "8": "VIII",
            "9": "IX",
        }
        for name, section in sections.items():
            self.assertTrue(section.lower().startswith(name), name)
            for table in Paper(name).text["tables"]:
                number = table.partition(",")[0]
                wanted = {f"table {number}", f"table {roman.get(number, number).lower()}", number}
                self.assertTrue(any(text in section.lower() for text in wanted), (name, table))


class Links(unittest.TestCase):
    def test_names(self) -> None:
        link = Link("100mbps-80ms")
        self.assertEqual((link.bits_per_second, link.round_trip), (10**8, "80ms"))
        self.assertEqual(link.transmission(12_500_000), 1)
        self.assertEqual(link.without_bandwidth(), Link("10gbps-80ms"))
        self.assertEqual(Link("1.08gbps").without_bandwidth(), LAN)
        self.assertEqual(LAN.transmission(10**9), 0)

    def test_words(self) -> None:
        self.assertEqual(KKRT.command(Link("10mbps"))[-2:], ("--network", "10mbps"))
        odd = KKRT.command(Link("10gbps-80ms"))
        self.assertEqual(odd[-4:], ("--bandwidth", "10gbps", "--rtt", "80ms"))
        found = research("paper-width", "figure 14, three-hash", 256, 1 << 22).command(LAN)
        self.assertEqual(found[0], "vesica-research")
        self.assertEqual(found[-2:], ("--link", "lan"))
        self.assertIn("--sender-items", found)


class Runs(WithPlace):
    def test_a_result_is_taken_apart(self) -> None:
        phase = ("phase", "bytes_sent", "bytes_received", "seconds")
        phases = [("dealing", 1, 2, 0.5), ("prepare", 0, 0, 0.25), ("comparison", 10, 20, 2.0)]
        run = {
            "phases": [dict(zip(phase, one)) for one in phases],
            "bytes": {"dealer_to_sender": 4},
        }
        found = measured({**run, "yardstick_aes_blocks_per_second": 7})
        self.assertEqual(found.offline, Part(0.75, 7))
        self.assertEqual(found.online, Part(2.0, 30))
        self.assertEqual(found.total, Part(2.75, 37))
        self.assertEqual(found.phases["comparison"], Part(2.0, 30))
        self.assertEqual(found.online.over(Link("1mbps")), 2.0 + 240e-6)
        generated = {**run, "bytes": {"between_generators": 5}}
        found_of = measured({**generated, "yardstick_aes_blocks_per_second": 7})
        self.assertEqual(found_of.offline, Part(0.75, 5))
        nested = {"variants": [run], "yardstick_aes_blocks_per_second": 7}
        self.assertEqual(measured(nested), found)

    def test_what_has_been_run_is_not_run_again(self) -> None:
        for _ in range(2):
            lab = self.place.lab()
            lab.want(KKRT, Link("100mbps"))
            lab.run(None)
        self.assertEqual(len(self.place.ran()), 2)
        self.assertEqual(lab.seconds(KKRT, Link("100mbps")), Cell(0.75, at_one=0.75))
        self.assertEqual(lab.bytes(KKRT), Cell(1500))
        for other in (self.place.lab(binary="b2"), self.place.lab(machine="n")):
            other.want(KKRT)
            self.assertEqual(other.missing(), [(KKRT, LAN)])
        store = self.place.lab(binary="b2").store
        new = Lab(store, self.place.folder, False, only_new=True)
        new.want(KKRT)
        new.want(KKRT, Link("10mbps"))
        self.assertEqual(new.missing(), [(KKRT, Link("10mbps"))])
        # Results of another binary are shown until it has run; those of another machine are not.
        self.assertIsNotNone(self.place.lab(binary="b2").seconds(KKRT))
        self.assertIsNone(self.place.lab(machine="n").seconds(KKRT))

    def test_a_run_that_was_stopped_goes_on(self) -> None:
        subjects = [bench("kkrt", 64, 64 + more, "--security", "semi-honest") for more in range(3)]
        counts = []
        for _ in range(4):
            lab = self.place.lab()
            for subject in subjects:
                lab.want(subject)
            left = lab.missing()
            if left:
                # As if it were stopped after one.
                command = left[0][0].command(left[0][1])
                lab.store.put(command, {"phases": []}, 1.0)
            counts.append(len(left))
        self.assertEqual(counts, [3, 2, 1, 0])
        lab = self.place.lab()
        lab.want(bench("kkrt", 99, 99))
        lab.run(0)
        self.assertEqual(self.place.ran(), [])

    def test_a_file_that_is_cut_off_is_not_left(self) -> None:
        lab = self.place.lab()
        lab.store.put(("a",), {"phases": []}, 1.0)
        lines = lab.store.path.read_text().splitlines()
        self.assertEqual([json.loads(line)["command"] for line in lines], [["a"]])
        self.assertEqual(list(self.place.folder.glob("*.draft")), [])

    def test_a_broken_file_is_named(self) -> None:
        path = self.place.folder / "runs.jsonl"
        good = json.dumps({"machine": "m", "command": ["a"]})
        for bad in ("{", "[]", '{"machine": 1}'):
            path.write_text(f"{good}\n{bad}\n")
            with self.assertRaisesRegex(Failed, "runs.jsonl, line 2: "):
                self.place.lab()

    def test_a_failure_is_told_and_others_run(self) -> None:
        lab = self.place.lab()
        for link in (LAN, Link("1gbps"), Link("100mbps")):
            lab.want(bench("dh", 64), link)
        lab.want(KKRT)
        lab.run(None)
        self.assertEqual(len(lab.failed), 1, "not over every link")
        self.assertIn("no such run", lab.failed[0])
        self.assertIsNotNone(lab.seconds(KKRT))

    def test_long_cells_are_computed(self) -> None:
        slow = Link("0.001mbps-80ms")
        lab = self.place.lab()
        lab.want(KKRT, slow)
        lab.run(None)
        self.assertEqual(len(self.place.ran()), 1)
        # The only run has the round trip too: nothing says what of it is work.
        self.assertEqual(lab.seconds(KKRT, slow), Cell(0.75 + 12.0, True))
        self.assertEqual(lab.seconds(KKRT, slow, "online"), Cell(0.5 + 12.0, True))
        lab.want(KKRT, slow, always=True)
        lab.run(None)
        self.assertEqual(lab.seconds(KKRT, slow), Cell(0.75))
        # `research` has no link of a round trip alone.
        variant = research("circuits", "PSTY19", 64, name="PSTY19")
        lab.want(variant)
        lab.run(None)
        self.assertIsNone(lab.seconds(variant, slow))
        self.assertEqual(lab.seconds(variant, Link("1mbps")), Cell(0.762, True, 0.762))

    def put(self, lab: Lab, subject: Subject, link: Link, seconds: float, yardstick: float) -> None:
        result = {
            "phases": [
                {"phase": "masks", "bytes_sent": 750, "bytes_received": 500, "seconds": seconds}
            ],
            "bytes": {},
            "yardstick_aes_blocks_per_second": yardstick * 1e9,
        }
        lab.store.put(subject.command(link), result, seconds)

    def test_only_work_is_divided_by_the_yardstick(self) -> None:
        lab, link = self.place.lab(), Link("1mbps")
        self.put(lab, KKRT, LAN, 2.0, 0.5)
        self.assertEqual(lab.seconds(KKRT), Cell(2.0, at_one=1.0))
        # 10 ms of transmission, computed from the loopback run.
        computed = lab.seconds(KKRT, link)
        self.assertEqual(computed[:2], (2.01, True))
        self.assertAlmostEqual(computed.at_one, 1.01)
        # At a yardstick of 0.25 the work is 4 s, and 3 s are the link's.
        self.put(lab, KKRT, link, 7.0, 0.25)
        self.assertEqual(lab.seconds(KKRT, link), Cell(7.0, at_one=4.0))
        # No more than all of it is work.
        self.put(lab, KKRT, link, 3.0, 0.25)
        self.assertEqual(lab.seconds(KKRT, link), Cell(3.0, at_one=0.75))

    def test_times_of_more_items_are_computed(self) -> None:
        lab, link = self.place.lab(), Link("1mbps")
        self.put(lab, KKRT, LAN, 2.0, 0.5)
        large = bench("kkrt", 256, 256, "--security", "semi-honest")
        # The planner has 55 bytes for any size.
        waiting = 8 * 55 / 1e6
        self.assertEqual(lab.seconds(large), Cell(8.0, True, 4.0, True))
        self.assertEqual(lab.seconds(large, link), Cell(8 + waiting, True, 4 + waiting, True))
        self.assertEqual(lab.seconds(large, link, ("masks",)), Cell(8.04, True, 4.04, True))
        self.assertIsNone(lab.seconds(large, Link("1mbps-80ms")), "no round trip")
        self.assertIsNone(lab.seconds(bench("kkrt", 128, 128, "--security", "semi-honest")))
        # Of unequal sets, the larger one grows.
        unequal = bench("kkrt", 64, 1 << 12, "--security", "semi-honest")
        self.put(lab, unequal.smaller(4), LAN, 2.0, 1.0)
        self.assertEqual(unequal.smaller(4).sender, 1 << 10)
        self.assertAlmostEqual(lab.seconds(unequal).value, 2 * (4096 + 64) / (1024 + 64))
        words = research("circuits", "PSTY19", 256, name="PSTY19").smaller(4).words
        self.assertEqual(words[words.index("--items") + 1], "64")
        words = bench("ole-ot", 256, 256, "--items", "32").smaller(4).words
        self.assertEqual(words[-1], "32", "bits of an item")

    def test_pages_are_written_without_binaries(self) -> None:
        lab = self.place.lab()
        lab.want(KKRT)
        lab.run(None)
        for program in ("vesica", "vesica-research"):
            (self.place.folder / program).unlink()
        lab = Lab(stored(lab.store.path), self.place.folder, False, only_stored=True)
        self.assertEqual(lab.bytes(KKRT), Cell(1500))
        self.assertIsNone(lab.bytes(bench("vole", 64)))

    def test_sizes_that_take_long_are_for_full(self) -> None:
        large = bench("vole", 1 << 26)
        for full in (False, True):
            lab = self.place.lab(full=full)
            lab.want(large)
            self.assertEqual(bool(lab.missing()), full)

    def test_bytes_without_a_run_are_planned(self) -> None:
        lab = self.place.lab()
        self.assertEqual(lab.bytes(KKRT), Cell(55, True))
        self.assertEqual(lab.bytes(KKRT, "offline"), Cell(12, True))
        self.assertIsNone(lab.bytes(bench("vole", 64)))
        self.assertIsNone(lab.bytes(research("ablate", "random band, AES", 64)))
        self.assertEqual(len(self.place.ran()), 1, "asked once")
        circuit = research("circuits", "PSTY19", 64, name="PSTY19")
        self.assertEqual(lab.bytes(circuit), Cell(55, True))
        self.assertEqual(list(lab.results(circuit)), [], "not taken for a run")


class Pages(WithPlace):
    def test_pages_have_the_blocks_that_are_made(self) -> None:
        lab = self.place.lab()
        lab.planned = lambda subject: None
        for kind in PAGES:
            page, text = kind(lab), (FOLDER / f"{kind.name}.md").read_text()
            made = dict(page.blocks())
            wanted = set(re.findall(r"<!-- begin (\S+) -->", text)) - {"machine"}
            self.assertEqual(set(made), wanted, kind.name)
            for name, lines in made.items():
                cells = {line.count("|") for line in lines if line.startswith("|")}
                self.assertEqual(len(cells), 1, (kind.name, name))
            for plot in page.plots():
                self.assertIn(f"({plot['file']}.svg)", text)

    def test_a_page_with_results_shows_them(self) -> None:
        lab = self.place.lab()
        lab.planned = lambda subject: None
        for _ in range(2):
            lines = dict(PAGES[0](lab).blocks())["table-2"]
            lab.wanted = {
                run: how
                for run, how in lab.wanted.items()
                if (run[0].name, run[0].receiver) == ("kkrt", 4096)
            }
            lab.run(None)
        row = lines.index("| KKRT, 2^12 | paper | 0.556 | 0.22 | 0.87 | 1.24 | 5.7 |")
        self.assertEqual(lines[row + 1], "|  | here | 0.0015 | 0.75 | 0.75 | 0.75 | 0.75 |")
        self.assertEqual(lines[row + 2], "|  | ratio | 370 | 0.29 | 1.2 | 1.7 | 7.6 |")

    def test_five_computed_cells_are_measured(self) -> None:
        self.assertEqual(len(CHECKS), 5)
        lab = self.place.lab()
        self.assertEqual(len(checks(lab)), 7)
        self.assertEqual(sum(lab.wanted.values()), 5)


class Counts(unittest.TestCase):
    def test_cgs22_counts_as_it_prints(self) -> None:
        bits = {row["system"]: row["bits"] for row in Paper("cgs22")["1"]}
        self.assertEqual(psm(64, 4, 3), bits["PSM1"])
        # The paper's has one AND more.
        self.assertEqual(psm(64, 4, 1) + opprf(64) + 128 + 16, bits["PSM2"])
        self.assertEqual(psm(62, 4, 3) - psm(60, 4, 3), 2 * 128 + 3 * 4 + 3 * 144)

    def test_prty19_has_the_least_widths(self) -> None:
        for row in Paper("prty19")["figure 6"]:
            failure = int(row["failure"].partition("^-")[2])
            for n in ("2^10", "2^20", "2^24"):
                self.assertEqual(width(size(n), failure), row[n])

    def test_ltsxq26_has_two_okvs_and_no_circuit(self) -> None:
        tables = Paper("ltsxq26")
        rows = [[row for row in tables[n] if row["system"] == "Ours"] for n in "4567"]
        for of in zip(*rows):
            under, *above = (row.bytes("MB") / size(row["n"]) for row in of)
            if of[0]["okvs"] == "BPSY":
                self.assertAlmostEqual(under, 16 * 1.03 * (3 + 1.27), delta=0.04)
            for more, over in zip((104, 128, 144), above):
                self.assertAlmostEqual(over - under, more, delta=0.01)

    def test_kbm23_counts_as_runs_do(self) -> None:
        page = Kbm23(mock.Mock())
        found = [page.bits_online(k, 1 << 20, 3 if k == 2 else 0) for k in (2, 3, 4)]
        for bits, measured_bits in zip(found, (646.203, 480.063, 488.322)):
            self.assertAlmostEqual(bits, measured_bits, delta=0.02)
        self.assertEqual(fullest_bin(1 << 24, 3, math.ceil(1.27 * 2**24)), 27)


class Tables(unittest.TestCase):
    def test_numbers(self) -> None:
        shown = [tables.digits(value) for value in (0, 0.0034, 12.345, 1154, 38016, 1e-6)]
        self.assertEqual(shown, ["0", "0.0034", "12.3", "1154", "38,016", "1.0e-06"])
        self.assertEqual(tables.ratio(4.61, Cell(0.4)), "12")
        self.assertEqual(tables.ratio(None, Cell(0.4)), "")
        self.assertEqual(tables.shown(Cell(86.04, True)), "*86*")

    def test_rows(self) -> None:
        row = tables.Row("KKRT", [4.61, "DNF", None])
        self.assertEqual(row.lines("quoted"), ["| KKRT | quoted | 4.61 | DNF | - |"])
        found = row.lines([Cell(0.5), Cell(7.0), None])
        self.assertEqual(found[1:], ["|  | here | 0.5 | 7 | - |", "|  | ratio | 9.2 |  |  |"])
        row = tables.Row("KKRT", [4.0, 9.0])
        found = row.lines([Cell(2.0, True, 1.0, True), Cell(3.0, at_one=3.0)], [True, False])
        self.assertEqual(
            found[1:],
            ["|  | here | *2*† | 3 |", "|  | ratio | 2 |  |", "|  | at yardstick 1 | 4 |  |"],
        )

    def test_money_is_the_papers_formula(self) -> None:
        found = money.cost("prty19-b2b-usa-sydney", 3600, (1e9, 2e9))
        self.assertAlmostEqual(found, 0.096 + 0.12 + 0.02 + 2 * 0.14 + 3 * 0.01)


if __name__ == "__main__":
    unittest.main()
