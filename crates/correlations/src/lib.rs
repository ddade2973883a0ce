//! What two parties prepare before anything depends on items: oblivious transfers and vector OLE.
#![forbid(unsafe_code)]
