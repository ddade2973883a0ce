//! What programs and people make of values before they come into a table.

use crate::profile::hashed::of_base64;
use crate::profile::invisible::is_quotation_mark;

/// Whether a text has quotation marks, or begins as spreadsheets mark texts: `'007` and `="007"`.
pub(super) fn has_marks(text: &str) -> bool {
    text.contains(is_quotation_mark) || text.trim_start().starts_with('\'')
}

/// Whether a text is several values with one separator between them, each usable alone.
pub(super) fn is_list(text: &str, is_usable: impl Fn(&str) -> bool) -> bool {
    [';', ',', '|', '\n'].iter().any(|separator| {
        let values = text.split(*separator).map(str::trim);
        let mut values = values.filter(|part| !part.is_empty()).peekable();
        let first = values.next_if(|part| is_usable(part));
        first.is_some() && values.peek().is_some() && values.all(&is_usable)
    })
}

/// Whether a text begins with `mailto:`.
pub(super) fn has_scheme(text: &str) -> bool {
    const SCHEME: &str = "mailto:";
    let start = text.trim_start_matches(|c: char| c == '\'' || c.is_whitespace());
    let start = start.get(..SCHEME.len());
    start.is_some_and(|start| start.eq_ignore_ascii_case(SCHEME))
}

fn are_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// Whether a text is a number with an exponent, or with separators between groups of digits: `1.23E+12`, `1,234`,
/// `1.234,50`.
pub(super) fn is_formatted_number(text: &str) -> bool {
    let number = text.trim();
    if !number.ends_with(|c: char| c.is_ascii_digit()) {
        return false;
    }
    let number = number.trim_start_matches(['-', '+']);
    if let Some((mantissa, exponent)) = number.split_once(['e', 'E']) {
        let digits = exponent.trim_start_matches(['-', '+']);
        let is_signed = digits.len() < exponent.len();
        let mut parts = mantissa.splitn(2, ['.', ',']);
        let is_number = parts.clone().all(are_digits);
        return are_digits(digits) && is_number && (is_signed || parts.nth(1).is_some());
    }
    [(',', "."), ('\'', "."), ('.', ",")]
        .into_iter()
        .any(|(group, point)| {
            let (whole, decimals) = match number.split_once(point) {
                Some((whole, decimals)) => (whole, Some(decimals)),
                None => (number, None),
            };
            let mut groups = whole.split(group);
            let first = groups.next().unwrap_or_default();
            let others: Vec<&str> = groups.collect();
            let are_groups = (1..=3).contains(&first.len()) && are_digits(first);
            // A point alone, as in 1.234, may be before decimals.
            let is_clear = group != '.' || decimals.is_some();
            let is_group = |text: &&str| text.len() == 3 && are_digits(text);
            are_groups
                && is_clear
                && !others.is_empty()
                && others.iter().all(is_group)
                && decimals.is_none_or(are_digits)
        })
}

/// Whether a text is a day in an order that differs by country, or without zeros in front: `31.12.1984`, `12/31/84`,
/// `1984-1-2`. A time may follow.
pub(super) fn is_local_date(text: &str) -> bool {
    let text = text.trim();
    let day = text.split([' ', 'T']).next().unwrap_or_default();
    let Some(separator) = day.chars().find(|c| !c.is_ascii_digit()) else {
        return false;
    };
    let parts: Vec<&str> = day.split(separator).collect();
    let [first, second, third] = parts[..] else {
        return false;
    };
    let lengths = [first.len(), second.len(), third.len()];
    let is_short = |length: usize| (1..=2).contains(&length);
    let (is_year_first, is_year_last) = (lengths[0] == 4, matches!(lengths[2], 2 | 4));
    let has_form = is_short(lengths[1])
        && (is_year_first && is_short(lengths[2]) || is_year_last && is_short(lengths[0]));
    let is_canonical = separator == '-' && lengths == [4, 2, 2];
    matches!(separator, '.' | '/' | '-')
        && parts.iter().all(|part| are_digits(part))
        && has_form
        && !is_canonical
}

