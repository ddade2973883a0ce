"""What larger clusters take follows from what was measured."""

from __future__ import annotations

import unittest

from reliability import replaced
from scale_out import PAGE, SIDES, Line, Parts, blocks, forecast, load_runs


class ScaleOut(unittest.TestCase):
    def test_a_line_goes_through_what_was_measured(self) -> None:
        of = lambda rows, buckets: 2.0 + 0.01 * rows + 0.5 * buckets
        sizes = [(100, 16), (400, 16), (100, 64), (1600, 16)]
        found = Line.through({size: of(*size) for size in sizes}, by_buckets=True)
        for have, want in zip(found, (2.0, 0.01, 0.5)):
            self.assertAlmostEqual(have, want)
        self.assertAlmostEqual(found.at(1000), 12.0)
        self.assertAlmostEqual(found.at(1000, 10), 3.0)
        flat = Line.through({(100, 16): 3.0, (200, 16): 4.0}, by_buckets=False)
        self.assertAlmostEqual(flat.fixed, 2.0)
        self.assertEqual(flat.bucket, 0.0)

    def test_more_cores_take_fewer_waves(self) -> None:
        runs = load_runs()
        parts = Parts([*runs["clusters"].values(), *runs.get("command", {}).values()])
        sizes = dict.fromkeys(SIDES, 2.0**28)
        few, many = (forecast(parts, sizes, cores, 1e10) for cores in (16, 64))
        self.assertEqual((few.number, few.waves, many.waves), (256, 16, 4))
        self.assertEqual((few.sent, few.link), (many.sent, many.link))
        self.assertGreater(few.seconds, many.seconds)

    def test_the_page_has_what_was_measured(self) -> None:
        page = PAGE.read_text()
        self.assertEqual(page, replaced(page, blocks(), keep=False))


if __name__ == "__main__":
    unittest.main()
