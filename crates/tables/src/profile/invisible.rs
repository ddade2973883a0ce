//! Characters that nobody sees, and marks that other programs put in front of values.
//!
//! The lists are ranges of code points rather than properties of Unicode, so that they change with a version of a profile and
//! with nothing else.

use std::borrow::Cow;

/// Joins or separates letters of some scripts, and makes one emoji of several.
#[cfg(feature = "unicode")]
pub(super) const JOINERS: [char; 2] = ['\u{200c}', '\u{200d}'];

/// Whether a character has no shape and no width of its own: controls other than white space, marks of direction, zero-width
/// characters, soft hyphens, selectors of a variant, and byte-order marks.
pub(crate) fn is_invisible(c: char) -> bool {
    match c {
        // White space.
        '\t'..='\r' | '\u{85}' => false,
        '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' => true,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180b}'..='\u{180f}' => true,
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => true,
        '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{e0100}'..='\u{e01ef}' => true,
        _ => false,
    }
}

/// Whether a text is of ASCII and has no controls but white space, as nearly all texts.
fn is_plain(text: &str) -> bool {
    // Without an early end, which keeps many bytes from being looked at together.
    text.bytes().fold(true, |plain, b| {
        plain & matches!(b, b' '..=b'~' | b'\t'..=b'\r')
    })
}

/// Whether a text has an invisible character.
pub(crate) fn has_invisible(text: &str) -> bool {
    !is_plain(text) && text.contains(is_invisible)
}

/// The text without invisible characters.
pub(super) fn visible(text: &str) -> Cow<'_, str> {
    match has_invisible(text) {
        false => Cow::Borrowed(text),
        true => Cow::Owned(text.chars().filter(|c| !is_invisible(*c)).collect()),
    }
}

/// The text without invisible characters, but for joiners where they mean something: between two characters from U+0590 on,
/// where the scripts begin that have joiners, and neither of them white space or general punctuation.
#[cfg(feature = "unicode")]
pub(super) fn readable(text: &str) -> Cow<'_, str> {
    if is_plain(text) {
        return Cow::Borrowed(text);
    }
    let joins =
        |c: char| c >= '\u{590}' && !matches!(c, '\u{2000}'..='\u{206f}') && !c.is_whitespace();
    let mut kept = String::with_capacity(text.len());
    let mut joiner = None;
    for c in text.chars() {
        if JOINERS.contains(&c) {
            joiner = Some(c);
        } else if !is_invisible(c) {
            let before = kept.chars().next_back();
            if joins(c) && before.is_some_and(joins) {
                kept.extend(joiner);
            }
            joiner = None;
            kept.push(c);
        }
    }
    Cow::Owned(kept)
}

/// Whether a character is a quotation mark, but for single ones, which stand for apostrophes too.
pub(crate) fn is_quotation_mark(c: char) -> bool {
    matches!(
        c,
        '"' | '\u{201c}'..='\u{201f}' | '\u{ab}' | '\u{bb}' | '\u{2039}' | '\u{203a}'
    )
}

/// What is behind the apostrophes with which spreadsheets mark a cell as text, and white space.
pub(super) fn unmarked(text: &str) -> &str {
    text.trim_start_matches(|c: char| c == '\'' || c.is_whitespace())
        .trim_end()
}

/// The apostrophe or hyphen of ASCII for the typographic ones.
#[cfg(feature = "unicode")]
pub(super) fn typed(c: char) -> char {
    match c {
        // Acute accent; modifier letters prime, turned comma and apostrophe; single quotation marks; prime.
        '\u{b4}' | '\u{2b9}' | '\u{2bb}' | '\u{2bc}' | '\u{2018}' | '\u{2019}' | '\u{201b}'
        | '\u{2032}' => '\'',
        // Hyphens, dashes and bars; the minus sign.
        '\u{2010}'..='\u{2015}' | '\u{2212}' => '-',
        _ => c,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn white_space_is_visible() {
        for c in ('\0'..='\u{10ffff}').filter(|c| c.is_whitespace()) {
            assert!(!is_invisible(c), "{c:?}");
        }
        for text in ["a\tb\r\n", "~ !", "\u{a0}x\u{85}", "é", ""] {
            assert!(!has_invisible(text), "{text:?}");
            assert_eq!(visible(text), text);
        }
        for text in ["a\0", "\u{7f}", "\u{80}b", "\u{ad}\u{feff}", "\u{e0100}"] {
            assert!(has_invisible(text), "{text:?}");
        }
        assert_eq!(visible("\u{200e}a\u{202a}\u{ad}b\0\u{7f}"), "ab");
    }

    #[cfg(feature = "unicode")]
    #[test]
    fn joiners_stay_between_letters_that_they_join() {
        let persian = "\u{645}\u{6cc}\u{200c}\u{62e}\u{648}\u{627}\u{647}\u{645}";
        let family = "\u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}";
        for text in [persian, family, "\u{915}\u{94d}\u{200d}\u{937}"] {
            assert_eq!(readable(text), text);
        }
        for (text, kept) in [
            ("a\u{200d}b", "ab"),
            ("\u{200c}\u{645}\u{200d}", "\u{645}"),
            ("\u{645}\u{200c} \u{645}", "\u{645} \u{645}"),
            ("\u{645}\u{200c}\u{200c}\u{645}", "\u{645}\u{200c}\u{645}"),
            ("\u{645}\u{200c}a", "\u{645}a"),
            (
                "\u{1f3f3}\u{fe0f}\u{200d}\u{1f308}",
                "\u{1f3f3}\u{200d}\u{1f308}",
            ),
        ] {
            assert_eq!(readable(text), kept, "{text:?}");
        }
    }
}
