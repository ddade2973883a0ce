use super::*;
use crate::error::ErrorKind;
use proptest::prelude::*;

fn dialect(delimiter: u8) -> Dialect {
    let csv = CsvOptions::default();
    Dialect { delimiter, csv }
}

fn records(text: &[u8], delimiter: u8) -> Result<Vec<Vec<Vec<u8>>>> {
    records_of(text, dialect(delimiter))
}

fn records_of(text: &[u8], dialect: Dialect) -> Result<Vec<Vec<Vec<u8>>>> {
    let mut records = Records::new(text, dialect);
    let mut all = Vec::new();
    while records.next(true)? {
        all.push(
            (0..records.len())
                .map(|i| records.field(i).to_vec())
                .collect(),
        );
    }
    Ok(all)
}

fn by_csv_crate(text: &[u8], delimiter: u8) -> Vec<Vec<Vec<u8>>> {
    ::csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .delimiter(delimiter)
        .from_reader(text)
        .byte_records()
        .map(|r| r.unwrap().iter().map(<[u8]>::to_vec).collect())
        .collect()
}

#[test]
fn quotes_terminators_and_blank_lines() {
    let text = b"a,\"b \"\"x\"\"\nc\",d\r\n\r\n\n1,,\"\"\r\n\"last\",2,3";
    let expected = [
        vec!["a", "b \"x\"\nc", "d"],
        vec!["1", "", ""],
        vec!["last", "2", "3"],
    ];
    assert_eq!(
        records(text, b',').unwrap(),
        expected.map(|r| r.map_bytes())
    );
    let mut all = Records::new(&text[..], dialect(b','));
    let mut raw = Vec::new();
    let mut lines = Vec::new();
    while all.next(false).unwrap() {
        raw.extend_from_slice(all.raw());
        lines.push(all.record.line);
    }
    assert_eq!(raw, b"a,\"b \"\"x\"\"\nc\",d\r\n1,,\"\"\r\n\"last\",2,3");
    assert_eq!(lines, [1, 5, 6]);
}

trait MapBytes {
    fn map_bytes(self) -> Vec<Vec<u8>>;
}

impl MapBytes for Vec<&str> {
    fn map_bytes(self) -> Vec<Vec<u8>> {
        self.into_iter().map(|f| f.as_bytes().to_vec()).collect()
    }
}

#[test]
fn fields_in_quotes_are_told_from_others() {
    let csv = CsvOptions {
        escape: Some(b'\\'),
        ..CsvOptions::default()
    };
    for (line, quoted) in [
        ("a,b", &[false, false][..]),
        ("\"\",,x", &[true, false, false]),
        (",\"\"", &[false, true]),
        ("\"a,\"\"\",,\"\"", &[true, false, true]),
        ("\"a\\\",\",\"\"", &[true, true]),
        ("a\"b,\"\"", &[false, true]),
        ("\"a\"b\",\"c", &[true, true]),
        ("\"a\nb\",,\"\"\r\n", &[true, false, true]),
    ] {
        let mut records = Records::new(
            line.as_bytes(),
            Dialect {
                delimiter: b',',
                csv,
            },
        );
        if records.next(true).is_err() {
            continue; // never closed
        }
        let found: Vec<bool> = (0..records.len()).map(|i| records.is_quoted(i)).collect();
        assert_eq!(found, quoted, "{line}");
    }
}

#[test]
fn an_open_quote_is_an_error_where_it_starts() {
    let error = records(b"a,b\n1,\"2\n3,4\n", b',').unwrap_err();
    assert_eq!(error.place().line, Some(2));
    assert!(matches!(error.kind(), ErrorKind::Corrupt { .. }), "{error}");
}

