//! Values as they leave other programs: what matches, and what a dry run says of the rest.

use std::sync::Arc;

use crate::common::*;
use arrow_array::{ArrayRef, Date32Array, StringArray};
use vesica_tables::*;

fn spec(column: &str, profile: &str) -> KeySpec {
    KeySpec::parse(column, &[format!("{column}={profile}")]).unwrap()
}

/// The rows of the first table with a key that the second has, counted from 0.
fn matching(ours: &str, theirs: &str, key: &KeySpec) -> Vec<u32> {
    let [ours, theirs] = [ours, theirs].map(|text| read_keys(&source("t.csv", text), key).unwrap());
    let rows = ours.row_items().iter().zip(0..);
    let has =
        |item: u32| item != NO_ITEM && theirs.digests().contains(&ours.digests()[item as usize]);
    rows.filter(|(item, _)| has(**item))
        .map(|(_, row)| row)
        .collect()
}

/// The first warning that has these words.
#[track_caller]
fn warning(check: &Check, words: &str) -> String {
    let found = check
        .warnings
        .iter()
        .find(|warning| warning.contains(words));
    found
        .unwrap_or_else(|| panic!("{words}: {:?}", check.warnings))
        .clone()
}

#[test]
fn invisible_characters_around_values_count_for_nothing() {
    let theirs = "m\n\u{200e}ann@x.org\n\u{202a}bob@x.org\n\u{2068}c@x.org\nd@x.org\u{202c}\n";
    let ours = "m\nann@x.org\nbob@x.org\nc@x.org\nd@x.org\n";
    for profile in ["email", "text"] {
        assert_eq!(matching(ours, theirs, &spec("m", profile)), [0, 1, 2, 3]);
    }
    for profile in ["exact", "email", "text", "pair-email", "name"] {
        let told = check(&source("t.csv", theirs), &spec("m", profile)).unwrap();
        let column = &told.columns[0];
        assert_eq!(column.control_characters.count, 4, "{profile}");
        let words = match profile {
            "exact" | "pair-email" => "which count under",
            _ => "leaves out (first at row 1)",
        };
        warning(&told, words);
    }
    let text = "m\na\u{200d}b\nc\0d\ng\u{34f}h\n";
    assert_eq!(
        matching("m\nab\ncd\ngh\n", text, &spec("m", "text")),
        [0, 1, 2]
    );
    let told = check(&source("t.csv", text), &spec("m", "text")).unwrap();
    assert_eq!(told.columns[0].control_characters.rows, [1, 2, 3]);
}

#[test]
fn quotes_behind_spaces_are_found_and_read() {
    let text = "id, mail\n1, \"ann@x.org\"\n2, \"Lee; Bob\"\n";
    let key = KeySpec::parse(" mail", &[] as &[&str]).unwrap();
    let told = check(&source("t.csv", text), &key).unwrap();
    assert_eq!(told.columns[0].marks.rows, [1, 2]);
    warning(
        &told,
        "skip_initial_space reads CSV with blanks before quotes",
    );
    let options = SourceOptions {
        csv: CsvOptions {
            skip_initial_space: true,
            ..CsvOptions::default()
        },
        ..SourceOptions::default()
    };
    let text = "id, mail\n1, \"ann@x.org\"\n2, \"Lee, Bob\"\n";
    let table = Source::from_bytes("t.csv", text.into(), options).unwrap();
    let keys = read_keys(&table, &key_of("mail")).unwrap();
    let plain = source("t.csv", "mail\nann@x.org\n\"Lee, Bob\"\n");
    assert_eq!(
        keys.digests(),
        read_keys(&plain, &key_of("mail")).unwrap().digests()
    );
    let mut rows = Vec::new();
    write_rows_to(&table, &keys.rows_of(&[true, false]), &mut rows).unwrap();
    assert_eq!(rows.iter().filter(|b| **b == b'\n').count(), 2);
}

fn key_of(column: &str) -> KeySpec {
    KeySpec::parse(column, &[] as &[&str]).unwrap()
}