/// Whether a text is 64 hexadecimal digits, as of SHA-256.
pub(super) fn is_hex_digest(text: &str) -> bool {
    let text = text.trim();
    text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Whether a text is Base64 of 32 bytes.
pub(super) fn is_base64_digest(text: &str) -> bool {
    of_base64(text.trim()).is_some()
}

/// How the rows begin that stand below a table.
const BELOW_TABLES: [&str; 22] = [
    "total",
    "grand total",
    "subtotal",
    "sub-total",
    "sum:",
    "summe",
    "gesamt",
    "copyright",
    "(c) ",
    "\u{a9}",
    "confidential",
    "strictly confidential",
    "generated ",
    "report ",
    "exported ",
    "printed ",
    "end of ",
    "page ",
    "source:",
    "note:",
    "rows: ",
    "row count",
];

/// Whether a text is like those that stand below a table.
pub(super) fn is_footer(text: &str) -> bool {
    let text = text.trim();
    BELOW_TABLES.iter().any(|begin| {
        let start = text.get(..begin.len());
        let behind = text.get(begin.len()..).and_then(|rest| rest.chars().next());
        // No part of a word.
        let ends =
            !begin.ends_with(char::is_alphanumeric) || !behind.is_some_and(char::is_alphanumeric);
        ends && behind != Some('@') && start.is_some_and(|start| start.eq_ignore_ascii_case(begin))
    })
}

/// Addresses that people write who have none.
const ADDRESSES: [&str; 18] = [
    "test@test.com",
    "test@test.de",
    "test@gmail.com",
    "a@a.com",
    "a@b.com",
    "aa@aa.com",
    "abc@abc.com",
    "admin@admin.com",
    "asdf@asdf.com",
    "email@email.com",
    "na@na.com",
    "name@domain.com",
    "no@no.com",
    "none@none.com",
    "nomail@nomail.com",
    "user@domain.com",
    "x@x.com",
    "xxx@xxx.com",
];

/// Mailboxes that belong to nobody, at any domain.
const MAILBOXES: [&str; 8] = [
    "noreply",
    "no-reply",
    "no_reply",
    "donotreply",
    "do-not-reply",
    "noemail",
    "no-email",
    "nomail",
];

/// The first and last days of calendars and programs.
const DAYS: [&str; 14] = [
    "0001-01-01",
    "1111-11-11",
    "1753-01-01",
    "1899-12-30",
    "1899-12-31",
    "1900-01-01",
    "1970-01-01",
    "9999-12-31",
    "01/01/1900",
    "01.01.1900",
    "01/01/1970",
    "01.01.1970",
    "12/31/9999",
    "31.12.9999",
];

/// Whether a text is an address, a phone number or a day that stands for none.
pub(super) fn is_placeholder(text: &str) -> bool {
    let text = text.trim().trim_start_matches('\'');
    if let Some((mailbox, _)) = text.split_once('@') {
        let is_text = |own: &&str| own.eq_ignore_ascii_case(text);
        let mut mailboxes = MAILBOXES.iter();
        return mailboxes.any(|own| own.eq_ignore_ascii_case(mailbox))
            || ADDRESSES.iter().any(is_text);
    }
    let day = text.get(..10).filter(|_| {
        let behind = text.as_bytes().get(10);
        behind.is_none_or(|b| matches!(b, b' ' | b'T'))
    });
    day.is_some_and(|day| DAYS.contains(&day)) || is_placeholder_number(text)
}

/// Whether a text has at least seven digits, and these are all the same, or count up.
fn is_placeholder_number(text: &str) -> bool {
    if !text
        .bytes()
        .all(|b| b.is_ascii_digit() || b" +-()/.".contains(&b))
    {
        return false;
    }
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_digit).collect();
    let mut pairs = digits.windows(2);
    let steps = |step: u8| move |pair: &[u8]| (pair[0] - b'0' + step) % 10 == pair[1] - b'0';
    digits.len() >= 7 && (pairs.clone().all(steps(0)) || pairs.all(steps(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn each(holds: fn(&str) -> bool, yes: &[&str], no: &[&str]) {
        for text in yes {
            assert!(holds(text), "{text:?}");
        }
        for text in no {
            assert!(!holds(text), "{text:?}");
        }
    }

    #[test]
    fn marks_and_schemes() {
        each(
            has_marks,
            &["\"a\"", " \"a@x.org\"", "'007", "=\"007\"", "a\"b"],
            &["", "O'Neil", "a", "007"],
        );
        each(
            has_scheme,
            &["mailto:a@x.org", "'MailTo:a@x.org", " mailto:"],
            &["a@x.org", "mail", "", "mailté"],
        );
    }

    #[test]
    fn numbers_and_dates_of_spreadsheets() {
        each(
            is_formatted_number,
            &[
                "1,234",
                "1.23E+12",
                "1E+12",
                "4,93e11",
                "-1,234,567.89",
                "1.234,50",
                "1'234",
            ],
            &[
                "",
                "1234",
                "1.234",
                "12E34",
                "1,23",
                "192.168.100.200",
                "1,234,",
                "a1,234",
                "e",
                "E+1",
            ],
        );
        each(
            is_local_date,
            &[
                "31.12.1984",
                "12/31/1984",
                "1984-1-2",
                "31-12-84",
                "12/31/1984 00:00",
                "1984/01/02",
            ],
            &[
                "1984-01-02",
                "1984-01-02 00:00:00",
                "1.2.3.4",
                "31.12",
                "",
                "1234-56",
                "12.12.123",
                "é",
            ],
        );
    }

    #[test]
    fn digests() {
        each(
            is_hex_digest,
            &[&"aB".repeat(32), &format!(" {} ", "0".repeat(64))],
            &["", "ab", &"g".repeat(64), &"a".repeat(65)],
        );
        each(
            is_base64_digest,
            &["tMmiiTI7IaAcPpQPFQ65uMVCWH8av9jw4cwf/F5HVRQ="],
            &["", "tMmiiTI7IaAcPpQPFQ65uMVCWH8av9jw4cwf/F5HVRQ"],
        );
    }

    #[test]
    fn what_stands_below_tables() {
        each(
            is_footer,
            &[
                "Total",
                "TOTAL: 12",
                "Copyright (c) 2026, X",
                "(c) X",
                "\u{a9} X",
                "Confidential",
                "Grand total",
            ],
            &["", "Totally", "total@x.org", "Pagella", "Sumner", "Ann"],
        );
    }

    #[test]
    fn lists_are_of_values_that_are_usable_alone() {
        let is_usable = |part: &str| part.contains('@');
        for text in ["a@x; b@x", "a@x,b@x,", "a@x\nb@x", " a@x | b@x | c@x"] {
            assert!(is_list(text, is_usable), "{text}");
        }
        for text in ["", ";", "a@x", "a@x;", "a@x; b", "a; b@x", "a@x; b@x; c"] {
            assert!(!is_list(text, is_usable), "{text}");
        }
    }

    #[test]
    fn placeholders() {
        each(
            is_placeholder,
            &[
                "test@test.com",
                " TEST@test.com",
                "noreply@x.org",
                "No-Reply@shop.example",
                "0000000000",
                "+1 111 1111111",
                "1234567890",
                "(012) 345-6789",
                "1900-01-01",
                "1900-01-01 00:00:00",
                "01.01.1900",
                "9999-12-31T00:00:00Z",
            ],
            &[
                "",
                "ann@x.org",
                "reply@x.org",
                "0000",
                "1900-01-02",
                "1900-01-010",
                "202 555 0123",
                "7",
            ],
        );
    }
}
