//! Random operations, compared with the model after each.

use crate::common::{SANITIZED, emulated};
use crate::model;
use proptest::prelude::*;

fn config() -> ProptestConfig {
    // No file is kept: a case that failed becomes a file of the fuzz target's corpus.
    let cases = if SANITIZED || emulated() { 200 } else { 3_000 };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn random_operations_do_what_the_plain_model_does(
        bytes in proptest::collection::vec(any::<u8>(), 0..400)
    ) {
        model::run(&bytes);
    }
}

/// What the fuzz target has kept: strings that reach all of the code, and those that have failed once.
#[test]
fn the_corpus_of_the_fuzz_target_does_what_the_plain_model_does() {
    assert!(crate::common::corpus::each("sequence_arithmetic", model::run) > 0);
}
