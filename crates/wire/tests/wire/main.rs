//! Frames between two parties: limits, deadlines, heartbeats, spoilt frames and slow links.

mod channel;
mod common;
mod heartbeat;
mod link;
mod look;
mod tamper;
