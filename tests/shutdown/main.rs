//! Stops: the end of a runtime, shutdowns that let work finish, what a stop interrupts, and the tree of those who are told.

#[path = "../common/mod.rs"]
mod common;

mod graceful;
mod interrupt;
mod runtime;
mod swansong;
