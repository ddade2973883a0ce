//! The protocol over the keys of one bucket, or of a whole set.

use rand_core::CryptoRng;
use vesica_keys::KeyBlock;
use vesica_psi::{Exact, Input, Output, Prepared};
use vesica_wire::{Channel, Error as WireError, Limit};
use zeroize::{Zeroize, Zeroizing};

use crate::buckets::pad;
use crate::random::fresh_rng;
use crate::terms::{KEY_BITS, LEARNS};
use crate::{
    Agreement, Attempted, GROUP_BYTES, Learns, Role, ValueTerms, halves, order, salt_items,
};

/// A run over one bucket, which both sides have reached.
pub(crate) struct BucketRun<'a> {
    pub(crate) role: Role,
    pub(crate) agreement: &'a Agreement,
    /// The session of this run alone.
    pub(crate) session: [u8; 32],
}

impl<'a> BucketRun<'a> {
    /// The only bucket of a run.
    pub(crate) fn whole(role: Role, agreement: &'a Agreement) -> BucketRun<'a> {
        BucketRun {
            role,
            agreement,
            session: agreement.params.session,
        }
    }

    /// What the run has come to.
    fn ended(&self, output: Output) -> Attempted {
        Attempted {
            output,
            name: *blake3::keyed_hash(&self.session, b"vesica/1 name of an attempt").as_bytes(),
        }
    }
}

/// The protocol over the keys of one bucket, with fresh randomness, or with that of this side's turn.
pub(crate) fn one_bucket(
    channel: &mut dyn Channel,
    run: &BucketRun<'_>,
    stored: Option<Zeroizing<Vec<u8>>>,
    mut keys: KeyBlock<'_>,
) -> Result<Attempted, WireError> {
    let Some(turns) = &run.agreement.turns else {
        return one_bucket_with(channel, run, stored, keys, &mut fresh_rng()?);
    };
    // Each turn reads the table anew, whose rows may have another order then.
    let order = sort(keys.digests.to_mut());
    let rng = &mut turns.rng(&run.session, &keys.digests);
    let mut attempted = one_bucket_with(channel, run, stored, keys, rng)?;
    if let Output::Matches(matched) = &mut attempted.output {
        let mut in_rows = vec![false; matched.len()];
        (order.iter().zip(&*matched)).for_each(|(row, matched)| in_rows[*row] = *matched);
        *matched = in_rows;
    }
    Ok(attempted)
}

/// Puts digests into their order; gives the place that each had.
fn sort(digests: &mut [[u8; 32]]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..digests.len()).collect();
    order.sort_unstable_by_key(|place| digests[*place]);
    let sorted: Vec<_> = order.iter().map(|place| digests[*place]).collect();
    digests.copy_from_slice(&sorted);
    order
}

