//! Why a job failed.

/// Why a job failed: because of this side's table, or because of the session with the peer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The table could not be read, or the result could not be written.
    #[error(transparent)]
    Table(#[from] vesica_tables::Error),
    /// No row of the table has a usable key, and the caller did not allow that.
    #[error(
        "no row has a usable key: {} rows, of which {} are blank and {} are invalid",
        .0.rows, .0.blanks, .0.invalid
    )]
    NoKeys(vesica_tables::Counts),
    /// Connecting, the contract or the protocol failed.
    #[error(transparent)]
    Session(#[from] vesica_session::Error),
}

impl Error {
    /// The command's exit code for it: 2 usage, 3 the input data, 4 the network or the peer went
    /// away, 5 the peer misbehaved, 6 the two sides disagree on the contract, 7 a resource limit.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Table(error) => error.exit_code(),
            Error::NoKeys(_) => 3,
            Error::Session(error) => error.exit_code(),
        }
    }

    /// One line of what to do about it, where that helps.
    pub fn hint(&self) -> Option<String> {
        match self {
            Error::Table(error) => error.hint(),
            Error::NoKeys(_) => Some(
                "`vesica check` shows what is wrong with them; where such a table is fine, pass --allow-empty"
                    .to_owned(),
            ),
            Error::Session(error) => error.hint().map(str::to_owned),
        }
    }
}
