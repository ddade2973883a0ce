"""The oracle of campaign.py says what docs/tables.md says, by hand-written examples."""

from __future__ import annotations

import unittest
from decimal import Decimal

from oracle import NULL, Blank, Cell, Invalid, Refused, is_text_of, key, normal, printed, units


def text(value: str) -> Cell:
    return Cell("text", value)


class Normalisers(unittest.TestCase):
    def test_the_examples_of_the_docs(self) -> None:
        for profile, cell, want in [
            ("exact", Cell("integer", -17), "-17"),
            ("exact", Cell("decimal", Decimal("12.50")), "12.5"),
            ("exact/1", Cell("decimal", Decimal("12.50")), "12.50"),
            ("exact", Cell("decimal", Decimal("7.00")), "7"),
            ("exact", Cell("date", 19782), "2024-02-29"),
            ("exact", Cell("time", 30600_250_000_000), "08:30:00.250"),
            ("exact", Cell("timestamp", 1_700_000_000_250_000_000), "2023-11-14T22:13:20.250Z"),
            ("exact", Cell("uuid", bytes(range(16))), "00010203-0405-0607-0809-0a0b0c0d0e0f"),
            ("exact", text(" 007 "), " 007 "),
            ("integer", text("+007"), "7"),
            ("integer", text("7.0"), "7"),
            ("integer", Cell("float", 7.0), "7"),
            ("integer:8", text("0255"), "255"),
            ("decimal", text("+012.50"), "12.5"),
            ("decimal", Cell("decimal", Decimal("12.500")), "12.5"),
            ("decimal", text("-0.0"), "0"),
            ("timestamp", text("2024-02-29 08:30+01"), "2024-02-29T07:30:00Z"),
            ("timestamp", text("2024-02-29"), "2024-02-29T00:00:00Z"),
            ("timestamp:ms", text("-1"), "1969-12-31T23:59:59.999Z"),
            ("date", text("20240229"), "2024-02-29"),
            ("date", text("2024-02-29T00:00:00.0Z"), "2024-02-29"),
            (
                "uuid",
                text("{00112233445566778899AABBCCDDEEFF}"),
                "00112233-4455-6677-8899-aabbccddeeff",
            ),
            ("ipv4", Cell("integer", 2**32 - 1), "255.255.255.255"),
            ("ipv4", Cell("bytes", b"\xc0\0\2\7"), "192.0.2.7"),
            ("ipv6", text("192.0.2.7"), "::ffff:192.0.2.7"),
            ("ipv6", text("2001:DB8:0:0::1"), "2001:db8::1"),
            ("sha256-hex", text("AB" * 32), "ab" * 32),
        ]:
            self.assertEqual(normal(profile, cell), want.encode(), (profile, cell))

    def test_what_never_matches(self) -> None:
        for profile, value in [
            ("integer", "1e3"),
            ("integer:8", "256"),
            ("integer:8", "-1"),
            ("decimal", "1,000"),
            ("date", "29.02.2024"),
            ("date", "2023-02-29"),
            ("date", "2024-02-29 12:00"),
            ("timestamp", "2024-02-29 24:00"),
            ("ipv4", "01.2.3.4"),
            ("ipv6", "fe80::1%eth0"),
            ("uuid", "0011"),
        ]:
            with self.assertRaises(Invalid, msg=(profile, value)):
                normal(profile, text(value))
        for profile, cell in [("exact", text("")), ("uuid", text(" ")), ("exact", NULL)]:
            with self.assertRaises(Blank):
                normal(profile, cell)
        with self.assertRaises(Blank):
            normal("exact", text("NULL"), frozenset(["NULL"]))
        with self.assertRaises(Blank):
            normal("exact", Cell("bytes", b"n/a"), frozenset(["n/a"]))
        for cell in [Cell("float", 7.0), Cell("number", "7.0"), Cell("nested", 0)]:
            with self.assertRaises(Refused):
                normal("exact", cell)

    def test_a_blank_outweighs_what_is_invalid(self) -> None:
        profiles, nulls = ["exact", "integer"], frozenset(())
        self.assertEqual(key(profiles, [text("a"), text("01")], nulls), (b"a", b"1"))
        self.assertEqual(key(profiles, [text("a"), text("x")], nulls), "invalid")
        self.assertEqual(key(profiles, [NULL, text("x")], nulls), "blank")


class Numbers(unittest.TestCase):
    def test_values_are_never_rounded(self) -> None:
        self.assertEqual(units(text("-12.50"), 2), -1250)
        self.assertEqual(units(Cell("decimal", Decimal("1.500")), 1), 15)
        for cell in [text("1.25"), text("1e3"), text(""), NULL, Cell("float", 1.0)]:
            with self.assertRaises(Refused):
                units(cell, 1)
        self.assertEqual([printed(-5, 2), printed(120, 1), printed(7, 0)], ["-0.05", "12.0", "7"])

    def test_floats_are_told_by_their_value(self) -> None:
        for cell, good in [
            (Cell("float32", 0.10000000149011612), "0.1"),
            (Cell("float", 5e-324), "5e-324"),
            (Cell("float", -0.0), "-0.0"),
            (Cell("float", float("nan")), "NaN"),
            (NULL, None),
        ]:
            self.assertTrue(is_text_of(cell, good), cell)
            self.assertFalse(is_text_of(cell, "0.0"), cell)
            self.assertFalse(is_text_of(cell, ""), cell)


if __name__ == "__main__":
    unittest.main()
