//! A bank with transfers that now and then create money, and a simulation that finds the bug.
//!
//! ```sh
//! cargo run --features sim --example bank
//! CYGNET_SIM_SEED=... cargo run --features sim --example bank   # the same run, as the report says
//! ```

use cygnet::sim::{self, Options};
use cygnet::sync::Mutex;
use std::process::ExitCode;

struct Account(Mutex<i64>);

/// Checks the balance under one lock and takes the money under another: in between, another
/// transfer may take it, too.
fn transfer(from: &Account, to: &Account, amount: i64) {
    let there = *from.0.lock().unwrap();
    if there >= amount {
        *to.0.lock().unwrap() += amount;
        *from.0.lock().unwrap() = there - amount;
    }
}

fn two_transfers() {
    let (ann, bob) = (Account(Mutex::new(100)), Account(Mutex::new(0)));
    let runtime = cygnet::Runtime::builder().workers(2).build().unwrap();
    runtime.block_on(|| {
        cygnet::scope(|s| {
            s.spawn(|| transfer(&ann, &bob, 80));
            s.spawn(|| transfer(&ann, &bob, 60));
        });
    });
    let money = ann.0.into_inner() + bob.0.into_inner();
    assert_eq!(money, 100, "money has come from nowhere");
}

fn main() -> ExitCode {
    match sim::explore(&Options::new(), two_transfers) {
        Ok(explored) => println!("{} runs, and the money was right in each", explored.runs),
        Err(failed) => {
            println!("{failed}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
