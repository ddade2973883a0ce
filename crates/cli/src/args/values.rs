//! The values of options.

use vesica::parse_quote;
use vesica_session::Link;

/// The quote of CSV, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Quote(pub(super) Option<u8>);

pub(super) fn quote(text: &str) -> Result<Quote, vesica::Error> {
    parse_quote(text).map(Quote)
}

pub(super) fn network(name: &str) -> Result<String, String> {
    match Link::from_name(name) {
        Some(_) => Ok(name.to_owned()),
        None => {
            let names: Vec<_> = Link::NAMED.iter().map(|(n, _)| *n).collect();
            Err(format!("networks are: {}", names.join(", ")))
        }
    }
}
