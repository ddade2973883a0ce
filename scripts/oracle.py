"""What docs/tables.md says of keys and texts, in Python: the oracle of campaign.py. No code of the project.

Phone numbers, texts and e-mail addresses are normalised by the packages that compare_profiles.py compares with.
"""

from __future__ import annotations

import hashlib
import ipaddress
import math
import re
import struct
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Union

from compare_profiles import WHITE_SPACE, email_of, phone_of, text_of

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
EPOCH = datetime(1970, 1, 1)
CYCLE = 146097  # days of 400 years
LAST_WHOLE = {"float": 2**53, "float32": 2**24}
CLASSES = {
    "integer": "integer",
    "decimal": "decimal",
    "time": "time",
    "timestamp": "time",
    "bytes": "bytes",
}


@dataclass(frozen=True)
class Cell:
    """A value with its kind: text, number (of JSON, as written), integer, decimal, bool, date, time, timestamp, uuid,
    bytes, float, float32, null or nested. Days, and nanoseconds since midnight or 1970, are integers."""

    kind: str
    value: Any = None


NULL = Cell("null")


class Blank(Exception):
    """The value is blank."""


class Invalid(Exception):
    """The value does not fit its profile."""


class Refused(Exception):
    """The docs say that the table is refused."""


def fraction(nanoseconds: int) -> str:
    """None, three, six or nine decimals: the fewest that suffice."""
    if nanoseconds == 0:
        return ""
    digits = f"{nanoseconds:09}"
    return "." + next(digits[:n] for n in (3, 6, 9) if not int(digits[n:] or 0))


def moment(nanoseconds: int) -> str:
    """The canonical text of an instant in the years 0 to 9999."""
    seconds, rest = divmod(nanoseconds, 10**9)
    # Python's years begin with 1, and the calendar repeats.
    cycles = int(seconds < 0)
    try:
        when = EPOCH + timedelta(days=CYCLE * cycles, seconds=seconds)
    except OverflowError:
        raise Invalid from None
    year = when.year - 400 * cycles
    if year < 0:
        raise Invalid
    return f"{year:04}{when.isoformat()[4:]}{fraction(rest)}Z"


def text_form(cell: Cell) -> str:
    """The canonical text of a value that is not null; floats and bytes have none here."""
    kind, value = cell.kind, cell.value
    if kind in ("text", "number"):
        return value
    if kind == "integer":
        return str(value)
    if kind == "decimal":
        return f"{value:f}"
    if kind == "bool":
        return "true" if value else "false"
    if kind == "date":
        return (date(1970, 1, 1) + timedelta(days=value)).isoformat()
    if kind == "time":
        seconds, rest = divmod(value, 10**9)
        return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{fraction(rest)}"
    if kind == "timestamp":
        return moment(value)
    if kind == "uuid":
        return str(uuid.UUID(bytes=value))
    raise Refused(f"{kind} as text")


def by_value(number: Decimal) -> str:
    """Digits without zeros at the end of the decimals."""
    text = f"{number:f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


def fits(pattern: str, text: str) -> re.Match[str]:
    match = re.fullmatch(pattern, text, re.ASCII)
    if match is None:
        raise Invalid
    return match


def integer(text: str) -> str:
    fits(r"[+-]?\d+(\.0+)?", text)
    return str(int(text.partition(".")[0]))


def bounded(text: str, bits: int) -> str:
    fits(r"\d+", text)
    if int(text) >> bits:
        raise Invalid
    return str(int(text))


def decimal(text: str) -> str:
    fits(r"[+-]?(\d+\.?\d*|\.\d+)", text)
    return by_value(Decimal(text))


def day(text: str) -> int:
    """The day of a date as `2024-02-29`, counted from 1970."""
    year, month, of_month = (int(part) for part in fits(r"(\d{4})-(\d\d)-(\d\d)", text).groups())
    cycles = int(year < 1970)
    try:
        when = date(year + 400 * cycles, month, of_month)
    except ValueError:
        raise Invalid from None
    return (when - date(1970, 1, 1)).days - CYCLE * cycles


