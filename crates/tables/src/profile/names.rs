//! Names of people, by rules that are this program's own. `docs/tables.md` states them.

use std::borrow::Cow;

use icu_casemap::CaseMapper;
use icu_normalizer::{ComposingNormalizerBorrowed, DecomposingNormalizerBorrowed};

use super::Normalized;
use super::invisible::visible;

/// What a name consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamePart {
    /// All of it, in whatever order.
    Full,
    /// Given names.
    Given,
    /// Family names.
    Family,
}

impl NamePart {
    /// The part that `name:…` stands for.
    pub(super) fn named(name: &str) -> Option<NamePart> {
        match name {
            "given" => Some(NamePart::Given),
            "family" => Some(NamePart::Family),
            _ => None,
        }
    }

    /// Its name; that of the whole has none.
    pub(super) fn name(self) -> Option<&'static str> {
        match self {
            NamePart::Full => None,
            NamePart::Given => Some("given"),
            NamePart::Family => Some("family"),
        }
    }
}

/// Words that are left out in front, but for the last word that there is.
const HONORIFICS: [&str; 32] = [
    "mr",
    "mrs",
    "ms",
    "miss",
    "mx",
    "mister",
    "dr",
    "doctor",
    "prof",
    "professor",
    "sir",
    "dame",
    "rev",
    "reverend",
    "herr",
    "frau",
    "mme",
    "mlle",
    "madame",
    "mademoiselle",
    "monsieur",
    "sr",
    "sra",
    "srta",
    "senor",
    "senora",
    "senorita",
    "signor",
    "signora",
    "mevr",
    "dhr",
    "mevrouw",
];

/// Words that are left out behind, each with how many words must be before it: two before those that are family names too.
const SUFFIXES: [(&str, usize); 12] = [
    ("jr", 1),
    ("jnr", 1),
    ("sr", 1),
    ("snr", 1),
    ("ii", 1),
    ("iii", 1),
    ("iv", 1),
    ("2nd", 1),
    ("3rd", 1),
    ("4th", 1),
    ("junior", 2),
    ("senior", 2),
];

/// A name with accents and case folded, punctuation dropped, one space between words, and neither honorifics in front (of
/// whole and given names) nor generational suffixes behind (of whole and family names).
pub(super) fn name(value: &str, part: NamePart) -> Normalized<'_> {
    let folded = folded(value);
    let outside = outside_brackets(&folded);
    let plain = plain(&outside);
    let mut words: Vec<&str> = plain.split_whitespace().collect();
    if words.is_empty() {
        return Normalized::Blank;
    }
    if part != NamePart::Family {
        let most = words.len() - 1;
        let front = words.iter().take_while(|word| HONORIFICS.contains(word));
        words.drain(..front.count().min(most));
    }
    let is_suffix = |words: &[&str]| {
        let mut suffixes = SUFFIXES.iter();
        let is_last = |(suffix, before): &(&str, usize)| {
            words.last() == Some(suffix) && words.len() > *before
        };
        suffixes.any(is_last)
    };
    while part != NamePart::Given && is_suffix(&words) {
        words.pop();
    }
    let canonical = words.join(" ");
    Normalized::Valid(match canonical == value {
        true => Cow::Borrowed(value),
        false => Cow::Owned(canonical),
    })
}

/// The text in one case and in compatibility composition, without accents and apostrophes, and with Latin letters that have
/// no decomposition in those of ASCII.
fn folded(value: &str) -> String {
    let value = visible(value);
    if value.is_ascii() {
        return value.to_ascii_lowercase().replace(is_apostrophe, "");
    }
    // Alone, an acute accent would be a space.
    let once = fold(&value.replace('\u{b4}', "'"));
    // Some characters have case only once they are decomposed.
    fold(&once)
}

fn fold(text: &str) -> String {
    let nfkd = const { DecomposingNormalizerBorrowed::new_nfkd() };
    let nfkc = const { ComposingNormalizerBorrowed::new_nfkc() };
    let decomposed = nfkd.normalize(text);
    let lower = const { CaseMapper::new() }.fold_string(&decomposed);
    let mut plain = String::with_capacity(lower.len());
    for c in nfkd.normalize(&lower).chars() {
        match c {
            // Combining diacritical marks. Those of other blocks are vowels and the like.
            '\u{300}'..='\u{36f}' => {}
            _ if is_apostrophe(c) => {}
            '\u{e6}' => plain.push_str("ae"),
            '\u{f0}' | '\u{111}' => plain.push('d'),
            '\u{f8}' => plain.push('o'),
            '\u{fe}' => plain.push_str("th"),
            '\u{127}' => plain.push('h'),
            '\u{131}' => plain.push('i'),
            '\u{142}' => plain.push('l'),
            '\u{153}' => plain.push_str("oe"),
            '\u{167}' => plain.push('t'),
            _ => plain.push(c),
        }
    }
    nfkc.normalize(&plain).into_owned()
}

/// The text without what is in brackets, such as a nickname; all of it, if nothing else is there.
fn outside_brackets(text: &str) -> Cow<'_, str> {
    const BRACKETS: [(char, char); 3] = [('(', ')'), ('[', ']'), ('{', '}')];
    if !text.contains(BRACKETS.map(|(open, _)| open)) {
        return Cow::Borrowed(text);
    }
    let mut outside = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, open, inside)) = next_bracket(rest, &BRACKETS) {
        outside.push_str(before);
        outside.push(' ');
        rest = match inside.split_once(open) {
            Some((_, behind)) => behind,
            None => inside,
        };
    }
    outside.push_str(rest);
    match plain(&outside).trim().is_empty() {
        true => Cow::Borrowed(text),
        false => Cow::Owned(outside),
    }
}

/// What is before the first opening bracket, the bracket that closes it, and what is behind.
fn next_bracket<'a>(text: &'a str, brackets: &[(char, char)]) -> Option<(&'a str, char, &'a str)> {
    let at = text.find(|c| brackets.iter().any(|(open, _)| *open == c))?;
    let open = text[at..].chars().next()?;
    let close = brackets.iter().find(|(own, _)| *own == open)?.1;
    Some((&text[..at], close, &text[at + open.len_utf8()..]))
}

/// The text with a space for punctuation.
fn plain(text: &str) -> String {
    text.replace(is_punctuation, " ")
}

fn is_apostrophe(c: char) -> bool {
    matches!(c, '\'' | '`' | '\u{2b9}'..='\u{2bf}' | '\u{2018}'..='\u{201b}' | '\u{2032}')
}

/// Punctuation and signs of ASCII, Latin-1 and the blocks General Punctuation, Supplemental Punctuation, CJK Symbols and
/// Punctuation; the middle dot of Katakana.
fn is_punctuation(c: char) -> bool {
    match c {
        _ if c.is_ascii() => c.is_ascii_punctuation(),
        '\u{a1}'..='\u{a9}' | '\u{ab}'..='\u{b1}' | '\u{b4}'..='\u{b8}' => true,
        '\u{bb}' | '\u{bf}' | '\u{d7}' | '\u{f7}' | '\u{2212}' | '\u{30fb}' => true,
        '\u{2010}'..='\u{2027}' | '\u{2030}'..='\u{205e}' | '\u{2e00}'..='\u{2e7f}' => true,
        '\u{3001}'..='\u{3004}' | '\u{3008}'..='\u{3020}' | '\u{3030}' => true,
        _ => false,
    }
}
