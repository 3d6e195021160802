//! The words of a task that several threads write: what it waits for, who joins it, and its place
//! in the tree.

pub(crate) mod join;
pub(crate) mod tree;
pub(crate) mod wait;
