//! Telling the sender which of its masks matched.

use vesica_wire::{Channel, Error, Misbehaviour};

use super::MATCHED;
use super::bits::{Gaps, Reader, Writer};

/// Which positions are listed: the matches, or the others if the matches are more than half.
fn listed(count: usize, end: usize) -> (bool, usize) {
    let others = 2 * count > end;
    (others, if others { end - count } else { count })
}

/// The numbers below `end` that are not in `positions`, which ascend.
fn complement(positions: &[u32], end: usize) -> Vec<u32> {
    let mut rest = positions.iter().peekable();
    (0..end as u32)
        .filter(|i| rest.next_if_eq(&i).is_none())
        .collect()
}

/// Says that the masks at these `positions`, ascending and less than `end`, matched.
pub(super) fn send(channel: &mut dyn Channel, end: usize, positions: &[u32]) -> Result<(), Error> {
    let count = positions.len() as u32;
    channel.send(MATCHED, count.to_le_bytes().to_vec())?;
    let (others, count) = listed(positions.len(), end);
    let inverted = others.then(|| complement(positions, end));
    let positions = inverted.as_deref().unwrap_or(positions);
    if count == 0 {
        return Ok(());
    }
    let gaps = Gaps::of_subset(end, count);
    for chunk in positions.chunks(gaps.per_frame(0)) {
        let mut writer = Writer::with_capacity(gaps.expected_bytes(chunk.len(), 0));
        gaps.write_first(&mut writer, chunk[0].into());
        for pair in chunk.windows(2) {
            gaps.write_next(&mut writer, pair[0].into(), pair[1].into());
        }
        channel.send(MATCHED, writer.finish())?;
    }
    Ok(())
}

/// Receives the positions, ascending and less than `end`, of at most `most` masks.
pub(super) fn receive(
    channel: &mut dyn Channel,
    end: usize,
    most: usize,
) -> Result<Vec<u32>, Error> {
    let bad = |problem| Misbehaviour::BadValue {
        what: MATCHED.name,
        problem,
    };
    let head = channel.recv(MATCHED, 4)?;
    let Ok(count) = <[u8; 4]>::try_from(&head[..]) else {
        return Err(Misbehaviour::WrongLength {
            what: MATCHED.name,
            bytes: head.len(),
        }
        .into());
    };
    let count = u32::from_le_bytes(count) as usize;
    if count > end.min(most) {
        return Err(bad("more matches than items").into());
    }
    let (others, count) = listed(count, end);
    let mut positions: Vec<u32> = Vec::with_capacity(count);
    while positions.len() < count {
        let gaps = Gaps::of_subset(end, count);
        let here = gaps.per_frame(0).min(count - positions.len());
        let frame = channel.recv(MATCHED, gaps.most_bytes(here, 0))?;
        let mut reader = Reader::new(MATCHED.name, frame);
        let mut value = gaps.read_first(&mut reader)?;
        if positions.last().is_some_and(|last| value <= (*last).into()) {
            return Err(bad("out of order").into());
        }
        positions.push(value as u32);
        for _ in 1..here {
            value = gaps.read_next(&mut reader, value)?;
            positions.push(value as u32);
        }
        reader.finish()?;
    }
    Ok(if others {
        complement(&positions, end)
    } else {
        positions
    })
}
