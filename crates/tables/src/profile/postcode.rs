//! Postal codes: their letters and digits.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use super::Normalized;
use super::invisible::is_invisible;
use crate::error::{Error, Result};

/// The country or territory whose postal codes a column has: an ISO 3166 two-letter code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PostalRegion([u8; 2]);

/// The two-letter codes of ISO 3166-1, one after the other.
const CODES: &str = "ADAEAFAGAIALAMAOAQARASATAUAWAXAZBABBBDBEBFBGBHBIBJBLBMBNBOBQBRBSBTBVBWBYBZCACCCDCFCGCHCICKCLCMCNCOCRCUCV\
    CWCXCYCZDEDJDKDMDODZECEEEGEHERESETFIFJFKFMFOFRGAGBGDGEGFGGGHGIGLGMGNGPGQGRGSGTGUGWGYHKHMHNHRHTHUIDIEILIMINIOIQIRISIT\
    JEJMJOJPKEKGKHKIKMKNKPKRKWKYKZLALBLCLILKLRLSLTLULVLYMAMCMDMEMFMGMHMKMLMMMNMOMPMQMRMSMTMUMVMWMXMYMZNANCNENFNGNINLNONP\
    NRNUNZOMPAPEPFPGPHPKPLPMPNPRPSPTPWPYQARERORSRURWSASBSCSDSESGSHSISJSKSLSMSNSOSRSSSTSVSXSYSZTCTDTFTGTHTJTKTLTMTNTOTRTT\
    TVTWTZUAUGUMUSUYUZVAVCVEVGVIVNVUWFWSYEYTZAZMZW";

/// The forms of postal codes of some regions, by the regions' codes one after the other: 9 is a digit, A a letter, X either.
/// They are the formats that the Universal Postal Union publishes ("Postal addressing systems in member countries").
const FORMS: [(&str, &[&str]); 10] = [
    ("ATAUBEBGCHCYDKHULILUNONZSIZA", &["9999"]),
    ("CZDEEEESFIFRGRHRIDITKRLTMAMXMYPLRSSESKTHTRUA", &["99999"]),
    ("CNINRORUSG", &["999999"]),
    ("JPPT", &["9999999"]),
    ("BR", &["99999999"]),
    ("PRUS", &["99999", "999999999"]),
    ("CA", &["A9A9A9"]),
    ("NL", &["9999AA"]),
    ("IE", &["A99XXXX", "A9AXXXX"]),
    (
        "GB",
        &[
            "A99AA", "A999AA", "AA99AA", "AA999AA", "A9A9AA", "AA9A9AA", "AAA9AA",
        ],
    ),
];

/// Whether a region's code is one of those in a text.
fn is_among(codes: &str, region: PostalRegion) -> bool {
    codes.as_bytes().chunks(2).any(|code| code == region.0)
}

impl FromStr for PostalRegion {
    type Err = Error;

    /// A two-letter code in either case.
    fn from_str(code: &str) -> Result<Self> {
        let region = code.as_bytes().try_into().ok();
        region
            .map(|code: [u8; 2]| PostalRegion(code.map(|b| b.to_ascii_uppercase())))
            .filter(|region| is_among(CODES, *region))
            .ok_or_else(|| {
                Error::usage_with(
                    format!("no region of postal codes is called {code:?}"),
                    "regions are two-letter country codes such as GB, US or DE",
                )
            })
    }
}

impl fmt::Display for PostalRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0
            .iter()
            .try_for_each(|b| write!(f, "{}", char::from(*b)))
    }
}

/// Letters and digits in upper case, full-width ones in ASCII. Other characters than white space, hyphens, dashes and invisible
/// ones are invalid, and in regions with [`FORMS`] so are texts of another form.
pub(super) fn postcode(value: &str, region: PostalRegion) -> Normalized<'_> {
    let mut code = String::with_capacity(value.len());
    for c in value.chars() {
        let c = match c {
            '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0).unwrap_or(c),
            _ => c,
        };
        match c {
            '-' | '\u{2010}'..='\u{2015}' | '\u{2212}' => {}
            _ if c.is_whitespace() || is_invisible(c) => {}
            _ if c.is_ascii_alphanumeric() => code.push(c.to_ascii_uppercase()),
            // A spreadsheet's mark of a text.
            '\'' if code.is_empty() => {}
            _ => return Normalized::Invalid,
        }
    }
    let forms = FORMS.iter().find(|(codes, _)| is_among(codes, region));
    let fits = forms.is_none_or(|(_, forms)| forms.iter().any(|form| has_form(&code, form)));
    match code.is_empty() {
        true => Normalized::Blank,
        false if !fits => Normalized::Invalid,
        false if code == value => Normalized::Valid(Cow::Borrowed(value)),
        false => Normalized::Valid(Cow::Owned(code)),
    }
}

fn has_form(code: &str, form: &str) -> bool {
    let fits = |(byte, form): (u8, u8)| match form {
        b'9' => byte.is_ascii_digit(),
        b'A' => byte.is_ascii_uppercase(),
        _ => true,
    };
    code.len() == form.len() && code.bytes().zip(form.bytes()).all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_pairs_in_order_and_forms_are_of_regions() {
        let codes: Vec<_> = CODES.as_bytes().chunks(2).collect();
        assert_eq!(codes.len(), 249);
        assert!(codes.is_sorted());
        for (regions, _) in FORMS {
            for region in regions.as_bytes().chunks(2) {
                assert!(
                    codes.contains(&region),
                    "{}",
                    String::from_utf8_lossy(region)
                );
            }
        }
    }
}
