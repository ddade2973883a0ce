"""Compares the normalisation profiles with implementations in another language.

phone       phonenumbers, the Python port of libphonenumber, at the same version of the metadata:
            example numbers of every region and type in many writings under thirty regions, then
            random valid numbers and damaged writings of them under any region, with numbers in the forms of pandas
            and spreadsheets, which are invalid
text, name  unicodedata2 and str.casefold
email       idna's tables of UTS #46
sha256-hex  hashlib
exact       the text itself

The packages come from PyPI, pinned, into a virtual environment below the target directory. Prints
what differs and exits 1 if anything does. `--write-vectors` writes vectors/phone.json anew.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator

from stages import CARGO, ROOT, run, say, target_dir

# The first has the version of libphonenumber's metadata, which is part of what phone/4 means.
PACKAGES = ["phonenumbers==9.0.42", "idna==3.20", "unicodedata2==18.0.0"]
READ_IN = (
    "US GB DE FR IT ES RU CN IN BR MX AR JP KR AU NZ ZA NG EG SA TR IR ID PK BD KZ HU SM CI UY"
).split()
OTHER_DIGITS = {"Arabic-Indic": 0x660, "Devanagari": 0x966, "fullwidth": 0xFF10}
# The property White_Space of Unicode; str.isspace() also has U+001C to U+001F.
WHITE_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
# What the profiles leave out; the joiners, where they mean nothing.
INVISIBLE = dict.fromkeys(
    code
    for code in (
        *(c for c in range(0x20) if not 0x9 <= c <= 0xD),
        *(c for c in range(0x7F, 0xA0) if c != 0x85),
        *(0xAD, 0x34F, 0x61C, *range(0x180B, 0x1810), *range(0x200B, 0x2010)),
        *(*range(0x202A, 0x202F), *range(0x2060, 0x2070), *range(0xFE00, 0xFE10), 0xFEFF),
        *range(0xE0100, 0xE01F0),
    )
)
TYPED = str.maketrans(
    dict.fromkeys("\u00b4\u02b9\u02bb\u02bc\u2018\u2019\u201b\u2032", "'")
    | dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-")
)
PHONE_PIECES = [
    *"+\uff0b0123456789()-./ ~*#xX;=eEabWZ,:[]\u00ad\u200b\u2060\ufeff\u200e\u202a\u3000\u00a0",
    *"\u2010\u2015\u2212\uff0d\u30fc\u2070\u00b2\u2460\u0661\u06f5\uff15\u0966\u2116\uff58",
    *(
        " ext. 12",
        "ext",
        "\u0434\u043e\u0431. 5",
        "#7",
        "x9",
        ";ext=33",
        "tel:",
        "00",
        "011",
        "8~10",
    ),
    *(";phone-context=+44", ";phone-context=example.com", ";isub=1", "(0)", "anexo 12", "/x3"),
]
TEXT_PIECES = [
    *"aAzZ09 \t\u00a0\u3000\u00ad\u200b\u2060\ufeff\u200c\u200d\u0130\u0131\u00df\u1e9e\u03c2\u03a3",
    *"\u0345\u0301\u0300\u0323\u0327\u1fb3\u1f80\ufb01\u00bd\u212b\u1100\u1161\u11a8\uac00\u0390\u03b0",
    *"'\u2019\u2013\u2212\u00b4\u200e\u202a\ufe0f\x00\u034f\u0645\u0915\u094d\U0001f468",
    *"\u0958\u0344\u1e9b\u0f77\u2126\u01c5\u13a0\uab70\x1c\x85\U0001d15e\U0001f600\ufdfa",
]
NAME_PIECES = [
    *(
        "Dr. ",
        "mr ",
        "SR ",
        "Ann ",
        "O\u2019Neil",
        "Jos\u00e9",
        "\u0141uk",
        " Jr.",
        " III",
        " senior",
        " Junior",
    ),
    *" ()[]{-.,'\u00b4\u0301\u200d\u30fb\u304c\u0915\u0941",
]
DOMAIN_PIECES = [
    *"abzAZ019-._\u3002\uff0e\uff61\u00fc\u00dc\u00df\u1e9e\u03c2\u0131\u0130\u200c\u200d\u00ad\u0301",
    *"\u05d0\u05d1\u0627\u0628\u0660\u06f1\u0966\u094d\u4e2d\u30fb\u00b7\u0375\uff21\u2665\U0001f600",
    *(
        "xn--",
        "xn--bcher-kva",
        "xn--a",
        "--",
        "example",
        ".org",
        "b\u00fccher",
        "fa\u00df",
        "..",
        "x" * 60,
    ),
]


def environment() -> str | None:
    """The Python of a virtual environment with the packages; nothing if it cannot be made."""
    venv = target_dir() / "compare-venv"
    python = venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    stamp = venv / "installed"
    if stamp.is_file() and stamp.read_text() == " ".join(PACKAGES):
        return str(python)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet", *PACKAGES]
    if run([sys.executable, "-m", "venv", "--clear", str(venv)]) != 0 or run(pip) != 0:
        say("cannot install the packages: Python's venv and pip, and a package index, are needed")
        return None
    stamp.write_text(" ".join(PACKAGES))
    return str(python)


# Phone numbers.


def examples() -> list[tuple[str, str, str]]:
    """Region, type and E.164 form of each example number that is valid."""
    import phonenumbers as p

    found: dict[tuple[str, str], str] = {}
    for region in sorted(p.SUPPORTED_REGIONS):
        for kind in p.PhoneNumberType.values():
            number = p.example_number_for_type(region, kind)
            if number is not None and p.is_valid_number(number):
                name = p.PhoneNumberType.to_string(kind).lower()
                found.setdefault((region, e164(number)), name)
    for code in sorted(p.COUNTRY_CODES_FOR_NON_GEO_REGIONS):
        number = p.example_number_for_non_geo_entity(code)
        if number is not None and p.is_valid_number(number):
            found.setdefault(("001", e164(number)), "non_geographic")
    return sorted((region, kind, number) for (region, number), kind in found.items())


def e164(number) -> str:
    import phonenumbers as p

    return p.format_number(number, p.PhoneNumberFormat.E164)


def digits_from(text: str, zero: int) -> str:
    return "".join(chr(zero + int(c)) if c in "0123456789" else c for c in text)


def writings(number) -> Iterator[str]:
    """E.164, international and RFC 3966 without and with extension; national; in other digits."""
    import phonenumbers as p

    form = p.PhoneNumberFormat
    plain = [p.format_number(number, f) for f in (form.E164, form.INTERNATIONAL, form.NATIONAL)]
    extended = p.PhoneNumber()
    extended.merge_from(number)
    extended.extension = "123"
    yield from plain
    yield from (p.format_number(n, form.RFC3966) for n in (number, extended))
    yield from (digits_from(text, zero) for zero in OTHER_DIGITS.values() for text in plain)


def in_ascii(text: str) -> str:
    """Digits of any script and what goes with them in ASCII, without invisible characters."""
    import unicodedata

    marks = {
        "\uff0e": ".",
        "\u066b": ".",
        "\uff0c": ",",
        "\u066c": ",",
        "\uff0b": "+",
        "\u2019": "'",
    }
    marks |= {"\uff07": "'", "\uff25": "E", "\uff45": "E"}
    hidden = "\u00ad\u200b\u200c\u200d\u200e\u200f\ufeff" + "".join(
        chr(c) for c in (*range(0x202A, 0x202F), *range(0x2060, 0x206A))
    )
    plain = []
    for c in text:
        if c not in hidden:
            space = " " if c in WHITE_SPACE and not c.isascii() else c
            plain.append(marks.get(c, str(unicodedata.decimal(c, space))))
    return "".join(plain)


def is_number_form(text: str) -> bool:
    """Whether a text has the form that programs give to numbers, and nobody to phone numbers."""
    import phonenumbers as p

    text = in_ascii(text)
    core = re.sub(r"^[\W_]+|[\W_]+$", "", text)
    before = text[: text.find(core)] if core else ""
    if re.search(r"(^|[^\w.,]|_)[0-9.,]*[0-9][0-9.,]*[eE][+-]?[0-9]{1,3}$", core):
        return True
    found = re.search(r"[0-9]+([.,' ][0-9]+)*$", core)
    if found is None:
        return False
    tail, is_all = found.group(), found.start() == 0
    first = "^[1-9][0-9]{0,2}"
    if re.search(r"[0-9] [0-9]{3}[.,]0{1,2}$", core):
        return True
    forms = [
        r"(^|[' ])[0-9]{5,}[.,]0+$",
        r"(^|[' ])[0-9]{7,}\.[0-9]{1,2}$",
        first + r"(\.[0-9]{3})+,(0+|[0-9]{1,2})$",
        first + r"(,[0-9]{2,3})+\.(0+|[0-9]{1,2})$",
        first + r"('[0-9]{3})+[.,](0+|[0-9]{1,2})$",
        first + r"( [0-9]{3}){2,}[.,]0+$",
        first + r"(,[0-9]{2,3}){2,}$",
        first + r"('[0-9]{3}){2,}$",
    ]
    if any(re.search(form, tail) for form in forms):
        return True
    if is_all and re.search(r"^[0-9]+[.,]0{1,2}$", tail):
        return True
    groups = re.search(r"^([1-9][0-9]{0,2})(\.[0-9]{3}){3,}$", tail)
    code = groups and int(groups.group(1)) in p.COUNTRY_CODE_TO_REGION_CODE
    return bool(groups) and is_all and "+" not in before and not code


def as_number(number: str, rng: random.Random) -> str:
    """A phone number as a column of numbers has it: with decimals, an exponent or groups."""
    value = int(number.removeprefix("+"))
    point = rng.choice(".,")
    text = rng.choice(
        [
            f"{value}.{'0' * rng.randrange(1, 7)}",
            f"{value}.{rng.randrange(100)}",
            f"{value:.{rng.randrange(12)}e}",
            f"{value:,}",
            f"{value:,}.00",
            f"{value:,}".replace(",", rng.choice(".' ")),
            f"{value:,}".replace(",", " ") + ".00",
        ]
    )
    if point == ",":
        text = text.translate(str.maketrans(".,", ",."))
    text = rng.choice(["", "", "+", "-", "'", "00", "$"]) + text
    return (
        digits_from(text, rng.choice(list(OTHER_DIGITS.values()))) if rng.random() < 0.1 else text
    )


def unmarked(text: str) -> str:
    """The text without white space around it, and without apostrophes in front."""
    return text.lstrip(WHITE_SPACE + "'").rstrip(WHITE_SPACE)


def read(text: str, region: str) -> str | None:
    """A valid number as libphonenumber reads it."""
    import phonenumbers as p

    try:
        number = p.parse(text, region)
    except p.NumberParseException:
        return None
    return e164(number) if p.is_valid_number(number) else None


# Regions in which a national number is always written with its zero.
WITH_ZERO = (
    "AT AU BA BE BG CH DE FI FR GB GG HR IE IM JE JP KR ME MK NL NZ RO RS SE SI SK TW UA ZA".split()
)


def is_ambiguous(text: str, region: str) -> bool:
    """Whether digits alone are one number, and another one behind a plus sign."""
    import phonenumbers as p

    text = in_ascii(text)
    digits = re.sub("[ ./()-]", "", text)
    if not re.fullmatch("[1-9][0-9]*", digits):
        return False
    own = digits.startswith(str(p.country_code_for_region(region)))
    if not own and region not in WITH_ZERO:
        return False
    other = read(f"+{digits}", region)
    return other is not None and other != read(digits, region)


def phone_of(text: str, region: str) -> str | None:
    text = text.translate(INVISIBLE).translate(dict.fromkeys(map(ord, WHITE_SPACE[6:]), " "))
    text = unmarked(text)
    if is_number_form(text):
        return None
    number = read(text, region)
    return None if number and is_ambiguous(text, region) else number


def example_readings(numbers: list[tuple[str, str, str]]) -> Iterator[tuple[str, str, str | None]]:
    """Profile, text and expected result. With a country code, the region must not matter."""
    import phonenumbers as p

    for region, _, number in numbers:
        for text in writings(p.parse(number)):
            regions = [*READ_IN, *({region} - {*READ_IN, "001"})]
            national = digits_from(text, ord("0"))[0] != "+" and "+" not in text
            for read_in in regions:
                expected = phone_of(text, read_in) if national else number
                yield f"phone:{read_in}", text, expected


def random_readings(
    numbers: list[tuple[str, str, str]], rng: random.Random, count: int
) -> Iterator[tuple[str, str, str | None]]:
    import phonenumbers as p

    regions = sorted(p.SUPPORTED_REGIONS)
    while count > 0:
        region, _, text = rng.choice(numbers)
        last = rng.randrange(7)
        text = text[: len(text) - last] + "".join(rng.choice("0123456789") for _ in range(last))
        try:
            written = rng.choice(list(writings(p.parse(text))))
        except p.NumberParseException:
            continue
        text = as_number(text, rng) if rng.random() < 0.1 else written
        if rng.random() < 0.6:
            text = damaged(text, PHONE_PIECES, rng)
        if region == "001" or rng.random() < 0.5:
            region = rng.choice(regions)
        expected = phone_of(text, region)
        # A canonical text is a fixed point; libphonenumber's are not in a few odd cases.
        if expected is not None and phone_of(expected, region) != expected:
            expected = None
        yield f"phone:{region}", text, expected
        count -= 1


def damaged(text: str, pieces: list[str], rng: random.Random) -> str:
    parts = list(text)
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 5))):
        at = rng.randrange(len(parts) + 1)
        action = rng.random()
        if action < 0.5 or at == len(parts):
            parts.insert(at, rng.choice(pieces))
        elif action < 0.7:
            parts.pop(at)
        elif action < 0.9:
            parts[at] = rng.choice(pieces)
        else:
            parts = parts[at:] + parts[:at]
    return "".join(parts)


def phone_vectors(numbers: list[tuple[str, str, str]]) -> dict:
    import phonenumbers as p

    form = p.PhoneNumberFormat
    rows = []
    for region, kind, number in numbers:
        if kind not in ("fixed_line", "mobile", "fixed_line_or_mobile", "non_geographic"):
            continue
        parsed = p.parse(number)
        national = p.format_number(parsed, form.NATIONAL)
        regions = READ_IN if region in (*READ_IN, "001") else [*READ_IN, region]
        read = {r: phone_of(national, r) for r in regions}
        rows.append(
            {
                "region": region,
                "number": number,
                "international": p.format_number(parsed, form.INTERNATIONAL),
                "national": national,
                "national_read_in": {r: n for r, n in read.items() if n is not None},
            }
        )
    about = (
        "Example numbers of every region. Whatever the region, number and international form read as "
        "the number; the national form reads as given, and is invalid in the other regions of read_in."
    )
    source = f"scripts/compare_profiles.py --write-vectors, with {PACKAGES[0]} from PyPI"
    return {
        "about": about,
        "profile": "phone/4",
        "source": source,
        "read_in": READ_IN,
        "numbers": rows,
    }


# Texts and e-mail addresses.


def assigned_here(text: str) -> bool:
    """Whether str.casefold() knows all characters: Python's Unicode may be older than the profile's."""
    import unicodedata

    return all(unicodedata.category(c) != "Cn" for c in text)


def readable(text: str) -> str:
    """The text without invisible characters, but for joiners within words and emoji."""

    def joins(c: str) -> bool:
        return c >= "\u0590" and not "\u2000" <= c <= "\u206f" and c not in WHITE_SPACE

    kept, joiner = "", ""
    for c in text:
        if c in "\u200c\u200d":
            joiner = c
        elif ord(c) not in INVISIBLE:
            kept += (joiner if kept and joins(kept[-1]) and joins(c) else "") + c
            joiner = ""
    return kept


def text_of(text: str) -> str | None:
    import unicodedata2 as u

    before = None
    while text != before:
        before = text
        text = u.normalize("NFD", readable(text)).translate(TYPED)
        for _ in range(2):
            text = u.normalize("NFKC", text.casefold())
        text = text.translate(TYPED)
    return unmarked(" ".join(part for part in re.split(f"[{WHITE_SPACE}]+", text) if part)) or None


LETTERS = {
    "æ": "ae",
    "œ": "oe",
    "ø": "o",
    "ł": "l",
    "đ": "d",
    "ð": "d",
    "þ": "th",
    "ħ": "h",
    "ŧ": "t",
}
LETTERS = str.maketrans(LETTERS | {"\u0131": "i"} | dict.fromkeys(map(chr, range(0x300, 0x370))))
APOSTROPHES = dict.fromkeys(
    [0x27, 0x60, *range(0x2B9, 0x2C0), *range(0x2018, 0x201C), 0x2032],
)
PUNCTUATION = dict.fromkeys(
    [
        *(ord(c) for c in '!"#$%&()*+,-./:;<=>?@[\\]^_{|}~'),
        *(*range(0xA1, 0xAA), *range(0xAB, 0xB2), *range(0xB4, 0xB9), 0xBB, 0xBF, 0xD7, 0xF7),
        *(*range(0x2010, 0x2028), *range(0x2030, 0x205F), *range(0x2E00, 0x2E80)),
        *(*range(0x3001, 0x3005), *range(0x3008, 0x3021), 0x3030, 0x2212, 0x30FB),
    ],
    " ",
)
HONORIFICS = set(
    "mr mrs ms miss mx mister dr doctor prof professor sir dame rev reverend herr frau mme mlle madame mademoiselle "
    "monsieur sr sra srta senor senora senorita signor signora mevr mevrouw dhr".split()
)
SUFFIXES = dict.fromkeys("jr jnr sr snr ii iii iv 2nd 3rd 4th".split(), 1) | {
    "junior": 2,
    "senior": 2,
}


def name_of(text: str) -> str | None:
    """The words of a whole name."""
    import unicodedata2 as u

    text = text.translate(INVISIBLE).replace("\u00b4", "'")
    for _ in range(2):
        text = u.normalize("NFKD", u.normalize("NFKD", text).casefold())
        text = u.normalize("NFKC", text.translate(LETTERS).translate(APOSTROPHES))

    def plain(text: str) -> list[str]:
        text = text.translate(PUNCTUATION)
        return [word for word in re.split(f"[{WHITE_SPACE}]+", text) if word]

    words = plain(re.sub(r"\([^)]*\)|\[[^\]]*\]|\{[^}]*\}", " ", text)) or plain(text)
    while len(words) > 1 and words[0] in HONORIFICS:
        words.pop(0)
    while len(words) > SUFFIXES.get(words[-1] if words else "", len(words)):
        words.pop()
    return " ".join(words) or None


def local_of(local: str) -> str | None:
    import unicodedata2 as u

    quoted = len(local) > 2 and local[0] == local[-1] == '"'
    if not local or ("@" in local and not quoted):
        return None
    if any(c in WHITE_SPACE or u.category(c) == "Cc" for c in local):
        return None
    if not local.isascii():
        local = u.normalize("NFC", u.normalize("NFC", local).casefold())
    local = local.lower() if local.isascii() else local
    return local if len(local.encode()) <= 64 else None


def domain_of(domain: str) -> str | None:
    """UTS #46 ToASCII with the tables of idna: not transitional, STD3, hyphens at the ends, lengths.

    Not idna.encode(), which is IDNA 2008: that refuses symbols and emoji, which UTS #46 keeps.
    """
    import idna
    import unicodedata2 as u

    try:
        mapped = idna.uts46_remap(domain, std3_rules=True, transitional=False)
    except idna.IDNAError:
        return None
    labels = []
    for label in mapped.split("."):
        if label.startswith("xn--"):
            try:
                decoded = label[4:].encode("ascii").decode("punycode")
                remapped = idna.uts46_remap(decoded, std3_rules=True, transitional=False)
            except (idna.IDNAError, UnicodeError):
                return None
            if remapped != decoded or decoded.isascii() or u.normalize("NFC", decoded) != decoded:
                return None
            label = decoded
        labels.append(label)
    bidi = any(u.bidirectional(c) in ("R", "AL", "AN") for label in labels for c in label)
    result = []
    for label in labels:
        if not label or label[0] == "-" or label[-1] == "-" or u.category(label[0])[0] == "M":
            return None
        try:
            for at, character in enumerate(label):
                if character in "\u200c\u200d" and not idna.valid_contextj(label, at):
                    return None
            if bidi:
                idna.check_bidi(label, check_ltr=True)
        except (idna.IDNAError, ValueError):
            return None
        if not label.isascii():
            label = "xn--" + label.encode("punycode").decode("ascii")
        if len(label) > 63:
            return None
        result.append(label)
    domain = ".".join(result)
    return domain if len(domain) <= 253 else None


def email_of(text: str) -> str | None:
    local, at, domain = text.rpartition("@")
    text = unmarked(local.translate(INVISIBLE) + at + readable(domain))
    double, single = "\u201c\u201d\u201e\u201f\u00ab\u00bb\u2039\u203a", "\u2018\u2019\u201a\u201b"
    while text[:7].lower() == "mailto:":
        text = unmarked(text[7:])
    local, at, domain = text.rpartition("@")
    quoted = any(c in text for c in double) or any(c in single for c in text[:1] + domain)
    local, domain = local_of(local), domain_of(domain.removesuffix("."))
    if quoted:
        return None
    return f"{local}@{domain}" if at and local is not None and domain is not None else None


def random_text(rng: random.Random, pieces: list[str], most: int) -> str:
    def piece() -> str:
        if rng.random() < 0.7:
            return rng.choice(pieces)
        code = rng.randrange(0x20, rng.choice((0x250, 0x3000, 0x10000, 0x20000)))
        return "?" if 0xD800 <= code < 0xE000 else chr(code)

    return "".join(piece() for _ in range(rng.randrange(most)))


def other_readings(rng: random.Random, count: int) -> Iterator[tuple[str, str, str | None]]:
    for code in range(0x110000):
        c = chr(code)
        # Of the large blocks of ideographs, syllables and private characters, one in a hundred.
        if (
            code < 0x3400
            or 0xA000 <= code < 0xAC00
            or 0xF900 <= code < 0x17000
            or 0x1AFF0 <= code < 0x20000
        ):
            sampled = True
        else:
            sampled = 0x2F800 <= code < 0x2FA20 or 0xE0000 <= code < 0xE0200 or code % 100 == 0
        if sampled and assigned_here(c) and not 0xD800 <= code < 0xE000:
            yield "text", f"A{c}\u0301b", text_of(f"A{c}\u0301b")
            yield "name", f"A{c}b", name_of(f"A{c}b")
            yield "email", f"a{c}b@x.org", email_of(f"a{c}b@x.org")
            yield "email", f"a@x{c}y.org", email_of(f"a@x{c}y.org")
    for _ in range(count):
        text = random_text(rng, TEXT_PIECES, 12)
        address = (
            (random_text(rng, TEXT_PIECES, 3) or "a") + "@" + random_text(rng, DOMAIN_PIECES, 8)
        )
        if assigned_here(text):
            yield "text", text, text_of(text)
            name = "".join(rng.choice([*NAME_PIECES, text]) for _ in range(rng.randrange(6)))
            yield "name", name, name_of(name)
        if assigned_here(address):
            yield "email", address, email_of(address)
        yield "exact", text, text or None
        digest = hashlib.sha256(text.encode()).hexdigest()
        digest = "".join(c.upper() if rng.random() < 0.3 else c for c in digest)
        if rng.random() < 0.5:
            digest = damaged(digest, TEXT_PIECES, rng)
        stripped = digest.strip(WHITE_SPACE)
        valid = re.fullmatch("[0-9a-fA-F]{64}", stripped)
        yield "sha256-hex", digest, stripped.lower() if valid else None


def compare(name: str, readings: Iterator[tuple[str, str, str | None]]) -> bool:
    """Whether the profiles give what is expected of every reading."""
    readings = list(readings)
    command = [CARGO, "run", "--quiet", "--locked", "--package", "vesica-tables"]
    lines = "".join(json.dumps([profile, text]) + "\n" for profile, text, _ in readings)
    done = subprocess.run(
        [*command, "--example", "normalize"],
        check=False,
        cwd=ROOT,
        input=lines.encode(),
        stdout=subprocess.PIPE,
    )
    if done.returncode != 0:
        return False
    results = [json.loads(line) for line in done.stdout.decode().split("\n")[:-1]]
    assert len(results) == len(readings)
    wrong = [(*r, got) for r, got in zip(readings, results) if r[2] != got]
    lost = sum(got is None for *_, got in wrong)
    invented = sum(expected is None for _, _, expected, _ in wrong)
    valid = sum(expected is not None for _, _, expected in readings)
    say(f"{name}: {len(readings)} readings, {valid} valid, {len(wrong)} differ")
    if wrong:
        changed = len(wrong) - lost - invented
        say(f"  refused {lost}, changed {changed}, accepted though invalid {invented}")
    for profile, text, expected, got in wrong[:: max(1, len(wrong) // 20)]:
        say(f"  {profile} {text!a}: {expected!a} expected, {got!a} found")
    return not wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--count", type=int, default=100_000, help="random readings of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=["examples", "random", "others"])
    parser.add_argument("--write-vectors", action="store_true")
    arguments = parser.parse_args()
    try:
        import idna  # noqa: F401
        import phonenumbers  # noqa: F401
        import unicodedata2  # noqa: F401
    except ImportError:
        python = environment()
        return 1 if python is None else run([python, "-B", __file__, *sys.argv[1:]])
    numbers = examples()
    if arguments.write_vectors:
        vectors = phone_vectors(numbers)
        rows = ",\n".join("  " + json.dumps(row) for row in vectors.pop("numbers"))
        head = json.dumps(vectors, indent=1).removesuffix("\n}")
        path = ROOT / "vectors" / "phone.json"
        path.write_text(f'{head},\n "numbers": [\n{rows}\n ]\n}}\n', encoding="utf-8")
        say(f"{path.relative_to(ROOT)} written")
        return 0
    rng = random.Random(arguments.seed)
    stages = {
        "examples": lambda: example_readings(numbers),
        "random": lambda: random_readings(numbers, rng, arguments.count),
        "others": lambda: other_readings(rng, arguments.count),
    }
    chosen = [arguments.only] if arguments.only else list(stages)
    results = [compare(name, stages[name]()) for name in chosen]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
