//! Tables as they leave a spreadsheet or a CRM.

use crate::support::{Arguments, Place, exchange};

/// What comes of a run of this table, whose key is `mail`, with one that has `a@x.org` alone.
fn result(table: &str, words: &str) -> String {
    let place = Place::new();
    place.write("ours.csv", table);
    place.write("theirs.csv", "mail\na@x.org\n");
    exchange(
        &place,
        &Arguments::new("ours.csv", "mail")
            .with(words)
            .output("out.csv"),
        &Arguments::new("theirs.csv", "mail"),
    )
    .expect_success();
    place.read("out.csv")
}

/// What `check` says of the same table, with its key.
fn refused(table: &str, words: &str) -> (String, String) {
    let place = Place::new();
    place.write("ours.csv", table);
    let ended = place.run(&format!("check --input ours.csv --key mail {words}"));
    assert_eq!(ended.code, Some(3), "{}", ended.err);
    let problem = ended.err.lines().find(|line| line.starts_with("vesica: "));
    (problem.unwrap().to_owned(), ended.hint().to_owned())
}

#[test]
fn a_first_line_says_the_delimiter() {
    for first in ["sep=;\r\n", "\u{feff}sep=;\n", "\"sep=;\"\n", "SEP=;\n"] {
        let table = format!("{first}id;mail\r\n1;a@x.org\r\n2;b,c@x.org\r\n");
        assert_eq!(result(&table, ""), "id;mail\r\n1;a@x.org\r\n", "{first:?}");
    }
    assert_eq!(
        result("sep=|\nid|mail\n1|a@x.org\n", ""),
        "id|mail\n1|a@x.org\n"
    );
    // What cannot be a delimiter is a name.
    let (problem, _) = refused("sep=\"\nid\"mail\n1\"a@x.org\n", "");
    assert!(problem.contains("no column is called"), "{problem}");
    // A column may be called so.
    assert_eq!(
        result("sep,mail\n=;,a@x.org\n", ""),
        "sep,mail\n=;,a@x.org\n"
    );
}

#[test]
fn titles_and_totals_are_left_out() {
    let table = "Report X\n\nid,mail\n1,a@x.org\n2,b@x.org\nTotal,2\n,\n\n";
    let words = "--skip-rows 2 --skip-footer 2";
    assert_eq!(result(table, words), "id,mail\n1,a@x.org\n");
    for (form, table) in [
        ("lines end in CR LF", table.replace('\n', "\r\n")),
        ("no line end at the end", table.trim_end().to_owned()),
    ] {
        let found = result(&table, words).replace("\r\n", "\n");
        assert_eq!(found, "id,mail\n1,a@x.org\n", "{form}");
    }
    let (problem, _) = refused(table, &format!("--skip-rows {}", u64::MAX));
    assert!(problem.ends_with("is empty"), "{problem}");
    // Errors count lines of the file.
    let (problem, _) = refused("Report X\n\nid,mail\n1,a@x.org\n1,2,3\n", "--skip-rows 2");
    assert!(problem.contains("row 2 (line 5)"), "{problem}");
    // Each file of a table has its own.
    let place = Place::new();
    for (name, mail) in [("p1.csv", "a@x.org"), ("p2.csv", "b@x.org")] {
        place.write(
            name,
            format!("Title of {name}\nmail,n\n{mail},1\nTotal,1\n"),
        );
    }
    place.write("theirs.csv", "mail\na@x.org\nb@x.org\n");
    exchange(
        &place,
        &Arguments::new("p1.csv", "mail")
            .with("--input p2.csv --skip-rows 1 --skip-footer 1 --output out.csv"),
        &Arguments::new("theirs.csv", "mail"),
    )
    .expect_success();
    assert_eq!(place.read("out.csv"), "mail,n\na@x.org,1\nb@x.org,1\n");
}

#[test]
fn what_is_in_the_way_is_named_with_the_cure() {
    for (table, words, problem, hint) in [
        (
            "Report X\n\nid,mail\n1,a@x.org\n",
            "",
            "no column is called \"mail\" in its first line, and one is in line 3",
            "--skip-rows 2",
        ),
        (
            "id,mail\n1,a@x.org\n2,b@x.org\nTotal\n",
            "",
            "has 1 field where the header has 2",
            "--skip-footer",
        ),
        (
            "id,mail,\n1,a@x.org\n",
            "--delimiter ,",
            "has 2 fields where the header has 3, which ends with a delimiter",
            "end the header and all rows with a delimiter, or none of them",
        ),
        (
            "id,mail\n1,a@x.org,\n",
            "--delimiter ,",
            "has 3 fields where the header has 2, as it ends with a delimiter",
            "end the header and all rows with a delimiter, or none of them",
        ),
    ] {
        let (found, said) = refused(table, words);
        assert!(found.contains(problem), "{found}");
        assert!(said.contains(hint), "{said}");
    }
}

#[test]
fn blanks_around_names_do_not_matter() {
    let padded = "id , mail      ,x\n1,a@x.org,2\n";
    assert_eq!(result(padded, ""), padded);
    let (problem, _) = refused("mail ,mail  \n1,2\n", "");
    assert!(problem.contains("several columns are called"), "{problem}");
}

#[test]
fn lines_to_skip_are_for_csv() {
    let place = Place::new();
    place.write("ours.jsonl", "{\"mail\":\"a@x.org\"}\n");
    let ended = place.run("check --input ours.jsonl --key mail --skip-rows 1");
    ended.expect_failure(2, "lines to skip are for CSV, not jsonl");
    let ended = place.run("check --input ours.jsonl --key mail --skip-footer 1001");
    ended.expect_failure(2, "a number up to 1000");
}

