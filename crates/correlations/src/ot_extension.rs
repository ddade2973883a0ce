//! Many oblivious transfers from 128.