#[test]
fn rows_longer_than_the_buffer() {
    let long = "x".repeat(3 << 20);
    let text = format!("a,b\n\"{long}\n\",{long}\n{long},2\n");
    let all = records(text.as_bytes(), b',').unwrap();
    assert_eq!(all.len(), 3);
    assert_eq!(
        all[1],
        [format!("{long}\n").into_bytes(), long.clone().into_bytes()]
    );
    let endless = std::io::Read::chain(&b"\""[..], std::io::repeat(b'x'));
    let error = Records::new(endless, dialect(b',')).next(true).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::RowTooLong { .. }));
}

#[test]
fn delimiters() {
    for (text, expected) in [
        ("a;b\n1,5;2,5\n", b';'),
        ("a,b\n1;5,2\n", b','),
        ("a\tb c\td\n1\t2\t3\n", b'\t'),
        ("a|b\n1|2\n", b'|'),
        ("name\nx\n", b','),
        ("\"a;b\",c\n\"1;;;\",2\n", b','),
        ("", b','),
    ] {
        assert_eq!(
            char::from(
                guess_delimiter(text.as_bytes(), true, CsvOptions::default())
                    .unwrap()
                    .unwrap_or(b',')
            ),
            char::from(expected),
            "{text:?}"
        );
    }
    let cut = guess_delimiter(b"a;b;c\n1;2;3\n4;5", false, CsvOptions::default());
    assert_eq!(cut.unwrap(), Some(b';'));
    for (text, expected) in [
        ("12;50,1\n13;20,2\n", [',', ';']),
        ("1\t2;3;4\n5\t6;7;8\n", [';', '\t']),
    ] {
        let error = guess_delimiter(text.as_bytes(), true, CsvOptions::default()).unwrap_err();
        let ErrorKind::AmbiguousDelimiter { candidates } = error.kind() else {
            panic!("{error}");
        };
        assert_eq!(*candidates, expected, "{text:?}");
    }
}

#[test]
fn other_quotes_escapes_and_none() {
    let read = |text: &str, quote, escape| {
        let csv = CsvOptions {
            quote,
            escape,
            ..CsvOptions::default()
        };
        let delimiter = b',';
        let all = records_of(text.as_bytes(), Dialect { delimiter, csv }).unwrap();
        let row = all.concat();
        row.iter()
            .map(|field| String::from_utf8_lossy(field).into_owned())
            .collect::<Vec<_>>()
    };
    let backslash = Some(b'\\');
    assert_eq!(read("'a,b',\"c\n", Some(b'\''), None), ["a,b", "\"c"]);
    assert_eq!(
        read("\"a\\\",b\",\"c\\\\\",d\\e", Some(b'"'), backslash),
        ["a\",b", "c\\", "d\\e"]
    );
    // Doubled quotes stay possible beside an escape.
    assert_eq!(read("\"a\"\"b\"", Some(b'"'), backslash), ["a\"b"]);
    assert_eq!(read("5\" disk,\"x\n", None, None), ["5\" disk", "\"x"]);
}

#[test]
fn spaces_in_front_of_fields_are_skipped() {
    let csv = CsvOptions {
        skip_initial_space: true,
        ..CsvOptions::default()
    };
    let dialect = Dialect {
        delimiter: b',',
        csv,
    };
    for (text, fields) in [
        ("1, \"ann@x.org\"\n", &["1", "ann@x.org"][..]),
        ("2,   \"Lee, Bob\" \r\n", &["2", "Lee, Bob "]),
        (" a,  b \n", &["a", "b "]),
        (" \"a\",  \n", &["a", ""]),
        ("\"a\", ", &["a", ""]),
        (" \"\"\"x\ny\"", &["\"x\ny"]),
        ("a \"b\", c", &["a \"b\"", "c"]),
    ] {
        let all = records_of(text.as_bytes(), dialect).unwrap().concat();
        let found: Vec<_> = all
            .iter()
            .map(|field| String::from_utf8_lossy(field))
            .collect();
        assert_eq!(found, fields, "{text:?}");
    }
    let mut records = Records::new(&b"a,  \"\", \"b\""[..], dialect);
    assert!(records.next(true).unwrap());
    let found: Vec<bool> = (0..3).map(|i| records.is_quoted(i)).collect();
    assert_eq!(found, [false, true, true]);
    assert!(records_of(b"a, \"b\n", dialect).is_err());
}

