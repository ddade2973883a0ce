//! Two parties on one machine, from the first connection to the last bucket.

mod buckets;
mod common;
mod connect;
mod contract;
mod gateway;
mod identity;
mod job;
mod labels;
mod numbers;
mod proxy;
mod seam;
mod side_by_side;
mod stakes;
mod stay;
mod tally;
mod threshold;
mod web_socket;
