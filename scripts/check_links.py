"""Refuses links in Markdown that lead nowhere.

Relative links name files and folders of this repository, and what follows a `#` a heading of the page, in the form that
code hosts give it. Pages that sources name as `docs/….md` exist. Links to other sites are not looked at. Every page
below docs/ has a link from another page.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from stages import ROOT, say

CODE = re.compile(r"^ *```.*?^ *```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(
    r"\]\(([^()\s]+)\)|^\[[^\]]+\]: (\S+)|(?:href|src|srcset)=\"([^\"]+)\"", re.MULTILINE
)
HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
FENCE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"\bdocs/[\w/-]+\.md\b")
ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:")
# What tools write.
BUILT = {"target", "corpus", "artifacts", "__pycache__"}


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings. A repeated heading gets -1, -2 and so on."""
    found: set[str] = set()
    for heading in HEADING.findall(FENCE.sub("", text)):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
        base = re.sub(r"[^\w\- ]", "", shown).replace(" ", "-")
        repeats = (f"{base}-{n}" if n else base for n in range(len(found) + 1))
        found.add(next(anchor for anchor in repeats if anchor not in found))
    return found


def problems(root: Path) -> list[str]:
    """What is wrong with the links below a folder."""
    lines, linked = [], {Path("docs/README.md")}
    sources = dict(texts(root))
    pages = {path: text for path, text in sources.items() if path.suffix == ".md"}
    for path, text in pages.items():
        for link in ("".join(found) for found in LINK.findall(CODE.sub("", text))):
            if ELSEWHERE.match(link):
                continue
            name, _, anchor = link.partition("#")
            target = Path(os.path.normpath(path.parent / name)) if name else path
            if target.parts[:1] == ("..",) or not (root / target).exists():
                lines.append(f"{path}: {link}: no such file")
            elif anchor and anchor not in anchors(pages.get(target, "")):
                lines.append(f"{path}: {link}: no such heading")
            elif target != path:
                linked.add(target)
    for path, text in sources.items():
        missing = {name for name in NAMED.findall(text) if not (root / name).exists()}
        lines += [f"{path}: {name}: no such page" for name in sorted(missing)]
    alone = (page for page in pages if page.parts[0] == "docs" and page not in linked)
    return lines + [f"{page}: no page has a link to it" for page in alone]


def texts(root: Path) -> Iterator[tuple[Path, str]]:
    """The pages and sources below a folder, by their paths from there."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in BUILT and name[0] != ".")
        for path in (Path(folder, name) for name in sorted(names)):
            if path.suffix in (".md", ".rs", ".py"):
                yield path.relative_to(root), path.read_text(encoding="utf-8")


def main() -> int:
    found = problems(ROOT)
    for line in found:
        say(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
