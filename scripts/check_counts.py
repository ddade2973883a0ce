"""Refuses a number before a plural in a text of the command or of a library: "1 buckets", where the number is 1.

`many` of `vesica-files` writes a number and what is counted. "3 of {n} rows" is left to the sentence. Comments and tests are
not looked at.
"""

from __future__ import annotations

import re
import sys

from check_options import sources, texts
from stages import ROOT, say

COUNTED = (
    "answers attempts buckets clients columns connections days fields files halves items keys openings pairs "
    "queries questions refusals releases rows tasks threads"
)
# A constant is not 1, and a line in a text goes on behind a backslash.
PLURAL = re.compile(
    r"(?<!of )(?<!and )(?<!to )\{(?![A-Z_]+\})[^{}]*\} (?:more )?(?:"
    + "|".join(COUNTED.split())
    + r")\b(?!/)"
)
FOLDED = re.compile(r"\\\n\s*")


def problems(sources: dict[str, str]) -> list[str]:
    """The plurals after numbers in texts of these files, by their paths."""
    return [
        f"{at}: {found}"
        for at, text in texts(sources)
        for found in PLURAL.findall(FOLDED.sub("", text))
    ]


def main() -> int:
    found = problems(sources(ROOT))
    for line in found:
        say(f"{line}: write it with `many`, for 1")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
