//! What other programs write: forms that the libraries would take for something else are read as meant, or refused by name.

use std::sync::Arc;

use crate::common::*;
use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use parquet::basic::{Compression, Encoding};
use parquet::column::writer::ColumnWriter;
use parquet::data_type::{ByteArray, FixedLenByteArray};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterVersion};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use vesica_tables::*;

fn numbers() -> RecordBatch {
    let ids = Int64Array::from_iter_values((0..50).map(|i| i % 7));
    batch(&[("id", Arc::new(ids) as ArrayRef)])
}

/// Reads all rows with the column `id` as key, and gives them back as the second pass does.
fn copied(name: &str, bytes: Vec<u8>) -> Result<(TableKeys, Vec<u8>)> {
    let table = Source::from_bytes(name, bytes, SourceOptions::default())?;
    let keys = read_keys(&table, &key("id"))?;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("o.dat");
    let mut output = Output::create(&path, &table)?;
    let all = vec![true; keys.digests().len()];
    write_rows(&table, &keys.rows_of(&all), &mut output)?;
    output.commit()?;
    Ok((keys, std::fs::read(path).unwrap()))
}

#[track_caller]
fn refused(name: &str, bytes: Vec<u8>, words: &str) {
    let error = copied(name, bytes).unwrap_err();
    assert!(error.to_string().contains(words), "{error}");
    assert_eq!(error.class(), ErrorClass::Data);
}

/// Where a field of a table is in the bytes of a flatbuffer, if it is there, and where its offset would be.
fn field(bytes: &[u8], table: usize, slot: usize) -> (Option<usize>, usize) {
    let number = |at: usize| usize::from(u16::from_le_bytes(*bytes[at..].first_chunk().unwrap()));
    let vtable = table - i32::from_le_bytes(*bytes[table..].first_chunk().unwrap()) as usize;
    let entry = vtable + 4 + 2 * slot;
    let is_there = entry < vtable + number(vtable) && number(entry) > 0;
    (is_there.then(|| table + number(entry)), entry)
}

fn follow(bytes: &[u8], at: usize) -> usize {
    at + u32::from_le_bytes(*bytes[at..].first_chunk().unwrap()) as usize
}

/// Makes the schema of a stream, or of the footer of a file, that of a big-endian machine.
fn big_endian(mut bytes: Vec<u8>, root: usize, slot: usize) -> Vec<u8> {
    let (at, _) = field(&bytes, root, slot);
    let schema = follow(&bytes, at.unwrap());
    let (endianness, entry) = field(&bytes, schema, 0);
    assert_eq!(endianness, None, "little-endian goes without saying");
    // Anything that reads as 1 there.
    let one = (schema + 4..)
        .step_by(2)
        .find(|at| bytes[*at..*at + 2] == [1, 0])
        .unwrap();
    bytes[entry..entry + 2].copy_from_slice(&((one - schema) as u16).to_le_bytes());
    bytes
}

/// The first message of a stream, and the footer of a file.
fn first_message(stream: &[u8]) -> usize {
    follow(stream, 8)
}

fn footer(file: &[u8]) -> usize {
    let end = file.len() - 10;
    let length = u32::from_le_bytes(*file[end..].first_chunk().unwrap());
    follow(file, end - length as usize)
}

#[test]
fn arrow_of_other_processors_and_versions_is_refused_by_name() {
    let (stream, file) = (arrow_stream(&numbers()), arrow_file(&numbers()));
    // A message has its schema as the third field, a footer as the second.
    refused(
        "t.arrows",
        big_endian(stream.clone(), first_message(&stream), 2),
        "big-endian",
    );
    refused(
        "t.arrow",
        big_endian(file.clone(), footer(&file), 1),
        "big-endian",
    );
    for (version, named) in [(5u8, "version 6"), (9, "version 10"), (2, "version 3")] {
        let mut other = stream.clone();
        let (at, _) = field(&stream, first_message(&stream), 0);
        other[at.unwrap()] = version;
        refused("t.arrows", other, named);
    }
    let mut other = file.clone();
    let (at, _) = field(&file, footer(&file), 0);
    other[at.unwrap()] = 5;
    refused("t.arrow", other, "version 6");
}

#[test]
fn messages_are_as_long_as_the_footer_says() {
    let mut file = arrow_file(&numbers());
    // The schema comes first, and is not looked for: the length of the message after it.
    let marks = |at: &usize| file[*at..*at + 4] == [0xff; 4];
    let second = (8..file.len() - 8).step_by(8).filter(marks).nth(1).unwrap();
    let length = u32::from_le_bytes(*file[second + 4..].first_chunk().unwrap());
    file[second + 4..second + 8].copy_from_slice(&(length + 8).to_le_bytes());
    refused("t.arrow", file, "longer than the footer says");
}

