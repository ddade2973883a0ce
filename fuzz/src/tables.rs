//! Tables of every format, normalisation profiles, and what names them.

use vesica_tables::{
    CsvOptions, ErrorClass, Format, KeyColumn, KeySpec, Normalized, Profile, Source, SourceOptions,
    check, read_keys, write_rows_to,
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
    read_and_copy(file, &key, options);
}

/// Both passes over a file.
fn read_and_copy(file: &[u8], key: &KeySpec, options: SourceOptions) {
    let Ok(source) = Source::from_bytes("input", file.to_vec(), options) else {
        return;
    };
    let keys = match read_keys(&source, key) {
        Ok(keys) => keys,
        Err(error) => {
            assert!(!error.to_string().contains('\n'));
            assert!(
                error
                    .remedy()
                    .is_none_or(|remedy| !remedy.to_string().contains('\n'))
            );
            return;
        }
    };
    let counts = keys.counts();
    assert_eq!(counts.rows, keys.row_items().len() as u64);
    assert_eq!(counts.items, keys.digests().len() as u64);
    assert_eq!(
        counts.rows,
        counts.items + counts.duplicates + counts.blanks + counts.denied + counts.invalid
    );
    // The same pass with more counting, and the second pass: what could be read can be copied.
    assert!(check(&source, key).is_ok_and(|check| check.counts == *counts));
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
        "integer",
        "date",
        "uuid",
        "pair-email",
        "pair-phone:GB",
        "ipv4",
        "ipv6",
        "decimal",
        "timestamp:ms",
        "name",
        "name:family",
        "date:DMY",
        "date:MDY",
        "postcode:GB",
        "postcode:AD",
        "uid2-email",
        "google-email",
        "meta-phone:US",
        "text/1",
        "email/1",
        "phone:GB/3",
        "pair-phone:GB/2",
    ];
    let name = names[usize::from(choice) % names.len()];
    name.parse().unwrap_or(Profile::EXACT)
}

/// Delimited text.
pub fn csv(bytes: &[u8]) {
    table(bytes, Format::Csv);
}

/// Spreadsheets. The first byte says how many rows are above the table.
pub fn sheets(bytes: &[u8]) {
    let (Some((choice, file)), Ok(key)) =
        (bytes.split_first(), KeySpec::parse::<&str>("mail", &[]))
    else {
        return;
    };
    let options = SourceOptions {
        skip_rows: (choice % 4).into(),
        skip_footer: (choice / 4 % 4).into(),
        memory: Some(64 << 20),
        ..SourceOptions::default()
    };
    read_and_copy(file, &key, options);
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

/// Text in other dialects and encodings, fields below objects, and texts for null. The first byte chooses.
pub fn dialects(bytes: &[u8]) {
    let Some((choice, file)) = bytes.split_first() else {
        return;
    };
    let is_json = choice & 0x40 != 0;
    let quote = [Some(b'"'), Some(b'\''), Some(b'|'), None][usize::from(choice >> 1 & 3)];
    let csv = match is_json {
        true => CsvOptions::default(),
        false => CsvOptions {
            header: choice & 1 == 0,
            quote,
            escape: (choice & 8 != 0 && quote.is_some()).then_some(b'\\'),
            skip_initial_space: choice & 0x80 != 0,
        },
    };
    let encoding = ["utf-8", "utf-16le", "shift_jis", "windows-1252"][usize::from(choice >> 4 & 3)];
    let options = SourceOptions {
        format: Some(if is_json { Format::Jsonl } else { Format::Csv }),
        csv,
        encoding: encoding.parse().ok(),
        ..SourceOptions::default()
    };
    let name = if is_json {
        "k.v"
    } else {
        ["k", "1"][usize::from(!csv.header)]
    };
    if let Ok(key) = KeySpec::parse(name, &[] as &[&str]) {
        read_and_copy(
            file,
            &key.with_nulls(vec!["NULL".into()])
                .with_denied(&["x"])
                .unwrap_or_else(|e| panic!("{e}")),
            options,
        );
    }
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
