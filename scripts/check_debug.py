"""Refuses `Debug` that could show a secret.

Keys of a table, items, masks, shares, seeds and keys are bytes or numbers in memory, and a derived `Debug` prints them
all. So a type with a field of bytes, blocks, or a sequence of numbers or bits has a `Debug` by `opaque!`, or one written by
hand, which says no more of such a field than its length; or the field is in `PUBLIC` below, with what it is. Fields of other
types are as good as these types' own `Debug`. Tests are not looked at.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from check_cycles import TESTS
from stages import ROOT, say

# Types in which secrets are: bytes, blocks, what is wiped, and sequences of numbers and bits.
RAW = re.compile(
    r"\bZeroizing\b|\b[ui]128\b|\b(?:Block|Item|LongOutput|Scalar|StaticSecret|SigningKey)\b"
    r"|(?:\[|\b(?:Vec|Box|Arc|Cow|Option)<\s*)+(?:'\w+\s*,\s*)?(?:\[\s*)*(?:u8|u16|u32|u64|i64|usize|bool)\b\s*[;\]>,]"
)
# An option of one number is none of them.
OPTION = re.compile(r"\bOption<\s*(?:u8|u16|u32|u64|i64|usize|bool)\s*>")
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
ATTRIBUTE = re.compile(r"#\[(?:[^\[\]]|\[[^\]]*\])*\]")
TYPE = re.compile(
    r"(?P<before>(?:#\[(?:[^\[\]]|\[[^\]]*\])*\]\s*)*)(?:pub(?:\([^)]*\))?\s+)?(?:struct|enum)\s+(?P<name>\w+)"
    r"[^;{(]*(?P<open>[{(])"
)
BY_HAND = re.compile(r"\bDebug\s+for\s+(?P<name>\w+)[^{]*\{")
OPAQUE = re.compile(r"\bopaque!\(\s*(?P<name>\w+)(?:<[^>]*>)?(?P<shown>[^)]*)\)")
DERIVED = re.compile(r"derive\([^)]*\bDebug\b")

# Fields that may be shown: the file below `crates`, or in `python`, and the type with its field or variant.
PUBLIC = {
    "circuit/src/digits.rs Level.widths": "sizes",
    "cli/src/args/runs.rs ValueOptions.value_scale": "decimal places",
    "correlations/src/store.rs Entry.header": "the public part of a half",
    "files/src/id.rs FileId.born": "a time",
    "files/src/stamp.rs FileStamp.changed": "a time",
    "files/src/stamp.rs FileStamp.modified": "a time",
    "kernels/src/descriptor.rs Descriptor.list": "who may use a file",
    "kernels/src/descriptor.rs Descriptor.owner": "whose a file is",
    "kernels/src/residues.rs Modulus.montgomery": "a public modulus",
    "psi/src/groups.rs Capacities.of_groups": "sizes that the peer is told",
    "session/src/group_terms.rs GroupTerms.sizes": "sizes that the peer is told",
    "offline/src/generators.rs Share.encapsulation_key": "a key that both parties are handed",
    "ledger/src/book.rs Book.torn": "numbers of lines",
    "ledger/src/ledger.rs Head.hash": "a hash that peers are told",
    "lookup/src/database.rs Last.hash": "a hash of a published header",
    "lookup/src/header.rs Header.previous": "published",
    "lookup/src/header.rs Header.root": "published",
    "lookup/src/header.rs Header.salt": "published",
    "lookup/src/messages.rs Lacking.hash": "a hash of a published header",
    "lookup/src/publish.rs Content.hash": "a hash of published blocks",
    "lookup/src/quotas.rs Account.withdrawn": "hashes of blinded elements",
    "lookup/src/quotas.rs Batch.hash": "a hash of blinded elements",
    "lookup/src/quotas.rs Memory.0": "a file whose rows are sealed",
    "lookup/src/set.rs Block.first": "published",
    "lookup/src/set.rs Block.hash": "published",
    "lookup/src/set.rs Release.blocks": "published",
    "offline/src/attestation.rs Evidence.endorsements": "certificates",
    "offline/src/attestation.rs Evidence.report": "a signed report",
    "offline/src/attestation/sev_snp.rs SevSnp.vcek": "a certificate",
    "offline/src/generators.rs Share.public": "a public key",
    "offline/src/generators.rs Share.request": "a message",
    "offline/src/request.rs DealerRequest.nonce": "a message",
    "plan/src/auto.rs Open.sizes": "sizes",
    "plan/src/auto.rs Row.lan": "figures of a table",
    "plan/src/auto.rs Row.wan": "figures of a table",
    "plan/src/fit.rs Fit.range": "sizes",
    "plan/src/forecast.rs Request.sizes": "sizes",
    "primitives/src/laplace.rs Scale.numerator": "follows from the contract",
    "primitives/src/laplace.rs Scale.denominator": "follows from the contract",
    "primitives/src/voprf.rs Element.bytes": "an element that is sent",
    "session/src/attempted.rs Attempted.name": "a name that both sides know",
    "session/src/contract.rs Resume.After.run": "a name that both sides know",
    "session/src/courier/envelope.rs Envelope.content": "encrypted",
    "session/src/courier/envelope.rs Envelope.encapsulated": "encrypted",
    "session/src/courier/envelope.rs Envelope.head": "a message",
    "session/src/courier/envelope.rs Envelope.job": "a name that both sides know",
    "session/src/courier/envelope.rs Envelope.key": "a public key",
    "session/src/every_run.rs OneHalf.content": "of tests",
    "session/src/examine.rs Introduction.text": "told by the peer",
    "session/src/identity.rs PublicKey.0": "a public key",
    "session/src/invitation.rs Invitation.bytes": "what is handed over",
    "session/src/opening.rs Choice.0": "numbers of attempts, which both sides know",
    "session/src/tally.rs Tally.begun": "numbers of attempts, which both sides know",
    "session/src/tally.rs Tally.confirmed": "the same",
    "session/src/tally.rs Tally.results": "the same",
    "session/src/tls.rs Handshake.greeting": "a message",
    "session/src/value.rs Decimal.units": "an answer, as it is printed",
    "tables/src/check.rs Finding.rows": "numbers of rows, as `check` prints them",
    "tables/src/formats/fields.rs FieldPath.below": "places in a schema",
    "tables/src/formats/sink.rs Facts.ends": "lengths of files",
    "tables/src/profile/key.rs Identifier.columns": "places among the columns of a key",
    "tables/src/profile/postcode.rs PostalRegion.0": "a country's code",
    "tables/src/source.rs FileDigest.sha256": "for whoever may read the file",
    "tables/src/types/columns.rs Fields.seen": "which columns a header has",
    "vesica/src/work_dir.rs Head.input": "a keyed hash",
    "wire/src/tamper.rs Spoil.Extend": "of tests",
    "wire/src/tamper.rs Spoil.Replace": "of tests",
    "wire/src/traffic.rs Traffic.bytes": "numbers of bytes",
    "wire/src/traffic.rs Traffic.delays": "numbers of messages",
}


def until_closed(code: str, start: int, opening: str) -> str:
    """What is between a bracket, after which `start` is, and the one that closes it."""
    closing, depth, at = {"{": "}", "(": ")"}[opening], 1, start
    while depth and at < len(code):
        depth += (code[at] == opening) - (code[at] == closing)
        at += 1
    return code[start : at - 1]


def parts(body: str) -> Iterator[str]:
    """What commas separate at the outermost level."""
    part, depth, last = "", 0, ""
    for letter in body:
        depth += (letter in "{(<[") - (letter in "})]" or (letter == ">" and last != "-"))
        last = letter
        if letter == "," and depth == 0:
            yield part.strip()
            part = ""
        else:
            part += letter
    if part.strip():
        yield part.strip()


def raw_fields(body: str) -> Iterator[str]:
    """The names of fields, or variants or places, that can be secret."""
    for place, part in enumerate(parts(body)):
        if not RAW.search(OPTION.sub("", part)):
            continue
        variant = re.match(r"(\w+)\s*\{(.*)\}$", part, re.DOTALL)
        named = re.match(r"(?:pub(?:\([^)]*\))?\s+)?(\w+)\s*[:(]", part)
        if variant:
            yield from (f"{variant[1]}.{name}" for name in raw_fields(variant[2]))
        else:
            yield named[1] if named else str(place)


def problems(sources: dict[str, str], public: dict[str, str]) -> list[str]:
    """What is wrong in these texts, by their paths; entries of `public` that nothing has are wrong too."""
    lines, unused = [], set(public)
    for path, text in sorted(sources.items()):
        code = COMMENT.sub("", TESTS.split(text)[0])
        by_hand = {
            found["name"]: until_closed(code, found.end(), "{") for found in BY_HAND.finditer(code)
        }
        for found in OPAQUE.finditer(code):
            by_hand[found["name"]] = re.sub(r"(\w+)", r"self.\1;", found["shown"])
        for found in TYPE.finditer(code):
            name = found["name"]
            body = ATTRIBUTE.sub("", until_closed(code, found.end(), found["open"]))
            is_derived, written = DERIVED.search(found["before"]), by_hand.get(name, "")
            for field in raw_fields(body):
                full = f"{path} {name}.{field}"
                shown = re.search(rf"self\.{field}\b(?!(?:\.\w+\(\))*\.len\(\))", written)
                if not is_derived and not shown:
                    continue
                unused.discard(full)
                if full not in public:
                    lines.append(full)
    return lines + [f"{entry} is in the list, and shown nowhere" for entry in sorted(unused)]


def sources(root: Path) -> dict[str, str]:
    """The files of crates and of the Python package, without tests."""
    found = {}
    for folder in ("crates", "python"):
        for path in (root / folder).glob("**/src/**/*.rs"):
            name = path.relative_to(root / folder if folder == "crates" else root)
            if path.name not in ("tests.rs", "harness.rs") and "tests" not in name.parts:
                found[str(name)] = path.read_text(encoding="utf-8")
    return found


def main() -> int:
    found = problems(sources(ROOT), PUBLIC)
    for line in found:
        say(f"{line}: Debug could show it; write Debug by hand, or say in PUBLIC what it is")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
