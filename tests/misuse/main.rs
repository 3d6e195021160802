//! What happens when cygnet is given nonsense, is called where it makes no sense, is forgotten, or runs out of something: docs/misuse.md has the tables.

#[path = "../common/mod.rs"]
mod common;

mod calls;
mod handles;
mod limits;
mod panics;
mod unwindings;
