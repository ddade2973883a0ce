//! Names that a person has mistyped.

/// The name that a person most likely meant: equal but for case, white space, and `_` in place of `-`, or with at most two
/// letters wrong.
pub fn nearest<'a>(
    wanted: &str,
    available: impl IntoIterator<Item = &'a (impl AsRef<str> + ?Sized + 'a)>,
) -> Option<&'a str> {
    let plain = |s: &str| {
        let s = s.trim().trim_start_matches('\u{feff}').to_lowercase();
        s.replace('_', "-")
    };
    let wanted = plain(wanted);
    let mut best: Option<(usize, &str)> = None;
    for name in available.into_iter().map(AsRef::as_ref) {
        if name.len() > 256 {
            continue;
        }
        let distance = edits(&wanted, &plain(name));
        if distance <= 2
            && distance < wanted.chars().count()
            && best.is_none_or(|(d, _)| distance < d)
        {
            best = Some((distance, name));
        }
    }
    best.map(|(_, name)| name)
}

/// Levenshtein distance in characters.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn names_are_found_with_two_letters_wrong() {
        let names = ["no-header", "max-peer-value-bound", "E-Mail", "id"];
        for (wanted, found) in [
            ("no_header", Some("no-header")),
            ("max_peer_value_bound", Some("max-peer-value-bound")),
            ("noheader", Some("no-header")),
            (" email ", Some("E-Mail")),
            ("headers", None),
            ("xy", None),
            ("", None),
        ] {
            assert_eq!(nearest(wanted, &names), found, "{wanted}");
        }
    }
}
