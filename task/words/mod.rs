//! The words of a task that several threads write: the wait word, the join word, and the node with
//! the tree word.

pub(crate) mod join;
pub(crate) mod tree;
pub(crate) mod wait;
