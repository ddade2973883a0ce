//! Ids of the keys of both sides, in columns of this side's rows and as a table of all.

use vesica_psi::Spine;
use vesica_tables::{ColumnType, Error as TableError, Output, PeerColumn, put_label};

/// The place of an id in the list of all, counted from 1.
const ROW: &str = "spine_row";
/// An id, in hexadecimal digits.
const ID: &str = "spine_id";

/// The columns that rows with ids have.
pub(crate) fn id_columns() -> Vec<PeerColumn> {
    let column = |name: &str, of| PeerColumn {
        name: name.to_owned(),
        of,
    };
    vec![
        column(ROW, ColumnType::named("int64")),
        column(ID, ColumnType::TEXT),
    ]
}

/// What goes with each key of this side for these columns, in order, and how many bytes that are.
pub(crate) fn id_labels(spine: &Spine) -> (Vec<u8>, usize) {
    // Two bytes say how long a text is.
    let digits = spine.ids.len().to_string().len() + 2 * spine.bytes;
    let bytes = digits + 2 * size_of::<u16>();
    let mut labels = Vec::with_capacity(bytes * spine.rows.len());
    for row in &spine.rows {
        let id = hexadecimal(spine, spine.ids[*row as usize]);
        put_label(&[&(row + 1).to_string(), &id], bytes, &mut labels);
    }
    (labels, bytes)
}

fn hexadecimal(spine: &Spine, id: u128) -> String {
    format!("{id:0width$x}", width = 2 * spine.bytes)
}

/// Writes the list of all ids, and puts the file into its place.
pub(crate) fn write_ids(mut file: Output, spine: &Spine) -> Result<(), TableError> {
    file.write_text(|out| {
        writeln!(out, "{ROW},{ID}")?;
        for (row, id) in (1..).zip(&spine.ids) {
            let row: u64 = row;
            writeln!(out, "{row},{}", hexadecimal(spine, *id))?;
        }
        Ok(())
    })?;
    file.commit().map(|_| ())
}
