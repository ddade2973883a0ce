//! Whose fault an error is.

/// Whose fault an error is. This list is complete: callers match all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// The caller's: it asked for something impossible.
    Usage,
    /// The data's: what was read, what this side has stored, or a database or object store that has it or gets the result,
    /// and cannot be reached or refuses.
    Data,
    /// The network's, or the peer's, which went away or has not come. Who shows another key in its place is no peer, and
    /// proves nothing about it.
    Network,
    /// The peer's: it has proved that it is the pinned one, and misbehaved.
    Peer,
    /// Nobody's: the two sides want different jobs, or the peer wants another one for its peer.
    Contract,
    /// A limit of this machine or of the run: the disk is full, too many files are open.
    Resource,
    /// Nobody's: this side's own user or program has stopped it.
    Interrupted,
}
