"""The checks find what they are there to find."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
import unittest
import unittest.mock
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import audit
import check_counts
import check_cycles
import check_debug
import check_kinds
import check_layers
import check_links
import check_locks
import check_msrv
import check_options
import check_packages
import check_release
import demo
import release
import reliability
import run_tests
import size


def package(folder: str, *uses: tuple[str, str | None], root: Path = Path("/r")) -> dict:
    return {
        "name": name_of(folder),
        "manifest_path": str(root / folder / "Cargo.toml"),
        "dependencies": [{"name": name_of(used), "kind": kind} for used, kind in uses],
        "targets": [],
    }


def name_of(folder: str) -> str:
    last = folder.rsplit("/", 1)[-1]
    return last if last == "vesica" else f"vesica-{last}"


def metadata(*packages: dict, root: Path = Path("/r")) -> dict:
    return {"workspace_root": str(root), "packages": list(packages)}


class Kinds(unittest.TestCase):
    def test_a_code_stands_once(self) -> None:
        kind = 'pub const {}: Kind = Kind {{\n    code: {},\n    name: "x",\n}};\n'
        tests = "#[cfg(test)]\nmod tests {\n" + kind.format("D", 7) + "}"
        fine = {"a.rs": kind.format("A", 7), "b.rs": kind.format("B", 8) + tests}
        self.assertEqual(check_kinds.problems(fine), [])
        twice = fine | {"c.rs": kind.format("C", 7)}
        self.assertEqual(check_kinds.problems(twice), ["c.rs: C has code 7, and so has a.rs: A"])
        self.assertEqual(len(check_kinds.problems({"a.rs": kind.format("A", 200)})), 1)
        self.assertGreater(len(check_kinds.sources(check_kinds.ROOT)), 100)


class Debug(unittest.TestCase):
    def test_secrets_are_not_shown(self) -> None:
        def found(code: str, **public: str) -> list[str]:
            return check_debug.problems({"a.rs": code}, public)

        derived = "#[derive(Clone, Debug)]\n#[serde(x)]\npub struct Seed {{ pub n: u64, {} }}"
        for field in (
            "s: [u8; 32]",
            "s: Zeroizing<String>",
            "s: Option<Vec<u64>>",
            "s: &'a [Item]",
        ):
            self.assertEqual(found(derived.format(field)), ["a.rs Seed.s"], field)
        for field in ("s: Option<u64>", "s: Vec<String>", "// s: [u8; 32]\n"):
            self.assertEqual(found(derived.format(field)), [], field)
        self.assertEqual(found("#[derive(Debug)]\nstruct Seed(u32, Vec<u8>);"), ["a.rs Seed.1"])
        variants = "#[derive(Debug)]\nenum Seed { None, Known { s: [u8; 16] }, All(Vec<u8>) }"
        self.assertEqual(found(variants), ["a.rs Seed.Known.s", "a.rs Seed.All"])
        plain = "struct Seed<'a> { s: &'a [u8], n: u64 }\n"
        self.assertEqual(found(plain), [])
        by_hand = plain + "impl fmt::Debug for Seed<'_> { fn fmt() { f(self.n, %s) } }"
        self.assertEqual(found(by_hand % "self.s.len()"), [])
        self.assertEqual(found(by_hand % "&self.s"), ["a.rs Seed.s"])
        self.assertEqual(found(plain + "opaque!(Seed<'_>, n);"), [])
        self.assertEqual(found(plain + "opaque!(Seed<'_>, n, s);"), ["a.rs Seed.s"])
        listed = check_debug.problems({"a.rs": variants}, {"a.rs Seed.All": "sent"})
        self.assertEqual(listed, ["a.rs Seed.Known.s"])
        (unused,) = found("", **{"a.rs Seed.s": "sent"})
        self.assertIn("nowhere", unused)
        self.assertGreater(len(check_debug.sources(check_debug.ROOT)), 300)


class Packages(unittest.TestCase):
    @staticmethod
    def published(name: str, *uses: tuple[str, str | None, str]) -> dict:
        used = [{"name": n, "kind": kind, "req": req, "path": "/r"} for n, kind, req in uses]
        return {
            "name": name,
            "dependencies": used,
            "repository": "https://a.example/r",
            "description": "x",
            "metadata": {"docs": {"rs": {"all-features": True}}},
            "targets": [{"kind": ["lib"]}],
        }

    def test_published_crates_use_published_ones(self) -> None:
        packages = {
            "top": self.published("top", ("low", None, "^1"), ("tests", "dev", "*")),
            "low": self.published("low"),
        }
        self.assertEqual(check_packages.wrong_uses(packages), [])
        self.assertEqual(check_packages.in_order(packages), ["low", "top"])
        for uses in (("tests", "dev", "^1"), ("tests", None, "^1"), ("low", None, "*")):
            packages["top"] = self.published("top", uses)
            self.assertEqual(len(check_packages.wrong_uses(packages)), 1, uses)

    def test_a_package_is_whole(self) -> None:
        files = ["LICENSE-APACHE", "LICENSE-MIT", "README.md"]
        readme = "[x](https://b.example)\n\n```rust\n1;\n```\n"
        library = check_packages.COMPILES_README
        crate = self.published("a")
        self.assertEqual(check_packages.wrong_package(crate, files, readme, library), [])
        for broken in (
            (crate, files[1:], readme, library),
            (crate | {"repository": None}, files, readme, library),
            (crate | {"metadata": None}, files, readme, library),
            (crate, files, readme + "[y](../b.md)", library),
            (crate, files, "no example", library),
            (crate, files, readme, ""),
        ):
            self.assertEqual(len(check_packages.wrong_package(*broken)), 1, broken)

    def test_addresses_stand_in_one_place(self) -> None:
        known = ["https://a.example/r", "mailto:b@a.example"]
        texts = [("Cargo.toml", "https://a.example/r"), ("x.md", "see a.example/s")]
        self.assertEqual(check_packages.elsewhere(texts, known), [])
        texts += [("y.md", "http://a.example/r/issues"), ("z.md", "b@a.example")]
        self.assertEqual(len(check_packages.elsewhere(texts, known)), 2)


class Releases(unittest.TestCase):
    def test_what_is_packed_is_the_same_again(self) -> None:
        entries = [("a/", b"", 0o755), ("a/b", b"text", 0o644)]
        with unittest.mock.patch.object(release, "epoch", return_value=1_700_000_000):
            packed = [release.compressed(release.tarball(entries)) for _ in range(2)]
        self.assertEqual(*packed)
        with tempfile.TemporaryDirectory() as folder:
            paths = [Path(folder) / name for name in ("x.whl", "y.whl", "z.whl")]
            for path, content in zip(paths, ("1", "1", "2")):
                with zipfile.ZipFile(path, "w") as wheel:
                    wheel.writestr(zipfile.ZipInfo("same"), "s")
                    wheel.writestr(zipfile.ZipInfo("part"), content)
            self.assertEqual(release.different(*paths[:2]), [])
            self.assertEqual(release.different(*paths[1:]), ["part"])

    def test_what_a_tag_needs(self) -> None:
        log = "# Log\n\n## [Unreleased]\n\n## [0.18.0] - today\n\nText.\n\n## [0.17.0]\n\nOld.\n"
        table = "| release | wire |\n|---|---|\n| 0.18 | 18 |\n"
        fine = ("v0.18.0", "0.18.0", 18, log, table, ["https://real.org/r", "mailto:a@real.org"])
        self.assertEqual(check_release.problems(*fine), [])
        self.assertEqual(check_release.notes(log, "0.18.0"), "Text.")
        broken = {
            0: "v0.18.1",
            2: 19,
            3: "",
            4: "",
            5: ["mailto:a@vesica.example"],
        }
        for i, value in broken.items():
            args = [*fine[:i], value, *fine[i + 1 :]]
            self.assertEqual(len(check_release.problems(*args)), 1, value)


class Options(unittest.TestCase):
    def test_a_library_spells_no_option(self) -> None:
        for text in ('"raise --memory"', '"give it by \\"--peer\\""', 'r#"take "--rows" all"#'):
            found = check_options.problems({"a.rs": f"fn f() {{\n    g({text});\n}}"})
            self.assertEqual(len(found), 1, text)
            self.assertTrue(found[0].startswith("a.rs:2: --"), found)
        for code in (
            "// As `--memory` does.",
            'f("a--b", "-- ", "x");',
            "f('\"', x--y, '\"');",
            '#[cfg(test)]\nmod tests {\n    const X: &str = "--memory";\n}',
        ):
            self.assertEqual(check_options.problems({"a.rs": code}), [], code)
        looked_at = check_options.libraries(check_options.ROOT)
        self.assertGreater(len(looked_at), 100)
        self.assertFalse(any("crates/cli/" in path for path in looked_at))


class Counts(unittest.TestCase):
    def test_a_plural_is_not_behind_a_number(self) -> None:
        for text in ('"{} rows"', '"has {buckets} buckets of it"', '"\\\n   {free} more queries"'):
            found = check_counts.problems({"a.rs": f"fn f() {{\n    g({text});\n}}"})
            self.assertEqual(len(found), 1, text)
        for code in (
            'f("{n} row");',
            'f("{done} of {rows} rows, {rate} items/s, at most {MOST} keys");',
            'f("3 of \\\n   {n} rows");',
            "// {} rows",
        ):
            self.assertEqual(check_counts.problems({"a.rs": code}), [], code)
        looked_at = check_options.sources(check_options.ROOT)
        self.assertTrue(any("crates/cli/" in path for path in looked_at))


class Links(unittest.TestCase):
    page = staticmethod("docs/{}.md".format)

    def problems(self, **texts: str) -> list[str]:
        """By the names of pages below docs/, with `__` for a folder."""
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for name, text in texts.items():
                path = root / self.page(name.replace("__", "/"))
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            (root / "a.rs").write_text(f"//! See `{self.page('b')}` and `{self.page('gone')}`.\n")
            return check_links.problems(root)

    def test_links_lead_somewhere(self) -> None:
        pages = {
            "README": "[x](b.md#two-words) [y](https://x.org/) `[z](no.md)` [c\nd](p/c.md#b-1) [a](../a.rs)",
            "b": "# `Two` words\n\n```sh\n# a comment\n[z](no.md)\n```\n\n[here](#two-words)\n",
            "p__c": "# B\n\n## B\n\n[up](../b.md)\n",
        }
        gone = f"a.rs: {self.page('gone')}: no such page"
        self.assertEqual(self.problems(**pages), [gone])
        for page, text, problem in (
            ("b", "[x](no.md)", ": no.md: no such file"),
            ("b", '<img src="no.svg">', ": no.svg: no such file"),
            ("b", "[x](../../outside.md)", ": ../../outside.md: no such file"),
            ("b", "[x](#a-comment)", ": #a-comment: no such heading"),
            ("b", "[x](p/c.md#b-2)", ": p/c.md#b-2: no such heading"),
            ("d", "alone [d](d.md)", ": no page has a link to it"),
        ):
            found = self.problems(**pages | {page: pages.get(page, "") + text})
            self.assertEqual(set(found), {gone, f"{self.page(page)}{problem}"})
        self.assertGreater(len(dict(check_links.texts(check_links.ROOT))), 300)


class Sizes(unittest.TestCase):
    def test_lines_are_told_apart(self) -> None:
        text = (
            '//! About.\n\nfn f() {\n    g("{"); // why\n}\n\n'
            "#[cfg(test)]\nmod tests;\nstruct S;\n#[cfg(test)]\nmod more {\n    // how\n    fn t() {}\n}\nuse x;\n"
        )
        counted = [kind for _, kind in size.kinds("crates/psi/src/a.rs", text)]
        self.assertEqual(counted[:4], ["comment", "code", "code", "code"])
        self.assertEqual(counted[4:], ["test"] * 2 + ["code"] + ["test"] * 5 + ["code"])
        self.assertEqual([kind for _, kind in size.kinds("a/tests/b.rs", "fn f() {}")], ["test"])

    def test_moves_are_found(self) -> None:
        def sizes(**files: str) -> dict[str, size.Size]:
            lines = {
                f"crates/{name}/src/a.rs": size.Counter(text.split(";"))
                for name, text in files.items()
            }
            return {"all": size.Size(lines=lines)}

        before, now = (
            sizes(a="let x = 1;let y = 2", b="let z = 3"),
            sizes(a="let y = 2", b="let z = 3;let x = 1"),
        )
        self.assertEqual(dict(+size.moved(before, now)), {"b": 1})


class Cycles(unittest.TestCase):
    def lines(self, **sources: str) -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for name, text in sources.items():
                path = root / (name.replace("__", "/") + ".rs")
                path.parent.mkdir(exist_ok=True)
                path.write_text(text)
            return check_cycles.cycles(root)

    def test_a_ring_is_named(self) -> None:
        lines = self.lines(
            lib="mod a; mod b; mod c;",
            a="use crate::b::{X, Y};",
            b="fn f() { crate::c::g() }",
            c="use super::{a::Z, b};",
        )
        self.assertEqual(lines, ["{a -> b -> c -> a}"])

    def test_names_that_are_passed_on_are_seen_through(self) -> None:
        lines = self.lines(lib="pub use b::X;", a="use crate::X;", b="use crate::a;")
        self.assertEqual(lines, ["{a -> b -> a}"])

    def test_deep_imports_count_for_their_folders(self) -> None:
        lines = self.lines(lib="", a__mod="", a__x="use crate::b;", b="use crate::a::x::T;")
        self.assertEqual(lines, ["{a -> b -> a}"])

    def test_children_tests_comments_and_strings_do_not_count(self) -> None:
        lines = self.lines(
            lib="",
            a="mod x; use x::T; // use crate::b;",
            a__x="use super::U;",
            b='use crate::a; const S: &str = "crate::c"; #[cfg(test)] mod tests { use crate::c; }',
            c="use crate::b;",
        )
        self.assertEqual(lines, [])


class Audit(unittest.TestCase):
    def test_licences_are_read_as_expressions(self) -> None:
        for licence in (
            "MIT",
            "MIT/Apache-2.0",
            "GPL-3.0 OR MIT",
            "(MIT OR GPL-3.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception",
        ):
            self.assertTrue(audit.is_allowed(licence), licence)
        for licence in ("", "GPL-3.0", "MIT AND GPL-3.0", "(MIT OR ISC) AND LGPL-2.1-or-later"):
            self.assertFalse(audit.is_allowed(licence), licence)

    def test_second_versions_are_named(self) -> None:
        def crate(name: str, version: str, source: str | None = "registry") -> dict:
            return {"name": name, "version": version, "source": source, "license": "MIT"}

        expected = [crate(name, v) for name in audit.TWICE for v in ("1.0.0", "2.0.0")]
        self.assertEqual(audit.problems({"packages": expected}), [])
        ours = [crate("a", "1.0.0"), crate("a", "1.0.1"), crate("vesica", "0.1.0", None)]
        found = audit.problems({"packages": expected + ours})
        self.assertEqual(found, ["a: versions 1.0.0, 1.0.1"])
        missing = audit.problems({"packages": expected[1:]})
        self.assertEqual(len(missing), 1)


class Layers(unittest.TestCase):
    def problems(self, *packages: dict) -> list[str]:
        return check_layers.wrong_imports(metadata(*packages))

    def test_arrows_that_point_down_are_fine(self) -> None:
        wire, psi = package("crates/wire"), package("crates/psi", ("crates/wire", None))
        face = package("crates/vesica", ("crates/psi", None), ("crates/wire", "dev"))
        self.assertEqual(self.problems(wire, psi, face), [])

    def test_every_kind_of_arrow_that_points_up_is_refused(self) -> None:
        for kind in (None, "dev", "build"):
            wire, psi = package("crates/wire", ("crates/psi", kind)), package("crates/psi")
            (problem,) = self.problems(wire, psi)
            self.assertIn("vesica-wire -> vesica-psi", problem)
            self.assertIn(kind or "normal", problem)

    def test_every_pair_of_layers(self) -> None:
        for i, user in enumerate(check_layers.LAYERS):
            for j, used in enumerate(check_layers.LAYERS):
                if i == j:
                    continue
                found = self.problems(
                    package(f"crates/{user}", (f"crates/{used}", None)), package(f"crates/{used}")
                )
                self.assertEqual(bool(found), j > i, f"{user} -> {used}")

    def test_a_crate_does_not_use_itself(self) -> None:
        self.assertTrue(self.problems(package("crates/wire", ("crates/wire", "dev"))))

    def test_reference_stands_apart(self) -> None:
        reference = package("reference")
        self.assertEqual(self.problems(reference, package("crates/psi", ("reference", "dev"))), [])
        self.assertTrue(self.problems(reference, package("crates/psi", ("reference", None))))
        reference = package("reference", ("crates/kernels", "dev"))
        self.assertTrue(self.problems(reference, package("crates/kernels")))

    def test_testing_is_for_the_tests_of_what_is_above_it(self) -> None:
        testing = package("testing", ("crates/wire", None))
        wire, psi = package("crates/wire"), package("crates/psi", ("testing", "dev"))
        self.assertEqual(self.problems(testing, wire, psi), [])
        research = package("evaluation/research", ("testing", "dev"))
        self.assertEqual(self.problems(testing, wire, research), [])
        self.assertTrue(self.problems(testing, wire, package("crates/psi", ("testing", None))))
        self.assertTrue(self.problems(testing, package("crates/wire", ("testing", "dev"))))
        testing = package("testing", ("crates/psi", None))
        self.assertTrue(self.problems(testing, package("crates/psi")))
        self.assertTrue(
            self.problems(package("testing", ("reference", None)), package("reference"))
        )

    def test_an_unknown_folder_is_refused(self) -> None:
        self.assertTrue(self.problems(package("crates/misc")))
        self.assertTrue(self.problems(package("tools/wire")))


class Lints(unittest.TestCase):
    def problems(self, folder: str, manifest: str) -> list[str]:
        with tempfile.TemporaryDirectory() as name:
            root = Path(name)
            one = package(folder, root=root)
            file = Path(one["manifest_path"])
            file.parent.mkdir(parents=True)
            file.write_text(manifest, encoding="utf-8")
            return check_layers.without_lints(metadata(one, root=root))

    def test_only_two_packages_say_their_own(self) -> None:
        ours, own = "[lints]\nworkspace = true\n", '[lints.rust]\nunsafe_code = "deny"\n'
        for folder, right, wrong in [
            ("crates/wire", ours, own),
            ("crates/kernels", own, ours),
            ("python", own, "[package]\n"),
        ]:
            self.assertEqual(self.problems(folder, right), [])
            self.assertEqual(len(self.problems(folder, wrong)), 1)


class MinimumRust(unittest.TestCase):
    def test_newer_dependencies_are_found(self) -> None:
        packages = [
            {"name": "old", "version": "1.0.0", "rust_version": "1.56"},
            {"name": "same", "version": "1.0.0", "rust_version": "1.89"},
            {"name": "silent", "version": "1.0.0", "rust_version": None},
            {"name": "patch", "version": "1.0.0", "rust_version": "1.89.1"},
            {"name": "new", "version": "2.0.0", "rust_version": "1.100"},
        ]
        found = check_msrv.too_new(packages, "1.89")
        self.assertEqual([line.split()[0] for line in found], ["patch", "new"])


class Locks(unittest.TestCase):
    def test_versions_that_differ_are_found(self) -> None:
        def lock(*packages: tuple[str, str]) -> str:
            parts = (f'[[package]]\nname = "{n}"\nversion = "{v}"\n' for n, v in packages)
            return "version = 4\n\n" + "\n".join(parts)

        root = lock(("a", "1.0.0"), ("b", "1.0.0"), ("b", "2.0.0"))
        same = lock(("a", "1.0.0"), ("b", "2.0.0"), ("only-here", "3.0.0"))
        self.assertEqual(check_locks.differences(root, same), [])
        (problem,) = check_locks.differences(root, lock(("a", "1.0.1")))
        self.assertIn("a 1.0.1", problem)


class Tally(unittest.TestCase):
    def test_what_the_runners_say_is_summed(self) -> None:
        tally = run_tests.Tally()
        for line in (
            "Ran 7 tests in 0.002s",
            "FAILED (failures=1, skipped=2)",
            "test result: ok. 10 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out",
            "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out",
            "test something ... ok",
        ):
            tally.line(line + "\n")
        self.assertEqual(tally.summary(), "17 passed, 3 failed, 3 skipped")

    def test_what_failed_is_told_with_where_it_did(self) -> None:
        tally = run_tests.Tally()
        for line in (
            "thread 'files::caught' (6) panicked at crates/a/src/c.rs:1:1:",
            "caught",
            "test files::caught ... ok",
            "test peers::meet ... FAILED",
            "thread 'peers::meet' (7) panicked at crates/a/src/b.rs:3:5:",
            "assertion failed: met",
            "note: run with a variable",
            "test peers::meet ... FAILED",
            "FAIL: test_meet (test_peers.Peers.test_meet)",
        ):
            tally.line(line + "\n")
        expected = [
            "FAILED peers::meet crates/a/src/b.rs:3:5: assertion failed: met",
            "FAILED test_meet (test_peers.Peers.test_meet)",
        ]
        self.assertEqual(tally.told(), expected)

    @staticmethod
    def built(
        kind: str, executable: str | None, test: bool = True, place: Path = Path("/r/a")
    ) -> str:
        """What Cargo tells of a target of package `a`."""
        told = {"reason": "compiler-artifact", "profile": {"test": test}, "package_id": "a"}
        target = {"kind": [kind], "name": "b"}
        told |= {"target": target, "manifest_path": str(place / "Cargo.toml")}
        return json.dumps(told | {"executable": executable})

    def test_what_is_built_for_tests_is_run(self) -> None:
        told: list[str] = []

        def messages() -> Iterator[str]:
            for message in [
                self.built("lib", None, test=False),
                self.built("test", "/t/deps/e2e-1"),
                self.built("bin", "/t/deps/unit-1"),
                self.built("bin", "/t/vesica", test=False),
                '{"reason": "build-finished", "success": true}',
            ]:
                told.append(message)
                yield message

        found = run_tests.binaries(messages(), Counter(a=1))
        self.assertEqual(next(found), run_tests.Binary(Path("/t/deps/unit-1"), Path("/r/a"), "b"))
        self.assertEqual(len(told), 3)
        # Only now is the command there that it runs.
        self.assertEqual(next(found), run_tests.Binary(Path("/t/deps/e2e-1"), Path("/r/a"), "b"))
        self.assertEqual(len(told), 4)
        self.assertEqual(list(found), [])

    def test_no_test_is_left_out(self) -> None:
        messages = [self.built("test", "/t/deps/e2e-1")]
        found = list(run_tests.binaries(messages, Counter(a=1)))
        self.assertEqual(found, [run_tests.Binary(Path("/t/deps/e2e-1"), Path("/r/a"), "b")])

    def test_what_does_not_end_is_killed_and_shown(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            endless = Path(name) / "endless"
            endless.write_text("#!/bin/sh\necho begun\nsleep 60 &\nsleep 60\n")
            endless.chmod(0o700)
            with unittest.mock.patch.object(run_tests, "PATIENCE", 0.2):
                code, printed = run_tests.execute(run_tests.Binary(endless, Path(name), "b"), [])
        self.assertEqual((code, printed), (-9, "begun\nkilled after 0.2 s\n"))

    def test_binaries_run_side_by_side_and_all_count(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            place = Path(name)
            messages = []
            for binary, code in (("good", 0), ("bad", 101)):
                path = place / binary
                result = "FAILED. 1 passed; 1 failed" if code else "ok. 2 passed; 0 failed"
                path.write_text(
                    f"#!/bin/sh\necho 'test result: {result}; 0 ignored;'\nexit {code}\n"
                )
                path.chmod(0o700)
                messages.append(self.built("lib", str(path), place=place))
            (place / "cargo").write_text("\n".join(["#!/bin/sh", "cat <<E", *messages, "E"]))
            (place / "cargo").chmod(0o700)
            tally = run_tests.Tally()
            with contextlib.redirect_stdout(io.StringIO()):
                code = run_tests.side_by_side(lambda _: [], [str(place / "cargo")], tally)
            self.assertEqual((code, tally.summary()), (101, "3 passed, 1 failed, 0 skipped"))


class WhichTests(unittest.TestCase):
    """Each test is run by `make test` or by `make test-slow`."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        listed = Path(folder.name) / "slow_tests.txt"
        listed.write_text("crates/psi vesica_psi masks::long\ncrates/cli e2e large::longer\n")
        changed = unittest.mock.patch.object(run_tests, "SLOW", listed)
        changed.start()
        self.addCleanup(changed.stop)
        # It lists its tests, as test binaries do.
        self.program = Path(folder.name) / "e2e"
        self.program.write_text("#!/bin/sh\necho 'masks::long: test'\necho 'masks::short: test'\n")
        self.program.chmod(0o755)

    def binary(self, directory: str, name: str) -> run_tests.Binary:
        return run_tests.Binary(self.program, run_tests.ROOT / directory, name)

    def test_each_test_runs_once(self) -> None:
        psi = self.binary("crates/psi", "vesica_psi")
        self.assertEqual(run_tests.quick(psi), ["--exact", "--skip", "masks::long"])
        self.assertEqual(run_tests.slow(psi), ["--exact", "masks::long"])
        none = self.binary("crates/wire", "vesica_wire")
        self.assertEqual(run_tests.quick(none), ["--exact"])
        self.assertIsNone(run_tests.slow(none))
        self.assertEqual(run_tests.slow(self.binary("evaluation/research", "vesica_research")), [])

    def test_a_listed_test_that_does_not_exist_is_an_error(self) -> None:
        for words_of in (run_tests.quick, run_tests.slow):
            with self.assertRaisesRegex(ValueError, "crates/cli e2e has no test large::longer"):
                words_of(self.binary("crates/cli", "e2e"))


