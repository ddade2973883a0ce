use std::io::Cursor;

use bytes::Bytes;
use zip::write::{SimpleFileOptions, ZipWriter};

use super::*;
use crate::error::ErrorClass;

/// An archive of these parts.
fn archive(parts: &[(&str, &str)]) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in parts {
        archive
            .start_file(*name, SimpleFileOptions::default())
            .unwrap();
        archive.write_all(content.as_bytes()).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

const XML: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>";

/// A workbook of sheets with these rows, of which the second has dates in the style 1, and durations in 2.
fn workbook(sheets: &[(&str, &str, &str)]) -> Vec<u8> {
    let main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main";
    let of = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
    let numbered = || (1..).zip(sheets);
    let list: String = numbered()
        .map(|(i, (name, state, _))| {
            format!("<sheet name=\"{name}\" sheetId=\"{i}\" state=\"{state}\" r:id=\"r{i}\"/>")
        })
        .collect();
    let links: String = numbered()
        .map(|(i, _)| {
            format!("<Relationship Id=\"r{i}\" Type=\"{of}/worksheet\" Target=\"worksheets/sheet{i}.xml\"/>")
        })
        .collect();
    let links = format!(
        "{XML}<Relationships xmlns=\"http://schemas.openxmlformats.org/package/2006/relationships\">{links}</Relationships>"
    );
    let styles = format!(
        "{XML}<styleSheet xmlns=\"{main}\"><numFmts><numFmt numFmtId=\"164\" formatCode=\"[h]:mm\"/></numFmts><cellXfs>\
         <xf numFmtId=\"0\"/><xf numFmtId=\"14\"/><xf numFmtId=\"164\"/></cellXfs></styleSheet>"
    );
    let strings = format!(
        "{XML}<sst xmlns=\"{main}\" uniqueCount=\"3\"><si><t>mail</t></si><si><t>ann,\"x\"</t></si>\
         <si><r><t>two</t></r><r><t xml:space=\"preserve\"> runs\nand lines</t></r></si></sst>"
    );
    let workbook = format!(
        "{XML}<workbook xmlns=\"{main}\" xmlns:r=\"{of}\"><sheets>{list}</sheets></workbook>"
    );
    let rows: Vec<(String, String)> = numbered()
        .map(|(i, (_, _, rows))| {
            let sheet = format!(
                "{XML}<worksheet xmlns=\"{main}\"><sheetData>{rows}</sheetData></worksheet>"
            );
            (format!("xl/worksheets/sheet{i}.xml"), sheet)
        })
        .collect();
    let root = format!(
        "{XML}<Relationships xmlns=\"http://schemas.openxmlformats.org/package/2006/relationships\">\
         <Relationship Id=\"r1\" Type=\"{of}/officeDocument\" Target=\"xl/workbook.xml\"/></Relationships>"
    );
    let mut parts = vec![
        ("_rels/.rels", &*root),
        ("xl/workbook.xml", &*workbook),
        ("xl/_rels/workbook.xml.rels", &*links),
        ("xl/styles.xml", &*styles),
        ("xl/sharedStrings.xml", &*strings),
    ];
    parts.extend(rows.iter().map(|(name, sheet)| (&**name, &**sheet)));
    archive(&parts)
}

/// An OpenDocument workbook with these tables.
fn document(tables: &str) -> Vec<u8> {
    let content = format!(
        "{XML}<office:document-content><office:automatic-styles><style:style style:name=\"gone\">\
         <style:table-properties table:display=\"false\"/></style:style></office:automatic-styles><office:body>\
         <office:spreadsheet>{tables}</office:spreadsheet></office:body></office:document-content>"
    );
    archive(&[
        ("mimetype", "application/vnd.oasis.opendocument.spreadsheet"),
        ("META-INF/manifest.xml", "<manifest:manifest/>"),
        ("content.xml", &content),
    ])
}

fn read_with(bytes: Vec<u8>, wanted: &Wanted<'_>) -> Result<String> {
    let input = Handle::Bytes(Cursor::new(Bytes::from(bytes)));
    let file = as_csv(input, wanted, &std::env::temp_dir())?.expect("a workbook");
    let mut text = String::new();
    let mut reader = crate::source::scratch::ScratchReader::new(file.into());
    reader.read_to_string(&mut text).unwrap();
    Ok(text)
}

fn wanted(sheet: Option<&str>) -> Wanted<'_> {
    Wanted {
        sheet,
        above: 0,
        below: 0,
        limit: u64::MAX,
    }
}

