//! What a party writes down of a run, and what both sides have signed before it begins.

use vesica_session::{Agreed, LabelExchange, Role};
use vesica_tables::{KeySpec, Source};

use super::Party;
use crate::account::{EachDigest, OfTable, Opening};
use crate::stored::Stored;
use crate::{Error, Observer};

impl Party {
    /// What this side writes down of a run over a table that has been read, if it keeps account.
    pub(crate) fn opening(
        &self,
        named: (Role, &str),
        source: &Source,
        key: &KeySpec,
        keys: &Stored,
        observer: &mut dyn Observer,
    ) -> Result<Option<Opening>, Error> {
        let table = OfTable {
            source: Some(source),
            key,
            rows: keys.counts().rows,
            items: keys.counts().items,
        };
        let each: EachDigest<'_> = &|add| keys.each_digest(add);
        let opening = self.opening_over(named, &table, observer)?;
        let compared = opening.map(|opening| opening.with_keys(table.items, each));
        compared.transpose()
    }

    /// The same of a table whose keys are not here.
    pub(super) fn opening_over(
        &self,
        named: (Role, &str),
        table: &OfTable<'_>,
        observer: &mut dyn Observer,
    ) -> Result<Option<Opening>, Error> {
        let Some(account) = &self.account else {
            return Ok(None);
        };
        let values = self.values.iter().map(|value| value.name.clone()).collect();
        let payload = match (&self.labels, &self.payload) {
            (LabelExchange::Offered(terms), _) => terms.columns.clone(),
            (_, Some(payload)) => vec![payload.name.clone()],
            _ => Vec::new(),
        };
        let own = self.identity.fingerprint();
        let opening = Opening::new(account, own, named, table, observer)?;
        Ok(Some(opening.with_columns(values, payload)))
    }

    /// What both sides are to have before a run begins: an entry, if this side keeps account, and receipts, if either does.
    pub(super) fn begin_account(
        &self,
        mut opening: Option<&mut Opening>,
        role: Role,
        agreed: &mut Agreed,
        observer: &mut dyn Observer,
    ) -> Result<(), Error> {
        let peer = agreed.peer().unwrap_or(self.peer);
        if let Some(opening) = &mut opening {
            opening.begin(agreed.agreement(), peer)?;
        }
        let head = opening.as_ref().and_then(|opening| opening.head());
        let receipts = agreed.exchange_receipts(role, &self.identity, head);
        let receipts = receipts.map_err(Error::from);
        let kept = receipts.and_then(|receipts| match (&opening, receipts) {
            (Some(opening), Some(receipts)) => opening.keep(receipts, observer),
            _ => Ok(()),
        });
        if let (Err(error), Some(opening)) = (&kept, &opening) {
            opening.end_unanswered(error, observer);
        }
        kept
    }
}
