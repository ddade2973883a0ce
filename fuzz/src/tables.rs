//! Tables of every format, normalisation profiles, and what names them.

use vesica_tables::{
    ErrorClass, Format, KeyColumn, KeySpec, Normalized, Profile, Source, SourceOptions, check,
    read_keys, write_rows_to,
};

/// The first byte chooses the key and its profile; the rest is the file.
fn table(bytes: &[u8], format: Format) {
    let Some((choice, file)) = bytes.split_first() else {
        return;
    };
    let names: &[&str] = if choice & 1 == 0 { &["k"] } else { &["k", "v"] };
    let profile = profile(choice >> 1);
    let columns = names.iter().map(|name| KeyColumn {
        name: (*name).to_owned(),
        profile,
    });
    let Ok(key) = KeySpec::new(columns.collect()) else {
        return;
    };
    let options = SourceOptions {
        format: Some(format),
        ..SourceOptions::default()
    };
    let Ok(source) = Source::from_bytes("input", file.to_vec(), options) else {
        return;
    };
    let keys = match read_keys(&source, &key) {
        Ok(keys) => keys,
        Err(error) => {
            assert!(!error.to_string().contains('\n'));
            assert!(error.hint().is_none_or(|hint| !hint.contains('\n')));
            return;
        }
    };
    let counts = keys.counts();
    assert_eq!(counts.rows, keys.row_items().len() as u64);
    assert_eq!(counts.items, keys.digests().len() as u64);
    assert_eq!(
        counts.rows,
        counts.items + counts.duplicates + counts.blanks + counts.invalid
    );
    // The same pass with more counting, and the second pass: what could be read can be copied.
    assert!(check(&source, &key).is_ok_and(|check| check.counts == *counts));
    let every_other: Vec<bool> = (0..keys.digests().len()).map(|i| i % 2 == 0).collect();
    let expected = keys
        .row_items()
        .iter()
        .filter(|item| every_other.get(**item as usize) == Some(&true))
        .count();
    // Columns outside the key are decoded now for the first time, and may be damaged.
    let mut output = Vec::new();
    if let Ok(rows) = write_rows_to(&source, &keys.rows_of(&every_other), &mut output) {
        assert_eq!(rows, expected as u64);
    }
}

fn profile(choice: u8) -> Profile {
    let names = [
        "exact",
        "text",
        "email",
        "phone:GB",
        "sha256-hex",
        "phone:US",
        "phone:AR",
    ];
    let name = names[usize::from(choice) % names.len()];
    name.parse().unwrap_or(Profile::Exact)
}

/// Delimited text.
pub fn csv(bytes: &[u8]) {
    table(bytes, Format::Csv);
}

/// JSON Lines.
pub fn jsonl(bytes: &[u8]) {
    table(bytes, Format::Jsonl);
}

/// Parquet.
pub fn parquet(bytes: &[u8]) {
    table(bytes, Format::Parquet);
}

/// Arrow IPC, files and streams.
pub fn arrow(bytes: &[u8]) {
    table(bytes, Format::Arrow);
}

/// Format detection on whatever the file is.
pub fn detect(bytes: &[u8]) {
    let Ok(key) = KeySpec::parse("k", &[] as &[&str]) else {
        return;
    };
    if let Ok(source) = Source::from_bytes("input", bytes.to_vec(), SourceOptions::default()) {
        // Either is fine; it must come to an end.
        let _ = read_keys(&source, &key);
    }
}

/// A value under each profile. Canonical texts are fixed points.
pub fn profiles(bytes: &[u8]) {
    let Some((choice, value)) = bytes.split_first() else {
        return;
    };
    let (Ok(value), profile) = (std::str::from_utf8(value), profile(*choice)) else {
        return;
    };
    if let Normalized::Valid(canonical) = profile.normalize(value) {
        assert_eq!(
            profile.normalize(&canonical),
            Normalized::Valid(canonical.as_ref().into()),
            "{profile} of {value:?}"
        );
    }
}

/// A key as the command line gives it: one line for the columns, then one a profile.
pub fn keyspec(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let mut lines = text.split('\n');
    let columns = lines.next().unwrap_or_default();
    match KeySpec::parse(columns, &lines.collect::<Vec<_>>()) {
        Ok(key) => assert_eq!(key.columns().len(), key.normalization().len()),
        Err(error) => assert_eq!(error.class(), ErrorClass::Usage),
    }
}