const ROWS: &str = "<row r=\"2\"><c r=\"A2\" t=\"s\"><v>0</v></c><c r=\"B2\" t=\"inlineStr\"><is><t>n</t></is></c>\
    <c r=\"D2\" t=\"str\"><v>d</v></c></row>\
    <row r=\"4\"><c r=\"A4\" t=\"s\"><v>1</v></c><c r=\"B4\"><v>4930123456</v></c><c r=\"D4\" s=\"1\"><v>45351</v></c></row>\
    <row r=\"5\"><c r=\"A5\" t=\"s\"><v>2</v></c><c r=\"B5\"><v>0.1</v></c><c r=\"D5\" s=\"1\"><v>45351.354166666664</v></c></row>\
    <row r=\"6\"><c r=\"A6\" t=\"b\"><v>1</v></c><c r=\"B6\" t=\"e\"><v>#N/A</v></c><c r=\"D6\" s=\"2\"><v>1.25</v></c></row>\
    <row r=\"7\"><c r=\"A7\" t=\"str\"><v></v></c><c r=\"B7\"><v>-1E300</v></c><c r=\"D7\" s=\"1\"><v>0.5</v></c></row>";

#[test]
fn cells_are_what_their_types_say() {
    let bytes = workbook(&[("hidden", "hidden", ""), ("one", "visible", ROWS)]);
    let expected = "\nmail,n,,d\n\n\"ann,\"\"x\"\"\",4930123456,,2024-02-29\n\"two runs\nand lines\",0.1,,2024-02-29T08:30:00\n\
        true,,,30:00:00\n\"\",-1e300,,12:00:00\n";
    assert_eq!(read_with(bytes.clone(), &wanted(None)).unwrap(), expected);
    assert_eq!(
        read_with(bytes.clone(), &wanted(Some("one"))).unwrap(),
        expected
    );
    assert_eq!(
        read_with(bytes.clone(), &wanted(Some("hidden"))).unwrap(),
        ""
    );
    let error = read_with(bytes.clone(), &wanted(Some("two"))).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Usage);
    // Rows above and below the table are none of it.
    let framed = Wanted {
        above: 3,
        below: 2,
        ..wanted(None)
    };
    let expected = "\n\n\n\"ann,\"\"x\"\"\",4930123456,,2024-02-29\n\"two runs\nand lines\",0.1,,2024-02-29T08:30:00\n";
    assert_eq!(read_with(bytes, &framed).unwrap(), expected);
}

#[test]
fn documents_are_read_as_workbooks_are() {
    let cell = |of: &str, text: &str| format!("<table:table-cell {of}>{text}</table:table-cell>");
    let text = |text: &str| cell("office:value-type=\"string\"", text);
    let rows = [
        text("<text:p>mail</text:p>") + &text("<text:p>n</text:p>"),
        text(
            "<office:annotation><text:p>note</text:p></office:annotation><text:p>a&amp;b<text:s text:c=\"2\"/>c</text:p><text:p>d</text:p>",
        ) + &cell(
            "office:value-type=\"float\" office:value=\"7\"",
            "<text:p>7.00</text:p>",
        ),
        cell(
            "office:value-type=\"date\" office:date-value=\"2024-02-29\" table:number-columns-repeated=\"2\"",
            "",
        ),
        cell("", "")
            + &cell(
                "office:value-type=\"time\" office:time-value=\"PT08H30M00S\"",
                "",
            ),
        cell(
            "office:value-type=\"boolean\" office:boolean-value=\"true\"",
            "",
        ) + &cell(
            "office:value-type=\"string\" office:string-value=\"\" calcext:value-type=\"error\"",
            "<text:p>#N/A</text:p>",
        ),
    ];
    let rows: String = rows
        .iter()
        .map(|row| format!("<table:table-row>{row}</table:table-row>"))
        .collect();
    let end = "<table:table-row table:number-rows-repeated=\"1048571\"><table:table-cell table:number-columns-repeated=\"16384\"/></table:table-row>";
    let tables = format!(
        "<table:table table:name=\"no\" table:style-name=\"gone\"/><table:table table:name=\"yes\">{rows}{end}</table:table>"
    );
    let expected = "mail,n\n\"a&b  c\nd\",7\n2024-02-29,2024-02-29\n,08:30:00\ntrue,\n";
    assert_eq!(
        read_with(document(&tables), &wanted(None)).unwrap(),
        expected
    );
    assert_eq!(
        read_with(document(&tables), &wanted(Some("no"))).unwrap(),
        ""
    );
}

/// What is drawn over a cell is none of its text, and no digits are made up.
#[test]
fn a_cell_is_its_own_text() {
    let cells = "<table:table-cell office:value-type=\"string\"><draw:custom-shape><text:p>drawn</text:p></draw:custom-shape>\
        <text:p>uniqueCount<draw:frame><text:p>drawn</text:p></draw:frame></text:p></table:table-cell>\
        <table:table-cell office:value-type=\"float\" office:value=\"12345678901234567890\"/>";
    let tables = format!(
        "<table:table table:name=\"t\"><table:table-row>{cells}</table:table-row></table:table>"
    );
    assert_eq!(
        read_with(document(&tables), &wanted(None)).unwrap(),
        "uniqueCount,1.2345678901234567e19\n"
    );
    let row = |cell: &str| format!("<row r=\"1\"><c r=\"A1\" {cell}</c></row>");
    for (cell, expected) in [
        ("><v>999999999999999</v>", "999999999999999\n"),
        ("><v>6335123456789010</v>", "6.33512345678901e15\n"),
        ("><v>12345678901234567890</v>", "1.2345678901234567e19\n"),
        ("t=\"d\"><v>2024-02-29T00:00:00</v>", "2024-02-29\n"),
    ] {
        let bytes = workbook(&[("one", "visible", &row(cell))]);
        assert_eq!(read_with(bytes, &wanted(None)).unwrap(), expected);
    }
    for cell in [
        "t=\"e\"><v>#SECRET!</v>",
        "t=\"b\"><v>SECRET</v>",
        "t=\"n\"><v>SECRET</v>",
    ] {
        let bytes = workbook(&[("one", "visible", &row(cell))]);
        let error = read_with(bytes, &wanted(None)).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Data);
        assert!(!error.to_string().contains("SECRET"), "{error}");
    }
}