#[test]
fn a_result_has_the_columns_that_are_asked_for() {
    let table = "id,mail,city\n1,a@x.org,\"Rome, IT\"\n2,b@x.org,Oslo\n";
    let words = "--columns city,id";
    assert_eq!(result(table, words), "city,id\n\"Rome, IT\",1\n");
    let all = format!("{words} --rows all");
    let expected = "city,id,in_both\n\"Rome, IT\",1,true\nOslo,2,false\n";
    assert_eq!(result(table, &all), expected);
    // The peer's columns come after them, and so does a sender's choice.
    let place = Place::new();
    place.write("ours.csv", table);
    place.write(
        "theirs.jsonl",
        "{\"mail\":\"a@x.org\",\"city\":\"Bari\",\"x\":1}\n",
    );
    exchange(
        &place,
        &Arguments::new("ours.csv", "mail")
            .with("--columns city --take-payload --both --output out.jsonl"),
        &Arguments::new("theirs.jsonl", "mail")
            .with("--columns x,mail --payload city --both --output theirs-out.jsonl"),
    )
    .expect_success();
    assert_eq!(
        place.read("out.jsonl"),
        "{\"city\":\"Rome, IT\",\"peer_city\":\"Bari\"}\n"
    );
    assert_eq!(
        place.read("theirs-out.jsonl"),
        "{\"x\":1,\"mail\":\"a@x.org\"}\n"
    );
    // Whatever is wrong with it is said before a peer is met.
    for (words, code, problem, hint) in [
        (
            "--columns id,citi",
            3,
            "no column is called \"citi\"",
            "city",
        ),
        (
            "--columns id,id",
            2,
            "the result has the column \"id\" twice",
            "once",
        ),
        (
            "--columns id --reveal size --security semi-honest",
            2,
            "--columns is for results of rows",
            "",
        ),
    ] {
        for output in ["out.csv", "out.parquet"] {
            let output = match words.contains("size") {
                true => String::new(),
                false => format!("--output {output}"),
            };
            let ended = place.run(&format!(
                "receive --input ours.csv --key mail --identity receiver.key --peer {} --listen 127.0.0.1:0 --wait 1 {words} {output}",
                place.sender
            ));
            ended.expect_failure(code, problem);
            assert!(ended.err.contains(hint), "{}", ended.err);
        }
    }
}

#[test]
fn spreadsheets_are_tables() {
    let vectors = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/tables");
    let of = "--skip-rows 2 --skip-footer 1";
    for name in ["people.xlsx", "people.ods"] {
        let place = Place::new();
        std::fs::copy(format!("{vectors}/{name}"), place.path("ours.dat")).unwrap();
        std::fs::copy(format!("{vectors}/{name}"), place.path("book.csv")).unwrap();
        place.write("theirs.csv", "mail\nann@x.org\nx@x.org\n");
        exchange(
            &place,
            &Arguments::new("ours.dat", "mail")
                .with(&format!("{of} --columns born,mail --output out.csv")),
            &Arguments::new("theirs.csv", "mail"),
        )
        .expect_success();
        assert_eq!(place.read("out.csv"), "born,mail\n1984-01-02,ann@x.org\n");
        exchange(
            &place,
            &Arguments::new("theirs.csv", "mail").with("--take-payload --output out.jsonl"),
            &Arguments::new("book.csv", "mail").with(&format!("{of} --payload phone")),
        )
        .expect_success();
        assert_eq!(
            place.read("out.jsonl"),
            "{\"mail\":\"ann@x.org\",\"peer_phone\":\"4930123456\"}\n"
        );
        let ended = place.run("check --input book.csv --key mail");
        ended.expect_failure(3, "one is in line 3");
        assert!(ended.hint().contains("--skip-rows 2"), "{}", ended.err);
        place
            .run("check --input book.csv --key id --sheet other")
            .expect_failure(2, "no sheet is called \"other\"");
        place
            .run("check --input book.csv --key id --sheet Other")
            .expect_success();
        let over = place.run(&format!(
            "receive --input book.csv --key mail {of} --identity receiver.key --peer {} --connect 127.0.0.1:9 --wait 1 --output book.csv",
            place.sender
        ));
        over.expect_failure(2, "are the same file");
    }
}

#[test]
fn other_kinds_of_files_are_named() {
    let place = Place::new();
    let utf_16: Vec<u8> = "mail\na@x.org\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    for (bytes, what) in [
        (&b"BZh91AY&SY\xd0"[..], "a file compressed with bzip2"),
        (b"\xfd7zXZ\0\0", "a file compressed with xz"),
        (b"7z\xbc\xaf\x27\x1c\0", "a 7z archive"),
        (b"\x04\x22\x4d\x18\x64", "a file compressed with LZ4"),
        (b"\n<!doctype HTML><table>", "an HTML page"),
        (b"%PDF-1.7\n", "a PDF document"),
        (&utf_16, "is UTF-16LE text, not UTF-8"),
    ] {
        std::fs::write(place.path("ours.csv"), bytes).unwrap();
        let ended = place.run("check --input ours.csv --key mail");
        ended.expect_failure(3, what);
    }
    place
        .run("check --input ours.csv --key mail --encoding utf-16le")
        .expect_success();
}
