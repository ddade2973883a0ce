//! Texts and e-mail addresses, by the data and rules of Unicode.

use std::borrow::Cow;

use icu_casemap::CaseMapper;
use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};
use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};

use super::Normalized;
use super::invisible::{self, JOINERS, readable, typed};

fn nfc(value: &str) -> Cow<'_, str> {
    const { ComposingNormalizerBorrowed::new_nfc() }.normalize(value)
}

/// Whether a text is in NFC already.
pub(crate) fn is_nfc(value: &str) -> bool {
    value.is_ascii() || const { ComposingNormalizerBorrowed::new_nfc() }.is_normalized(value)
}

pub(super) fn text(value: &str) -> Normalized<'_> {
    let seen = readable(value);
    if seen.is_ascii() {
        let lower = match seen.bytes().any(|b| b.is_ascii_uppercase()) {
            true => Cow::Owned(seen.to_ascii_lowercase()),
            false => seen,
        };
        return unmarked(collapse(lower));
    }
    let mut folded = fold_twice(&seen, typed);
    // A joiner may be beside other letters now.
    while folded.contains(JOINERS) {
        let next = fold_twice(&readable(&folded), typed);
        if next == folded {
            break;
        }
        folded = next;
    }
    borrowed(value, unmarked(collapse(Cow::Owned(folded))))
}

/// The first version of [`text`].
pub(super) fn text_1(value: &str) -> Normalized<'_> {
    if value.is_ascii() {
        if value.bytes().any(|b| b.is_ascii_uppercase()) {
            return collapse(Cow::Owned(value.to_ascii_lowercase()));
        }
        return collapse(Cow::Borrowed(value));
    }
    let visible: String = value.chars().filter(|c| !is_invisible(*c)).collect();
    borrowed(value, collapse(Cow::Owned(fold_twice(&visible, |c| c))))
}

/// The text in NFKC and case folded, and each character as `typed` has it.
fn fold_twice(text: &str, typed: fn(char) -> char) -> String {
    let nfkc = const { ComposingNormalizerBorrowed::new_nfkc() };
    let nfd = const { DecomposingNormalizerBorrowed::new_nfd() };
    let fold = const { CaseMapper::new() };
    // Unicode's compatibility caseless match (D146) folds twice, since compatibility
    // decomposition can bring out characters that have case. What is typed otherwise can come from decomposition, too.
    let decomposed: String = nfd.normalize(text).chars().map(typed).collect();
    let once = nfkc.normalize(&fold.fold_string(&decomposed)).into_owned();
    let twice = nfkc.normalize(&fold.fold_string(&once)).into_owned();
    twice.chars().map(typed).collect()
}

/// The same, borrowed if it is the value.
fn borrowed<'a>(value: &'a str, normalized: Normalized<'a>) -> Normalized<'a> {
    match normalized {
        Normalized::Valid(canonical) if canonical == value => {
            Normalized::Valid(Cow::Borrowed(value))
        }
        other => other,
    }
}

/// Without a spreadsheet's marks in front.
fn unmarked(normalized: Normalized<'_>) -> Normalized<'_> {
    let Normalized::Valid(text) = normalized else {
        return normalized;
    };
    let start = text.len() - invisible::unmarked(&text).len();
    match text {
        _ if start == text.len() => Normalized::Blank,
        Cow::Borrowed(text) => Normalized::Valid(Cow::Borrowed(&text[start..])),
        Cow::Owned(mut text) => {
            text.drain(..start);
            Normalized::Valid(Cow::Owned(text))
        }
    }
}

/// What the first versions of the profiles leave out.
fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}' | '\u{2060}' | '\u{feff}')
}

/// Trims white space and turns each run into one space.
fn collapse(value: Cow<'_, str>) -> Normalized<'_> {
    let tidy = {
        let mut previous = ' ';
        let inner = value.chars().all(|c| {
            let fine = !c.is_whitespace() || (c == ' ' && previous != ' ');
            previous = c;
            fine
        });
        inner && previous != ' '
    };
    if value.is_empty() {
        return Normalized::Blank;
    }
    if tidy {
        return Normalized::Valid(value);
    }
    let mut out = String::with_capacity(value.len());
    for word in value.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    if out.is_empty() {
        Normalized::Blank
    } else {
        Normalized::Valid(Cow::Owned(out))
    }
}

/// The text without invisible characters, which come along when it is copied from a web page.
fn visible(value: &str) -> Cow<'_, str> {
    if value.is_ascii() || !value.contains(is_invisible) {
        Cow::Borrowed(value)
    } else {
        Cow::Owned(value.chars().filter(|c| !is_invisible(*c)).collect())
    }
}

pub(super) fn email(value: &str) -> Normalized<'_> {
    if !invisible::has_invisible(value) {
        return unquoted_email(without_scheme(value));
    }
    // Joiners tell domains apart.
    let address = match value.rsplit_once('@') {
        Some((local, domain)) => {
            let (local, domain) = (invisible::visible(local), invisible::readable(domain));
            format!("{local}@{domain}")
        }
        None => invisible::visible(value).into_owned(),
    };
    unquoted_email(without_scheme(&address)).into_owned()
}

/// An address without typographic quotation marks, but for an apostrophe within its local part: IDNA takes them for symbols of
/// the domain.
fn unquoted_email(address: &str) -> Normalized<'_> {
    let is_single = |c| matches!(c, '\u{2018}'..='\u{201b}');
    let domain = address.rsplit_once('@').map_or("", |(_, domain)| domain);
    // Those of ASCII are valid in a local part, if that is in them.
    let is_quoted = !address.is_ascii()
        && (address.contains(|c: char| !c.is_ascii() && invisible::is_quotation_mark(c))
            || address.starts_with(is_single)
            || domain.contains(is_single));
    match visible_email(address) {
        Normalized::Valid(_) if is_quoted => Normalized::Invalid,
        other => other,
    }
}

