//! Frames over a pair of byte halves.

/// A channel that frames messages over a connection.
pub struct FramedChannel {}