#[test]
fn streams_of_old_versions_are_streams_whatever_they_are_called() {
    let stream = arrow_stream(&numbers());
    // Before 0.15 nothing stood before the length of a message.
    let mut old = Vec::new();
    let mut at = 0;
    while at < stream.len() {
        let length = u32::from_le_bytes(*stream[at + 4..].first_chunk().unwrap()) as usize;
        old.extend_from_slice(&stream[at + 4..at + 8 + length]);
        if length == 0 {
            break;
        }
        let message = follow(&stream, at + 8);
        let (body, _) = field(&stream, message, 3);
        let body = body.map_or(0, |at| {
            i64::from_le_bytes(*stream[at..].first_chunk().unwrap())
        });
        let end = at + 8 + length + body as usize;
        old.extend_from_slice(&stream[at + 8 + length..end]);
        at = end;
    }
    let expected = keys("t.arrows", stream, "id").unwrap();
    for name in ["t.stream", "t.csv", "t"] {
        let found = keys(name, old.clone(), "id").unwrap();
        assert_eq!(found.digests(), expected.digests(), "{name}");
        assert_eq!(found.row_items(), expected.row_items(), "{name}");
    }
}

/// Numbers in pages of the second version, which are compressed.
fn second_version(by: &str) -> Vec<u8> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::None)
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .set_column_encoding("id".into(), Encoding::PLAIN)
        .set_created_by(by.to_owned());
    parquet_with(&numbers(), properties)
}

/// The same, with a header that says that they are not compressed.
fn with_wrong_flag(by: &str) -> Vec<u8> {
    let mut bytes = second_version(by);
    // Seven fields of the header of the second version: encoding PLAIN, the lengths of levels, and the flag.
    let header = &bytes[4..60];
    let flags: Vec<usize> = (4..header.len() - 1)
        .filter(|at| header[*at] == 0x11 && header[at - 4] == 0x15 && header[at - 2] == 0x15)
        .collect();
    assert_eq!(flags.len(), 1, "{header:x?}");
    bytes[4 + flags[0]] = 0x12;
    bytes
}

#[test]
fn compressed_pages_that_deny_it_are_read_or_refused() {
    let expected = keys("t.parquet", parquet(&numbers()), "id").unwrap();
    let read = |bytes: Vec<u8>| {
        let (found, result) = copied("t.parquet", bytes).unwrap();
        assert_eq!(found.digests(), expected.digests());
        assert_eq!(found.row_items(), expected.row_items());
        let again = keys("t.parquet", result, "id").unwrap();
        assert_eq!(again.row_items(), expected.row_items());
    };
    read(second_version("someone"));
    // Arrow in C++ up to version 2.0 wrote so, and called itself so.
    for by in [
        "parquet-cpp version 1.5.1-SNAPSHOT",
        "parquet-cpp version 1.4",
        "parquet-cpp",
    ] {
        read(with_wrong_flag(by));
        read(second_version(by));
    }
    for by in [
        "parquet-cpp-arrow version 3.0.0",
        "parquet-cpp version 2.0.0",
        "someone",
        "",
    ] {
        refused(
            "t.parquet",
            with_wrong_flag(by),
            "says that it is not compressed",
        );
    }
}

#[test]
fn texts_that_begin_with_more_than_there_is_are_refused() {
    let texts = |version| {
        let texts = StringArray::from(vec![Some("ab"), None, Some("abc"), Some("b")]);
        let table = batch(&[("id", Arc::new(texts) as ArrayRef)]);
        let properties = WriterProperties::builder()
            .set_compression(Compression::UNCOMPRESSED)
            .set_dictionary_enabled(false)
            .set_statistics_enabled(EnabledStatistics::None)
            .set_writer_version(version)
            .set_column_encoding("id".into(), Encoding::DELTA_BYTE_ARRAY);
        parquet_with(&table, properties)
    };
    for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
        let mut bytes = texts(version);
        let found = keys("t.parquet", bytes.clone(), "id").unwrap();
        let expected = keys("t.csv", "id,x\nab,1\n,1\nabc,1\nb,1\n", "id").unwrap();
        assert_eq!(found.digests(), expected.digests());
        // The lengths 0, 2 and 0 in common, in a block of 128 in 4 miniblocks: differences of 2 and -2, above the least.
        let lengths = [0x80, 1, 4, 3, 0];
        let at = bytes
            .windows(5)
            .position(|window| window == lengths)
            .unwrap();
        assert_eq!(bytes[at + 5], 3, "the least difference is -2");
        // It is 0, so that lengths in common are 0, 4 and 4.
        bytes[at + 5] = 0;
        refused("t.parquet", bytes, "begins with more of the one before it");
    }
}