/// The same with this randomness.
pub(crate) fn one_bucket_with(
    channel: &mut dyn Channel,
    run: &BucketRun<'_>,
    stored: Option<Zeroizing<Vec<u8>>>,
    mut keys: KeyBlock<'_>,
    rng: &mut dyn CryptoRng,
) -> Result<Attempted, WireError> {
    let &BucketRun {
        role,
        agreement,
        session,
    } = run;
    let (protocol, task) = (agreement.protocol, &agreement.task);
    let mut params = agreement.params.clone();
    if agreement.contract.buckets > 1 {
        channel.begin_phase("items");
    }
    params.session = session;
    let own = keys.digests.len();
    let columns = agreement.contract.values_of(role);
    check_values(columns, own, keys.values.as_deref())?;
    // What is handed over, or shared: a contract has one of these at most.
    let label_bytes = match role {
        Role::Receiver if task.groups.is_some() => GROUP_BYTES,
        Role::Receiver => task.string_bytes.receiver,
        Role::Sender => task.label_bytes.max(task.string_bytes.sender),
    };
    if keys.labels.as_ref().map_or(0, |labels| labels.len()) != own * label_bytes {
        let reason = "the items do not have the labels that were declared";
        return Err(WireError::limit(Limit::Input, reason));
    }
    let compared = protocol.spec().compares(agreement.contract.get(&KEY_BITS));
    if let Some((_, bits)) = compared {
        check_numbers(bits, own, keys.numbers.as_deref())?;
    }
    let mut items = salt_items(&params.session, std::mem::take(&mut keys.digests));
    if !pad(&mut items, agreement.own_size(role), rng) {
        // The number is not for the peer.
        return Err(WireError::limit(
            Limit::Encoding,
            "too many items fell into one bucket; run again",
        ));
    }
    // Padding matches nothing: whatever its values are, they count for nothing.
    let values = keys.values.as_deref();
    let values = values.map(|values| padded(values, items.len() * columns.len()));
    let labels = keys.labels.as_deref().unwrap_or_default();
    // What pads a union has no rows.
    let labelled = if task.reveal.is_rows() {
        own
    } else {
        items.len()
    };
    let groups = match (&task.groups, role) {
        (Some(groups), Role::Receiver) => {
            let all = agreement.grouping.as_ref().ok_or_else(no_groups)?;
            Some(all.groups_of(labels, groups.capacities.as_ref(), items.len())?)
        }
        _ => None,
    };
    let is_handed_in = label_bytes > 0 && groups.is_none();
    let labels = is_handed_in.then(|| padded(labels, labelled * label_bytes));
    let numbers = keys.numbers.take();
    drop(keys);
    let input = Input::with_values(&items, values.as_deref().map(Vec::as_slice));
    let input = input.with_labels(labels.as_deref().map(Vec::as_slice));
    let input = input.with_groups(groups.as_deref().map(Vec::as_slice));
    let exact = compared.zip(numbers.as_deref());
    let input = exact.map_or(input, |((_, bits), numbers)| {
        input.with_exact(Exact { bits, numbers })
    });
    if role == Role::Receiver || stored.is_some() {
        channel.begin_phase("prepare");
    }
    let prepared = match (stored, role) {
        (Some(half), _) => halves::load(
            protocol,
            role,
            &params,
            agreement.contract.get(&KEY_BITS),
            half,
        )?,
        (None, Role::Receiver) => protocol.prepare(items.len(), rng),
        (None, Role::Sender) => Prepared::nothing(),
    };
    let mut output = match role {
        Role::Receiver => protocol.receive(channel, &params, task, input, prepared, rng)?,
        Role::Sender => protocol.send(channel, &params, task, input, prepared, rng)?,
    };
    // Padding is nobody's item, whatever the peer says of it.
    match &mut output {
        Output::Matches(matched) => matched.truncate(own),
        Output::Labelled {
            matched,
            labels,
            bytes,
        } => {
            matched.truncate(own);
            labels.truncate(own * *bytes);
        }
        Output::Shares(shares) => {
            for item in shares.items.iter_mut().flatten() {
                *item = item.filter(|item| (*item as usize) < own);
            }
        }
        _ => {}
    }
    if agreement.contract.get(&LEARNS) == Learns::Aligned
        && let Some(matched) = output.matched()
    {
        order::confirm(channel, role, &params.session, &items[..own], matched)?;
    }
    Ok(run.ended(output))
}

fn no_groups() -> WireError {
    WireError::limit(
        Limit::Input,
        "the run has groups, and this side does not know them",
    )
}

/// Refuses values that are not what this side has declared.
fn check_values(
    columns: &[ValueTerms],
    items: usize,
    values: Option<&[i64]>,
) -> Result<(), WireError> {
    let wrong = |reason: &str| Err(WireError::limit(Limit::Input, reason));
    let values = values.unwrap_or_default();
    if values.len() != items * columns.len() {
        return wrong("the items do not have the values that the contract has");
    }
    let above = |(value, terms): (&i64, &ValueTerms)| u64::from(value.unsigned_abs() > terms.bound);
    match values.iter().zip(columns.iter().cycle()).map(above).sum() {
        0u64 => Ok(()),
        _ => wrong("a value exceeds the bound that was declared"),
    }
}

/// Refuses keys that are to be compared as numbers of so many bits and have none.
fn check_numbers(bits: u32, keys: usize, numbers: Option<&[u64]>) -> Result<(), WireError> {
    let most = u64::MAX >> (64 - bits);
    match numbers {
        Some(numbers) if numbers.len() == keys && numbers.iter().all(|n| *n <= most) => Ok(()),
        _ => Err(WireError::limit(
            Limit::Input,
            format!("a key is no number of {bits} bits"),
        )),
    }
}

/// The values or labels of a bucket's keys, and zeros for its padding.
fn padded<T>(of_keys: &[T], size: usize) -> Zeroizing<Vec<T>>
where
    T: Copy + Default + Zeroize,
{
    let mut padded = Zeroizing::new(Vec::with_capacity(size));
    padded.extend_from_slice(of_keys);
    padded.resize(size, T::default());
    padded
}
