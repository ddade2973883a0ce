//! Correlations from a trusted third party, for tests and benchmarks only.