#[test]
fn pages_with_wrong_checksums_are_refused() {
    let bytes = include_bytes!("../../../../vectors/tables/checksums.parquet").to_vec();
    let (found, _) = copied("t.parquet", bytes.clone()).unwrap();
    assert_eq!(found.digests().len(), 3);
    // The first number.
    let at = bytes
        .windows(8)
        .position(|window| window == 1u64.to_le_bytes())
        .unwrap();
    let mut other = bytes;
    other[at] = 4;
    refused("t.parquet", other, "checksum");
}

#[test]
fn dictionaries_of_wrong_sizes_are_refused_by_name() {
    let ids = StringArray::from_iter_values((0..50).map(|i| ["a", "b", "c"][i % 3]));
    let other = Int64Array::from_iter_values(0..50);
    let table = batch(&[("id", Arc::new(other) as ArrayRef), ("text", Arc::new(ids))]);
    let written_by = |by: &str, has_dictionary| {
        let properties = WriterProperties::builder()
            .set_dictionary_enabled(has_dictionary)
            .set_created_by(by.to_owned());
        parquet_with(&table, properties)
    };
    for by in [
        "parquet-mr",
        "parquet-mr version 1.2.8",
        "parquet-mr version 1.2.8-SNAPSHOT (build 1)",
    ] {
        refused(
            "t.parquet",
            written_by(by, true),
            "parquet-mr before version 1.2.9",
        );
        copied("t.parquet", written_by(by, false)).unwrap();
    }
    for by in [
        "parquet-mr version 1.2.9",
        "parquet-mr version 1.13.0 (build 2)",
        "parquet-mri",
        "",
    ] {
        copied("t.parquet", written_by(by, true)).unwrap();
    }
}

/// A column of bytes as its type says, beside the key.
fn of_schema(column: &str, values: &[&[u8]]) -> Vec<u8> {
    let schema = format!("message schema {{ required int64 id; {column}; }}");
    let schema = Arc::new(parse_message_type(&schema).unwrap());
    let mut bytes = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, Arc::default()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut number = 0;
    while let Some(mut column) = group.next_column().unwrap() {
        match column.untyped() {
            ColumnWriter::Int64ColumnWriter(ids) => {
                let all: Vec<i64> = (0..values.len() as i64).collect();
                ids.write_batch(&all, None, None).unwrap();
            }
            ColumnWriter::ByteArrayColumnWriter(texts) => {
                let all: Vec<ByteArray> = values.iter().map(|v| v.to_vec().into()).collect();
                texts.write_batch(&all, None, None).unwrap();
            }
            ColumnWriter::FixedLenByteArrayColumnWriter(ids) => {
                let all: Vec<FixedLenByteArray> = (values.iter())
                    .map(|v| ByteArray::from(v.to_vec()).into())
                    .collect();
                ids.write_batch(&all, None, None).unwrap();
            }
            _ => panic!("another column"),
        }
        column.close().unwrap();
        number += 1;
    }
    assert_eq!(number, 2);
    group.close().unwrap();
    writer.close().unwrap();
    bytes
}

/// All rows of the column `v`, as record batches have them.
fn values_of(bytes: Vec<u8>) -> ArrayRef {
    let table = source("t.parquet", bytes);
    let rows = read_keys(&table, &key("id")).unwrap();
    let all = rows.rows_of(&vec![true; rows.digests().len()]);
    let (schema, batches) = select_rows(&table, &all).unwrap();
    let all = arrow_select::concat::concat_batches(&schema, &batches).unwrap();
    all.column_by_name("v").unwrap().clone()
}

#[test]
fn types_that_are_read_and_not_written_come_out_as_others() {
    // Decimals in as many bytes as they take.
    let decimals = of_schema(
        "required binary v (DECIMAL(9,2))",
        &[&[4], &[1, 0], &[0xff]],
    );
    // A type whose number is not given to any yet: 9 in the place of UUID's.
    let ids = [[1; 16], [2; 16], [0xff; 16]];
    let ids: Vec<&[u8]> = ids.iter().map(|id| &id[..]).collect();
    let mut unknown = of_schema("required fixed_len_byte_array(16) v (UUID)", &ids);
    let uuid = unknown
        .windows(3)
        .rposition(|window| window == [0xec, 0, 0]);
    unknown[uuid.unwrap()] = 0x9c;
    for bytes in [decimals, unknown] {
        let (_, result) = copied("t.parquet", bytes.clone()).unwrap();
        assert_eq!(&values_of(result), &values_of(bytes));
    }
}
