//! Random programs in simulation: see tests/sim/programs.
#![no_main]

#[path = "../../tests/common/choices.rs"]
mod choices;
#[path = "../../tests/sim/programs/mod.rs"]
mod programs;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| programs::run(bytes));