def timestamp(text: str, unit: str) -> str:
    if unit and re.fullmatch(r"-?\d+", text, re.ASCII):
        if not -(2**63) <= int(text) < 2**63:
            raise Invalid
        return moment(int(text) * (10**9 // PER_SECOND[unit]))
    clock = r"([01]\d|2[0-3]):([0-5]\d)(?::([0-5]\d)(?:\.(\d{1,9})0*)?)?"
    zone = r"[Zz]| UTC| ?[+-](?:[01]\d|2[0-3])(?::?[0-5]\d)?"
    found = fits(rf"([\d-]{{10}})(?:[Tt ]{clock}({zone})?)?", text)
    when, hour, minute, second, digits, ahead = found.groups()
    offset = 0
    if ahead and ahead.strip()[0] in "+-":
        part = ahead.strip()[1:].replace(":", "")
        offset = int(part[:2]) * 3600 + int(part[2:] or 0) * 60
        offset = -offset if "-" in ahead else offset
    seconds = int(hour or 0) * 3600 + int(minute or 0) * 60 + int(second or 0) - offset
    total = day(when) * 86400 + seconds
    return moment(total * 10**9 + int((digits or "0").ljust(9, "0")))


def calendar(text: str) -> str:
    """The profile `date`."""
    when, rest = fits(r"(\d{4}-\d\d-\d\d|\d{8})(.*)", text).groups()
    if rest:
        fits(r"[T ]00:00(:00)?(\.0+)?(Z| UTC|\+00(:?00)?)?", rest)
    when = when if "-" in when else f"{when[:4]}-{when[4:6]}-{when[6:]}"
    day(when)
    return when


def unique(text: str) -> str:
    digits = r"[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    match = fits(rf"({digits})|\{{({digits})\}}|urn:uuid:({digits})", text.lower())
    return str(uuid.UUID(next(group for group in match.groups() if group)))


def ipv4(text: str) -> str:
    try:
        return str(ipaddress.IPv4Address(int(text) if re.fullmatch("[0-9]+", text) else text))
    except ValueError:
        raise Invalid from None


def ipv6(text: str) -> str:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise Invalid from None
    if "%" in text:
        raise Invalid
    if address.version == 4:
        return f"::ffff:{address}"
    mapped = address.ipv4_mapped
    return str(address) if mapped is None else f"::ffff:{mapped}"


def digest(text: str) -> str:
    return fits(r"[0-9a-f]{64}", text.lower()).group()


def found(normal: str | None) -> str:
    if normal is None:
        raise Invalid
    return normal


def paired(text: str, normal: Callable[[str], str]) -> str:
    if re.fullmatch(r"[0-9a-fA-F]{64}", text):
        return text.lower()
    return hashlib.sha256(normal(text).encode()).hexdigest()


def mail(text: str) -> str:
    """An address as PAIR has it: ASCII letters in lower case."""
    local, _, domain = text.rpartition("@")
    if not local or not domain or set(text) & set(WHITE_SPACE):
        raise Invalid
    return re.sub("[A-Z]", lambda letter: letter.group().lower(), text)


def of_text(name: str, parameter: str, text: str) -> str:
    rules: dict[str, Callable[[str], str]] = {
        "text": lambda text: text_of(text) or "",
        "email": lambda text: found(email_of(text)),
        "phone": lambda text: found(phone_of(text, parameter)),
        "sha256-hex": digest,
        "pair-email": lambda text: paired(text, mail),
        "pair-phone": lambda text: paired(text, lambda text: found(phone_of(text, parameter))),
        "ipv4": ipv4,
        "ipv6": ipv6,
        "integer": lambda text: bounded(text, int(parameter)) if parameter else integer(text),
        "decimal": decimal,
        "timestamp": lambda text: timestamp(text, parameter),
        "date": calendar,
        "uuid": unique,
    }
    return rules[name](text)


def normal(profile: str, cell: Cell, nulls: frozenset[str] = frozenset()) -> bytes:
    """The canonical bytes of a value under a profile, such as `phone:GB` or `exact/1`."""
    name, _, parameter = profile.partition(":")
    if cell.kind == "null":
        raise Blank
    if cell.kind in LAST_WHOLE:
        if name != "integer":
            raise Refused("floats are refused")
        if math.isnan(cell.value):
            raise Blank
        if cell.value % 1 or abs(cell.value) >= LAST_WHOLE[cell.kind]:
            raise Invalid
        cell = Cell("text", str(int(cell.value)))
    if cell.kind == "nested":
        raise Refused("lists, structs, maps and durations are refused")
    if cell.kind == "number" and not re.fullmatch(r"-?\d+", cell.value):
        if name not in ("integer", "decimal"):
            raise Refused("numbers of JSON with a point are floats")
        if "e" in cell.value.lower():
            raise Invalid
    if cell.kind == "number" and name == "integer" and "." in cell.value:
        # A float, of which integers take whole numbers only.
        return normal(profile, Cell("float", float(cell.value)), nulls)
    if cell.kind == "bytes" and cell.value in {word.encode() for word in nulls}:
        raise Blank
    if cell.kind in ("bytes", "uuid"):
        width = len(cell.value)
        if name == "exact" and cell.kind == "bytes":
            if cell.value == b"":
                raise Blank
            return cell.value
        if width == {"ipv4": 4, "ipv6": 16}.get(name):
            cell = Cell("text", str(ipaddress.ip_address(cell.value)))
        elif width == 16 and name == "uuid":
            cell = Cell("uuid", cell.value)
        elif width == 32 and name in ("sha256-hex", "pair-email", "pair-phone"):
            cell = Cell("text", cell.value.hex())
        elif cell.kind == "bytes":
            cell = Cell("text", cell.value.decode())
    text = text_form(cell)
    if cell.kind == "text" and text in nulls:
        raise Blank
    if name in ("exact", "exact/1", "exact/2"):
        if cell.kind == "decimal" and name != "exact/1":
            text = by_value(cell.value)
    else:
        text = text.strip(WHITE_SPACE)
        if text:
            text = of_text(name, parameter, text)
    if not text:
        raise Blank
    return text.encode()


Key = Union[tuple[bytes, ...], str]


def key(profiles: Sequence[str], row: Sequence[Cell], nulls: frozenset[str]) -> Key:
    """The canonical bytes of a row's key; `blank` or `invalid` if it never matches."""
    parts: list[bytes] = []
    is_invalid = False
    is_blank = False
    for profile, cell in zip(profiles, row):
        try:
            parts.append(normal(profile, cell, nulls))
        except Blank:
            is_blank = True
        except Invalid:
            is_invalid = True
    return "blank" if is_blank else "invalid" if is_invalid else tuple(parts)


def units(cell: Cell, scale: int) -> int:
    """A value in units of its last digit."""
    if cell.kind == "null" or (cell.kind == "text" and not cell.value.strip()):
        raise Refused("a value is null or blank")
    if cell.kind not in ("text", "number", "integer", "decimal"):
        raise Refused(f"a value is {cell.kind}")
    text = text_form(cell)
    if not re.fullmatch(r"[+-]?\d+(\.\d+)?", text, re.ASCII):
        raise Refused("a value is no number")
    number = Decimal(text).scaleb(scale)
    if number != int(number):
        raise Refused("a value has more digits than its scale")
    return int(number)


def printed(count: int, scale: int) -> str:
    """A number of units as text."""
    sign, digits = "-" if count < 0 else "", f"{abs(count):0{scale + 1}}"
    return sign + (f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits)


def is_float(text: str, kind: str, value: float) -> bool:
    """Whether a text is this float in few digits, and reads back as it."""
    try:
        read = float(text)
    except ValueError:
        return False
    if math.isnan(value):
        return text == "NaN"
    code = ">f" if kind == "float32" else ">d"
    return len(text) <= 25 and struct.pack(code, read) == struct.pack(code, value)


def is_text_of(cell: Cell, text: str | None) -> bool:
    """Whether a result in a text format may have this text for a value."""
    if cell.kind == "null" or text is None:
        return cell.kind == "null" and text is None
    if cell.kind in LAST_WHOLE:
        return is_float(text, cell.kind, cell.value)
    return text == (cell.value.hex() if cell.kind == "bytes" else text_form(cell))