#[test]
fn marks_and_schemes_are_stripped_or_counted() {
    let text = "m\nmailto:ann@x.org\n'bob@x.org\nAnn Lee <c@x.org>\n";
    let plain = "m\nann@x.org\nbob@x.org\nc@x.org\n";
    assert_eq!(matching(text, plain, &spec("m", "email")), [0, 1]);
    // The apostrophe in front counts where it is kept.
    for (profile, invalid, marked) in [("email", 1, &[][..]), ("text", 0, &[]), ("exact", 0, &[2])]
    {
        let told = check(&source("t.csv", text), &spec("m", profile)).unwrap();
        let column = &told.columns[0];
        assert_eq!(column.mail_schemes.rows, [1], "{profile}");
        assert_eq!(column.marks.rows, marked, "{profile}");
        assert_eq!(told.counts.invalid, invalid, "{profile}");
        warning(&told, "mailto: in front");
        if !marked.is_empty() {
            warning(&told, "with quotation marks, or with the marks");
        }
    }
    let quoted = "m\n\u{201c}ann@x.org\u{201d}\nann@x.org; bob@x.org\nann@x.org;\n";
    let told = check(&source("t.csv", quoted), &spec("m", "email")).unwrap();
    let column = &told.columns[0];
    assert_eq!(
        (&column.marks.rows[..], &column.lists.rows[..]),
        (&[1][..], &[2][..])
    );
    assert_eq!(told.counts.invalid, 3);
    warning(&told, "that are several, each valid by itself");
}

#[test]
fn forms_of_spreadsheets_are_named_where_they_survive() {
    let text =
        "m\n7.0\n007\n\"=\"\"007\"\"\"\n\"1,234\"\n1.23E+12\n2024-02-29 00:00:00\n31.12.1984\nx\n";
    for profile in ["exact", "text"] {
        let told = check(&source("t.csv", text), &spec("m", profile)).unwrap();
        for (words, row) in [
            ("such as 7.0", 1),
            ("leading zeros", 2),
            ("=\"…\"", 3),
            ("1.23E+12 and 1,234", 4),
            ("2023-11-14T22:13:20Z", 6),
            ("date:DMY", 7),
        ] {
            let warning = warning(&told, words);
            assert!(
                warning.contains(&format!("(first at row {row})")),
                "{warning}"
            );
        }
    }
    let told = check(
        &source("t.csv", "m\n\"1.234,50\"\n2\n"),
        &spec("m", "decimal"),
    )
    .unwrap();
    warning(&told, "decimal:comma reads 1.234,50 and 12,5");
    let told = check(
        &source("t.csv", "m\n\"1.234,50\"\n"),
        &spec("m", "decimal:comma"),
    );
    assert_eq!(told.unwrap().warnings, [""; 0]);
    let told = check(&source("t.csv", "m\n31.12.1984\n"), &spec("m", "date")).unwrap();
    warning(&told, "date:DMY, date:MDY and date:YMD read them");
    let told = check(&source("t.csv", "m\n7.0\n007\n"), &spec("m", "integer")).unwrap();
    assert_eq!(told.warnings, [""; 0]);
}

#[test]
fn digests_that_others_made_match() {
    let hex = "16e202bdcd9646af11faa3a5a3b9c07a6303e9629583246f8208e43c529087de";
    let base64 = "FuICvc2WRq8R+qOlo7nAemMD6WKVgyRvggjkPFKQh94=";
    let theirs = format!("m\n{hex}\n{base64}\n");
    for profile in ["google-email", "uid2-email"] {
        let key = spec("m", profile);
        assert_eq!(matching("m\nAnn.Lee+a@gmail.com\n", &theirs, &key), [0]);
        assert_eq!(
            read_keys(&source("t.csv", &*theirs), &key)
                .unwrap()
                .counts()
                .items,
            1
        );
        assert_eq!(
            check(&source("t.csv", &*theirs), &key).unwrap().warnings,
            [""; 0]
        );
    }
    let number = "38e62b3e091778f9214de3aa00ae498aa4b78433d73dec5977eb2ec1c8be4a69";
    let ours = "m\n+44 20 7946 0000\n020 7946 0000\n";
    let key = spec("m", "meta-phone:GB");
    assert_eq!(matching(ours, &format!("m\n{number}\n"), &key), [0, 1]);
    // A column of digests, under a profile for something else.
    for (value, profile, words) in [
        (hex, "email", "digests in hexadecimal"),
        (hex, "text", "digests in hexadecimal"),
        (base64, "text", "digests in Base64"),
        (base64, "sha256-hex", "digests in Base64"),
        (base64, "pair-email", "digests in Base64"),
    ] {
        let told = check(
            &source("t.csv", format!("m\n{value}\n")),
            &spec("m", profile),
        )
        .unwrap();
        warning(&told, words);
    }
}

