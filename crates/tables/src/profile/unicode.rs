//! Texts and e-mail addresses, by the data and rules of Unicode.

use std::borrow::Cow;

use icu_casemap::CaseMapper;
use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};
use idna::uts46::{AsciiDenyList, DnsLength, Hyphens, Uts46};

use super::Normalized;

fn nfc(value: &str) -> Cow<'_, str> {
    const { ComposingNormalizerBorrowed::new_nfc() }.normalize(value)
}

impl Normalized<'_> {
    fn into_owned(self) -> Normalized<'static> {
        match self {
            Normalized::Valid(text) => Normalized::Valid(Cow::Owned(text.into_owned())),
            Normalized::Blank => Normalized::Blank,
            Normalized::Invalid => Normalized::Invalid,
        }
    }
}

/// Whether a text is in NFC already.
pub(crate) fn is_nfc(value: &str) -> bool {
    value.is_ascii() || const { ComposingNormalizerBorrowed::new_nfc() }.is_normalized(value)
}

pub(super) fn text(value: &str) -> Normalized<'_> {
    if value.is_ascii() {
        if value.bytes().any(|b| b.is_ascii_uppercase()) {
            return collapse(Cow::Owned(value.to_ascii_lowercase()));
        }
        return collapse(Cow::Borrowed(value));
    }
    let nfkc = const { ComposingNormalizerBorrowed::new_nfkc() };
    let nfd = const { DecomposingNormalizerBorrowed::new_nfd() };
    let fold = const { CaseMapper::new() };
    // Unicode's compatibility caseless match (D146) folds twice, since compatibility
    // decomposition can bring out characters that have case.
    let visible: String = value.chars().filter(|c| !is_invisible(*c)).collect();
    let once = nfkc
        .normalize(&fold.fold_string(&nfd.normalize(&visible)))
        .into_owned();
    let twice = nfkc.normalize(&fold.fold_string(&once)).into_owned();
    match collapse(Cow::Owned(twice)) {
        Normalized::Valid(canonical) if canonical == value => {
            Normalized::Valid(Cow::Borrowed(value))
        }
        other => other,
    }
}

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
    match visible(value) {
        Cow::Borrowed(value) => visible_email(value),
        Cow::Owned(value) => visible_email(&value).into_owned(),
    }
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