#[test]
fn what_would_take_too_much_is_refused() {
    let limit = 10_000;
    let rows: String = (1..1000)
        .map(|i| format!("<row r=\"{i}\"><c><v>{i}</v></c></row>"))
        .collect();
    let large = workbook(&[("one", "visible", &rows)]);
    assert!(large.len() < limit);
    let refused = Wanted {
        limit: limit as u64,
        ..wanted(None)
    };
    let error = read_with(large.clone(), &refused).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Resource, "{error}");
    assert!(read_with(large, &wanted(None)).is_ok());
    for (name, before) in [
        ("xl/sharedStrings.xml", ""),
        ("xl\\SHAREDSTRINGS.XML", "<!-- uniqueCount=\"1\" -->"),
        ("sharedStrings.xml", "<x uniqueCount=\"1\"/>"),
    ] {
        let strings = format!("{before}<sst uniqueCount=\"9999999999999\"><si><t>a</t></si></sst>");
        let lying = archive(&[("xl/workbook.xml", "<workbook/>"), (name, &strings)]);
        let error = read_with(lying, &wanted(None)).unwrap_err();
        assert!(error.to_string().contains("more texts"), "{error}");
    }
    // Each style would have a copy of the name.
    let styles = format!(
        "<styleSheet><fonts><font><name val=\"{}\"/></font></fonts><cellXfs>{}</cellXfs></styleSheet>",
        "x".repeat(100_000),
        "<xf fontId=\"0\"/>".repeat(10_000)
    );
    let styled = archive(&[
        ("xl/workbook.xml", "<workbook/>"),
        ("xl/styles.xml", &styles),
    ]);
    let limit = Wanted {
        limit: 256 << 20,
        ..wanted(None)
    };
    let error = read_with(styled, &limit).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Resource, "{error}");
    // Long texts in each cell of a row.
    let text = "x".repeat(1 << 20);
    let cell = format!(
        "<table:table-cell table:number-columns-repeated=\"100\" office:value-type=\"string\"><text:p>{text}</text:p></table:table-cell>"
    );
    let wide = document(&format!(
        "<table:table table:name=\"t\"><table:table-row>{cell}</table:table-row></table:table>"
    ));
    let error = read_with(wide, &wanted(None)).unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::RowTooLong { .. }),
        "{error}"
    );
    // A few bytes that stand for very many cells.
    let cell = "<table:table-cell table:number-columns-repeated=\"16384\" office:value-type=\"string\"><text:p>x</text:p></table:table-cell>";
    let row =
        format!("<table:table-row table:number-rows-repeated=\"1048576\">{cell}</table:table-row>");
    let bomb = document(&format!(
        "<table:table table:name=\"t\">{row}</table:table>"
    ));
    assert_eq!(
        read_with(bomb, &wanted(None)).unwrap_err().class(),
        ErrorClass::Data
    );
}

#[test]
fn what_is_no_sheet_is_named() {
    let handle = |bytes: &[u8]| Handle::Bytes(Cursor::new(Bytes::copy_from_slice(bytes)));
    let found = |bytes: &[u8]| as_csv(handle(bytes), &wanted(None), &std::env::temp_dir());
    assert!(found(b"id,mail\n").unwrap().is_none());
    assert!(found(&archive(&[("a.txt", "text")])).unwrap().is_none());
    let binary = found(&archive(&[("xl/workbook.bin", "")])).unwrap_err();
    assert!(binary.to_string().contains("binary"), "{binary}");
    let locked = "<manifest:manifest><manifest:file-entry><manifest:encryption-data/></manifest:file-entry></manifest:manifest>";
    let locked = archive(&[("content.xml", "x"), ("META-INF/manifest.xml", locked)]);
    let error = found(&locked).unwrap_err();
    assert!(error.to_string().contains("encrypted"), "{error}");
    // Whatever is cut off fails; what is changed may, and does nothing else.
    let whole = workbook(&[("one", "visible", ROWS)]);
    for length in (4..whole.len()).step_by(37) {
        assert!(found(&whole[..length]).is_err(), "{length}");
    }
    for place in (0..whole.len()).step_by(11) {
        let mut changed = whole.clone();
        changed[place] ^= 1;
        let _ = found(&changed);
    }
}
