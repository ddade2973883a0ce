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
    let local: Cow<'_, str> = if local.is_ascii() {
        if local.bytes().any(|b| b.is_ascii_uppercase()) {
            Cow::Owned(local.to_ascii_lowercase())
        } else {
            Cow::Borrowed(local)
        }
    } else {
        let folded = const { CaseMapper::new() }
            .fold_string(&nfc(local))
            .into_owned();
        Cow::Owned(nfc(&folded).into_owned())
    };
    // RFC 5321, section 4.5.3.1.1.
    if local.len() > 64 {
        return Normalized::Invalid;
    }
    let domain = domain.strip_suffix('.').unwrap_or(domain);
    let Ok(domain) = const { Uts46::new() }.to_ascii(
        domain.as_bytes(),
        AsciiDenyList::STD3,
        Hyphens::CheckFirstLast,
        DnsLength::Verify,
    ) else {
        return Normalized::Invalid;
    };
    let canonical_len = local.len() + 1 + domain.len();
    if canonical_len == trimmed.len() && trimmed.starts_with(&*local) && trimmed.ends_with(&*domain)
    {
        return Normalized::Valid(Cow::Borrowed(trimmed));
    }
    Normalized::Valid(Cow::Owned(format!("{local}@{domain}")))
}
