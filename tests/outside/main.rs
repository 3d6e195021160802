//! Children that end from outside: promises, leases, and tasks on other runtimes.

#[path = "../common/mod.rs"]
mod common;
mod foreign;
mod leases;
mod orders;
mod promises;
