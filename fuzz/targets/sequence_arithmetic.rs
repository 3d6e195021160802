//! Sequences, sequencers and rings, compared with models in plain numbers: see tests/ring/model.
#![no_main]

#[path = "../../tests/common/choices.rs"]
mod choices;
#[path = "../../tests/ring/model/mod.rs"]
mod model;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| model::run(bytes));
