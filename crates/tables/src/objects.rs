//! Tables at addresses: in object stores, and at HTTPS servers.
//!
//! [`address`] reads addresses, [`stored`] says which are of one object, [`find`] turns one into the objects that it stands for, [`object`] reads them and [`upload`]
//! writes them. What is asynchronous is in [`store`], behind calls that block, and what is said to servers in [`client`].

pub(crate) mod address;
#[cfg(feature = "object-stores")]
pub(crate) mod client;
#[cfg(feature = "object-stores")]
pub(crate) mod extents;
#[cfg(feature = "object-stores")]
pub(crate) mod find;
#[cfg(feature = "object-stores")]
pub(crate) mod limits;
#[cfg(feature = "object-stores")]
pub(crate) mod object;
#[cfg(feature = "object-stores")]
pub(crate) mod store;
pub(crate) mod stored;
#[cfg(all(test, feature = "object-stores"))]
mod tests;
#[cfg(feature = "object-stores")]
pub(crate) mod upload;
