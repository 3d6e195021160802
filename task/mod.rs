//! A task as every other layer sees it: the record that stands for it, its words, its place in the
//! tree, and its outcome.
//!
//! `record` says who holds a record and who may touch what in it; each word's module begins with its
//! protocol.

pub(crate) mod attachment;
pub(crate) mod cause;
pub(crate) mod cell;
pub(crate) mod children;
pub(crate) mod cold;
#[cfg(all(test, loom))]
pub(crate) mod models;
pub(crate) mod outcome;
pub(crate) mod record;
pub(crate) mod thread_waiter;
pub(crate) mod words;
