//! Spreadsheets that other programs wrote: `vectors/tables/people.xlsx` is from openpyxl, `people.ods` from odfpy.

use vesica_tables::*;

use crate::common::*;

fn workbook(name: &str) -> Vec<u8> {
    let vectors = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/tables");
    std::fs::read(format!("{vectors}/{name}")).unwrap()
}

fn framed() -> SourceOptions {
    SourceOptions {
        skip_rows: 2,
        skip_footer: 1,
        ..SourceOptions::default()
    }
}

const TABLE: &str = "mail,phone,born,seen,score,active,note\n\
    ann@x.org,4930123456,1984-01-02,2024-02-29T08:30:00,0.1,true,\"says \"\"hi\"\", twice\"\n\
    bob@x.org,+44 20 7946 0000,2000-12-31,2024-02-29,7,false,\n\
    c@x.org,,,,1e-9,,\n";

#[test]
fn both_kinds_are_read_under_any_name() {
    for name in ["people.xlsx", "people.ods"] {
        for called in [name, "people.csv", "people", "t.parquet"] {
            let source = Source::from_bytes(called, workbook(name), framed()).unwrap();
            assert_eq!(source.format(), Format::Csv);
            let keys = read_keys(&source, &key("mail")).unwrap();
            assert_eq!(keys.counts().rows, 3, "{name} {called}");
            let matched = keys.rows_of(&keys.matched([0, 1, 2]).unwrap());
            let mut out = Vec::new();
            write_rows_to(&source, &matched, &mut out).unwrap();
            let lines = String::from_utf8(out).unwrap();
            assert_eq!(lines, TABLE, "{name} {called}");
            let told = check(&source, &key("mail")).unwrap().to_string();
            let first = told.lines().next();
            assert_eq!(first, Some(&*format!("{called}: a spreadsheet")));
        }
    }
}

#[test]
fn a_pipe_and_another_sheet() {
    for name in ["people.xlsx", "people.ods"] {
        for passes in [Passes::One, Passes::Two] {
            let options = SourceOptions {
                passes,
                sheet: Some("Other".to_owned()),
                ..SourceOptions::default()
            };
            let pipe = std::io::Cursor::new(workbook(name));
            let source = Source::from_reader("standard input", pipe, options).unwrap();
            assert_eq!(read_keys(&source, &key("id")).unwrap().counts().items, 2);
        }
    }
}

#[test]
fn rows_are_counted_as_the_sheet_does() {
    let options = SourceOptions {
        skip_footer: 0,
        ..framed()
    };
    let source = Source::from_bytes("people.xlsx", workbook("people.xlsx"), options).unwrap();
    let key = KeySpec::parse("mail", &["mail=email"]).unwrap();
    let found = check(&source, &key).unwrap();
    assert_eq!((found.counts.rows, found.counts.invalid), (4, 1));
    let wide = SourceOptions {
        sheet: Some("Other".to_owned()),
        ..SourceOptions::default()
    };
    let source = Source::from_bytes("people.xlsx", workbook("people.xlsx"), wide).unwrap();
    let error = read_keys(&source, &crate::common::key("mail")).unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::MissingColumn { .. }),
        "{error}"
    );
}

#[test]
fn options_of_text_are_refused() {
    let with = |change: fn(&mut SourceOptions)| {
        let mut options = framed();
        change(&mut options);
        Source::from_bytes("people.xlsx", workbook("people.xlsx"), options)
    };
    for change in [
        (|options| options.delimiter = Some(b';')) as fn(&mut SourceOptions),
        |options| options.csv.quote = None,
        |options| options.format = Some(Format::Csv),
        |options| options.encoding = "latin1".parse().ok(),
        |options| options.sheet = Some("none".to_owned()),
    ] {
        assert_eq!(with(change).unwrap_err().class(), ErrorClass::Usage);
    }
    let names = with(|options| options.csv.header = false).unwrap();
    assert_eq!(read_keys(&names, &key("1")).unwrap().counts().rows, 4);
    let options = SourceOptions {
        sheet: Some("a".to_owned()),
        ..SourceOptions::default()
    };
    let error = Source::from_bytes("t.csv", "a\n1\n".into(), options).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Usage);
}