class Reliability(unittest.TestCase):
    def test_blocks_replace_those_of_the_page(self) -> None:
        blocks = reliability.Blocks()
        for line in ["test a ... ", "<!-- begin x -->", "| 1 |", "<!-- end x -->", "ok"]:
            blocks.line(line + "\n")
        page = "a\n<!-- begin x -->\nold\nolder\n<!-- end x -->\nb\n"
        expected = "a\n<!-- begin x -->\n| 1 |\n<!-- end x -->\nb\n"
        self.assertEqual(reliability.replaced(page, blocks.found, keep=False), expected)

    def test_a_page_without_the_block_is_refused(self) -> None:
        with self.assertRaises(ValueError):
            reliability.replaced("<!-- begin x -->\n", {"x": []}, keep=False)

    def test_rows_of_other_protocols_stay(self) -> None:
        old = [
            "| protocol | runs |",
            "|---|---|",
            "| a | 1 |",
            "| b, weak | 1 |",
            "| b, strong | 1 |",
        ]
        new = [*old[:2], "| b, strong | 2 |", "| c | 2 |"]
        merged = reliability.merged(old, new)
        self.assertEqual(merged, [*old[:3], "| b, strong | 2 |", "| c | 2 |"])

    def test_rows_of_a_protocol_are_added_up(self) -> None:
        frames = [
            "| protocol | fault | runs | wrong |",
            "|---|---|---|---|",
            "| circuit-a, size | cut | 1 | 0 |",
            "| circuit-a, sum | stall | 2 | 0 |",
            "| circuit-a, sum | flip | 4 | |",
            "| vole, weak | cut | 8 | 1 |",
        ]
        expected = [
            *frames[:2],
            f"| circuit-a | {reliability.KINDS[0]} | 3 | 0 |",
            f"| circuit-a | {reliability.KINDS[1]} | 4 | |",
            f"| vole, weak | {reliability.KINDS[0]} | 8 | 1 |",
        ]
        self.assertEqual(reliability.shown("frames", frames), expected)
        self.assertEqual(reliability.shown("others", frames), frames)

    def test_comparisons_of_times_are_told_by_their_worst(self) -> None:
        names = ["protocol", "a", "b", "c", "d", "e", "p", "sees"]
        rows = [["vole", *"12345", "0.4", "900 \u00b5s"], ["vole", *"12345", "0.2", "1.5 ms"]]
        table = [reliability.line(row) for row in [names, ["---"] * 8, *rows]]
        self.assertEqual(reliability.shown("timing", table)[2:], ["| vole | 2 | 0.2 | 1.5 ms |"])


class Demo(unittest.TestCase):
    def test_what_is_missing_is_named(self) -> None:
        self.assertEqual(demo.missing("1.95.0", "1.89", "cargo", "cc"), [])
        self.assertEqual(demo.missing("1.89.0-nightly", "1.89", "cargo", "cc"), [])
        for rust, cargo, compiler, words in [
            (None, "cargo", "cc", "Rust 1.89 or newer is missing"),
            ("1.95.0", None, "cc", "Rust 1.89 or newer is missing"),
            ("1.88.0", "cargo", "cc", "Rust 1.88.0 is too old"),
            ("1.95.0", "cargo", None, "a C compiler is missing"),
        ]:
            (line,) = demo.missing(rust, "1.89", cargo, compiler)
            self.assertIn(words, line)
        self.assertEqual(len(demo.missing(None, "1.89", None, None)), 2)


if __name__ == "__main__":
    unittest.main()
