//! How long servers are waited for.

use std::time::Duration;

use object_store::{BackoffConfig, RetryConfig};

/// How long a server is waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Until it accepts a connection.
    pub(crate) connect: Duration,
    /// Until it says another word.
    pub(crate) silence: Duration,
    /// Until all attempts of a request have been made.
    pub(crate) attempts: Duration,
    /// Until an answer is complete, besides what its bytes may take.
    pub(crate) answer: Duration,
    /// A server that sends less is taken for one that does not answer.
    pub(crate) bytes_per_second: u64,
}

impl Limits {
    /// How often a request is made at most.
    pub(crate) const ATTEMPTS: usize = 5;

    pub(crate) const USUAL: Limits = Limits {
        connect: Duration::from_secs(10),
        silence: Duration::from_secs(30),
        attempts: Duration::from_secs(60),
        answer: Duration::from_secs(120),
        bytes_per_second: 8 << 10,
    };

    /// For an answer, or a request, of so many bytes.
    pub(crate) fn for_bytes(&self, bytes: u64) -> Duration {
        self.answer + Duration::from_secs(bytes / self.bytes_per_second)
    }

    pub(crate) fn retries(&self) -> RetryConfig {
        RetryConfig {
            backoff: BackoffConfig {
                init_backoff: Duration::from_millis(100).min(self.attempts),
                max_backoff: Duration::from_secs(10).min(self.attempts),
                base: 2.0,
            },
            max_retries: Limits::ATTEMPTS - 1,
            retry_timeout: self.attempts,
        }
    }
}