#[test]
fn names_dates_and_postcodes_of_two_sides_match() {
    let cases = [
        ("name", "José", "Jose"),
        ("name:family", "O’Neil", "O'Neil"),
        ("name:given", "Anne–Marie", "Anne-Marie"),
        ("name:given@1", "Ann", "A."),
        ("date:DMY", "31.12.1984", "1984-12-31"),
        ("date:MDY", "12/31/1984", "19841231"),
        ("date:YMD", "1984-1-2", "1984-01-02"),
        ("postcode:GB", "sw1a 1aa", "SW1A1AA"),
        ("decimal:comma", "\"1.234,50\"", "1234.5"),
    ];
    for (profile, ours, theirs) in cases {
        let [ours, theirs] = [ours, theirs].map(|value| format!("m\n{value}\n"));
        assert_eq!(
            matching(&ours, &theirs, &spec("m", profile)),
            [0],
            "{profile}"
        );
    }
    let key = KeySpec::parse(
        "f,g,d,p",
        &[
            "f=name:family",
            "g=name:given@1",
            "d=date:DMY",
            "p=postcode:DE",
        ],
    );
    let ours = "f,g,d,p\nMüller,Dr. Jörg,31.12.1984,10115\n";
    let theirs = "f,g,d,p\nMULLER,J,1984-12-31,10115\nMULLER,K,1984-12-31,10115\n";
    assert_eq!(matching(ours, theirs, &key.unwrap()), [0]);
}

#[test]
fn a_footer_is_found() {
    let text = "mail\na@x.org\n\n\"Copyright (c) 2026, X\"\n\"Confidential\"\n";
    let told = check(&source("t.csv", text), &key_of("mail")).unwrap();
    assert_eq!((told.footer.count, &*told.footer.rows), (2, &[2, 3][..]));
    warning(
        &told,
        "like a footer, with totals or remarks (first at row 2)",
    );
    // Words in the middle of a table are values.
    let text = format!("mail\nTotal\n{}", "a\n".repeat(10));
    assert_eq!(
        check(&source("t.csv", text), &key_of("mail"))
            .unwrap()
            .footer
            .count,
        0
    );
}

#[test]
fn placeholders_are_found_and_denied() {
    let text = "m\nTest@test.com\nnoreply@shop.example\nann@x.org\n";
    let email = spec("m", "email");
    let told = check(&source("t.csv", text), &email).unwrap();
    assert_eq!(told.columns[0].placeholders.rows, [1, 2]);
    warning(&told, "; deny keeps them from matching");
    let denying = email
        .with_denied(&["test@TEST.com ", "mailto:noreply@shop.example", "x"])
        .unwrap();
    let told = check(&source("t.csv", text), &denying).unwrap();
    assert_eq!((told.counts.denied, told.counts.items), (2, 1));
    assert_eq!(told.columns[0].denied.rows, [1, 2]);
    assert_eq!(told.warnings, [""; 0]);
    assert!(
        told.to_string()
            .contains("2 rows with a key that is denied"),
        "{told}"
    );
    assert_eq!(matching(text, text, &denying), [2]);
    let counts = *read_keys(&source("t.csv", text), &denying)
        .unwrap()
        .counts();
    let unusable = counts.blanks + counts.invalid + counts.denied;
    assert_eq!(counts.rows, counts.items + counts.duplicates + unusable);
    let warned: Vec<String> = counts.warnings().iter().map(ToString::to_string).collect();
    assert_eq!(
        warned,
        ["2 of 3 rows have a key that is denied, and take no part"]
    );
    // Values of a type are denied by their text.
    let days: ArrayRef = Arc::new(Date32Array::from(vec![-25567, 0, 5]));
    let table = source("t.parquet", parquet(&batch(&[("m", days)])));
    let told = check(&table, &key_of("m")).unwrap();
    assert_eq!(told.columns[0].placeholders.rows, [1, 2]);
    let denying = spec("m", "date").with_denied(&["19000101"]).unwrap();
    assert_eq!(read_keys(&table, &denying).unwrap().counts().denied, 1);
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["0000000000", "1"]));
    let table = source("t.parquet", parquet(&batch(&[("m", texts)])));
    assert_eq!(
        check(&table, &key_of("m")).unwrap().columns[0]
            .placeholders
            .rows,
        [1]
    );
}