proptest! {
    #[test]
    fn spaces_in_front_of_fields_mean_nothing(
        rows in prop::collection::vec(prop::collection::vec(("[a-z,\"\n\r é]{0,6}", 0usize..4), 3), 1..20),
        crlf: bool,
    ) {
        let skipping = CsvOptions { skip_initial_space: true, ..CsvOptions::default() };
        let mut text = String::new();
        for row in &rows {
            for (i, (field, spaces)) in row.iter().enumerate() {
                text.push_str(if i > 0 { "," } else { "" });
                text.push_str(&" ".repeat(*spaces));
                match field.contains([',', '"', '\n', '\r', ' ']) {
                    true => text.push_str(&format!("\"{}\"", field.replace('"', "\"\""))),
                    false => text.push_str(field),
                }
            }
            text.push_str(if crlf { "\r\n" } else { "\n" });
        }
        let expected: Vec<Vec<Vec<u8>>> =
            rows.iter().map(|r| r.iter().map(|(f, _)| f.clone().into_bytes()).collect()).collect();
        let dialect = Dialect { delimiter: b',', csv: skipping };
        prop_assert_eq!(records_of(text.as_bytes(), dialect).unwrap(), expected);
    }

    #[test]
    fn what_the_csv_crate_writes_is_read_back(
        rows in prop::collection::vec(prop::collection::vec("[a-z,;\"\n\r é]{0,6}", 3), 1..20),
        delimiter in prop::sample::select(vec![b',', b';', b'\t', b'|']),
        crlf: bool,
    ) {
        let terminator = if crlf { ::csv::Terminator::CRLF } else { ::csv::Terminator::Any(b'\n') };
        let mut writer =
            ::csv::WriterBuilder::new().delimiter(delimiter).terminator(terminator).from_writer(vec![]);
        for row in &rows {
            writer.write_record(row).unwrap();
        }
        let text = writer.into_inner().unwrap();
        let expected: Vec<Vec<Vec<u8>>> =
            rows.iter().map(|r| r.iter().map(|f| f.clone().into_bytes()).collect()).collect();
        prop_assert_eq!(records(&text, delimiter).unwrap(), expected);
    }

    #[test]
    fn any_text_is_read_as_the_csv_crate_does(
        text in prop::collection::vec(prop::sample::select(b"ab,\"\n\xff ".to_vec()), 0..60),
        crlf: bool,
    ) {
        let text = if crlf {
            text.iter().flat_map(|b| if *b == b'\n' { b"\r\n".to_vec() } else { vec![*b] }).collect()
        } else {
            text
        };
        // The csv crate takes an open quote to end with the file; here it is an error.
        if let Ok(ours) = records(&text, b',') {
            prop_assert_eq!(ours, by_csv_crate(&text, b','));
        }
    }

    #[test]
    fn any_dialect_is_read_as_the_csv_crate_does(
        text in prop::collection::vec(prop::sample::select(b"ab,'\"\\\n".to_vec()), 0..60),
        quote in prop::option::of(prop::sample::select(b"'\"".to_vec())),
        escaped: bool,
    ) {
        let escape = (escaped && quote.is_some()).then_some(b'\\');
        let csv = CsvOptions { quote, escape, ..CsvOptions::default() };
        let mut theirs = ::csv::ReaderBuilder::new();
        theirs.has_headers(false).flexible(true).quoting(quote.is_some()).escape(escape);
        theirs.quote(quote.unwrap_or(b'"'));
        if let Ok(ours) = records_of(&text, Dialect { delimiter: b',', csv }) {
            let theirs: Vec<Vec<Vec<u8>>> = theirs.from_reader(&text[..])
                .byte_records()
                .map(|r| r.unwrap().iter().map(<[u8]>::to_vec).collect())
                .collect();
            prop_assert_eq!(ours, theirs);
        }
    }
}