/// The first version of [`email`].
pub(super) fn email_1(value: &str) -> Normalized<'_> {
    match visible(value) {
        Cow::Borrowed(value) => visible_email(value),
        Cow::Owned(value) => visible_email(&value).into_owned(),
    }
}

/// What is behind a spreadsheet's marks and `mailto:`, in whatever order they are.
fn without_scheme(value: &str) -> &str {
    const SCHEME: &str = "mailto:";
    let mut rest = invisible::unmarked(value);
    while let Some((scheme, behind)) = rest.split_at_checked(SCHEME.len())
        && scheme.eq_ignore_ascii_case(SCHEME)
    {
        rest = invisible::unmarked(behind);
    }
    rest
}

/// Bytes of a local part, at most: RFC 5321, section 4.5.3.1.1.
const MAX_LOCAL: usize = 64;

/// Whether IDNA does nothing to a domain but to put its letters in lower case: it is ASCII, and no label of it is encoded.
fn is_usual(domain: &str) -> bool {
    let is_usual = |label: &[u8]| {
        let is_fine = |b: &u8| b.is_ascii_alphanumeric() || *b == b'-';
        let has_hyphen = [label.first(), label.last()].contains(&Some(&b'-'));
        let encoded = label
            .get(..4)
            .is_some_and(|prefix| prefix.eq_ignore_ascii_case(b"xn--"));
        (1..=63).contains(&label.len()) && label.iter().all(is_fine) && !has_hyphen && !encoded
    };
    domain.len() <= 253 && domain.as_bytes().split(|b| *b == b'.').all(is_usual)
}

fn visible_email(value: &str) -> Normalized<'_> {
    let trimmed = value.trim();
    if trimmed.is_empty() {
        return Normalized::Blank;
    }
    let Some((local, domain)) = trimmed.rsplit_once('@') else {
        return Normalized::Invalid;
    };
    let quoted = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    if local.is_empty()
        || (local.contains('@') && !quoted)
        || local.chars().any(|c| c.is_whitespace() || c.is_control())
    {
        return Normalized::Invalid;
    }
    let domain = domain.strip_suffix('.').unwrap_or(domain);
    match local.is_ascii() && is_usual(domain) {
        true => usual(trimmed, local, domain),
        false => by_rules(trimmed, local, domain),
    }
}

/// What [`by_rules`] makes of an address whose local part is ASCII and whose domain [is usual](is_usual).
fn usual<'a>(trimmed: &'a str, local: &str, domain: &str) -> Normalized<'a> {
    // Letters of ASCII are as long in either case.
    let address = &trimmed[..local.len() + 1 + domain.len()];
    match address.bytes().any(|b| b.is_ascii_uppercase()) {
        _ if local.len() > MAX_LOCAL => Normalized::Invalid,
        true => Normalized::Valid(Cow::Owned(address.to_ascii_lowercase())),
        false => Normalized::Valid(Cow::Borrowed(address)),
    }
}

fn by_rules<'a>(trimmed: &'a str, local: &str, domain: &str) -> Normalized<'a> {
    let local = match local.is_ascii() {
        true => local.to_ascii_lowercase(),
        false => {
            let folded = const { CaseMapper::new() }
                .fold_string(&nfc(local))
                .into_owned();
            nfc(&folded).into_owned()
        }
    };
    if local.len() > MAX_LOCAL {
        return Normalized::Invalid;
    }
    let ascii = const { Uts46::new() }.to_ascii(
        domain.as_bytes(),
        AsciiDenyList::STD3,
        Hyphens::CheckFirstLast,
        DnsLength::Verify,
    );
    let Ok(domain) = ascii else {
        return Normalized::Invalid;
    };
    let canonical_len = local.len() + 1 + domain.len();
    if canonical_len == trimmed.len() && trimmed.starts_with(&*local) && trimmed.ends_with(&*domain)
    {
        return Normalized::Valid(Cow::Borrowed(trimmed));
    }
    Normalized::Valid(Cow::Owned(format!("{local}@{domain}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3000))]
        #[test]
        fn usual_addresses_are_what_the_rules_make_of_them(
            local in "[!-?A-~]{1,9}|[a-zA-Z]{63,66}",
            domain in "([a-zA-Z0-9-]{1,5}|[xX][nN]?--[a-z0-9]{0,5}|.|[a-z]{62,64})(\\.[a-zA-Z0-9-]{1,64}){0,5}",
            dot in "\\.?",
        ) {
            if is_usual(&domain) {
                let address = format!("{local}@{domain}{dot}");
                prop_assert_eq!(
                    usual(&address, &local, &domain),
                    by_rules(&address, &local, &domain)
                );
            }
        }
    }

    #[test]
    fn what_is_usual() {
        let label = "a".repeat(63);
        let long = [&*label; 4].join(".");
        for (domain, usual) in [
            ("example.org", true),
            ("EXAMPLE.co.uk", true),
            ("1.2-3", true),
            ("xn.x--y", true),
            (&label, true),
            (&long[2..], true),
            (&long, false),
            (&format!("a{label}"), false),
            ("", false),
            ("a..b", false),
            ("a.", false),
            (".a", false),
            ("-a.org", false),
            ("a-.org", false),
            ("a_b.org", false),
            ("xn--mnchen-3ya.de", false),
            ("www.XN--mnchen-3ya.de", false),
            ("m\u{fc}nchen.de", false),
            ("a.b c", false),
        ] {
            assert_eq!(is_usual(domain), usual, "{domain}");
        }
    }
}
