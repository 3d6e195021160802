//! Random operations, compared with the model after each of them.

use crate::common::{SANITIZED, emulated};
use crate::model;
use proptest::prelude::*;

fn config() -> ProptestConfig {
    // Nothing is saved: a case that fails becomes a file of the corpus of the fuzz target.
    let cases = if SANITIZED || emulated() { 200 } else { 3_000 };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    /// Q13, Q16, Q17, Q19, Q27.
    #[test]
    fn random_operations_do_what_the_plain_model_does(
        bytes in proptest::collection::vec(any::<u8>(), 0..400)
    ) {
        model::run(&bytes);
    }
}

/// The corpus of the fuzz target: inputs that reach all of the code, and inputs that have failed
/// once.
#[test]
fn the_corpus_of_the_fuzz_target_does_what_the_plain_model_does() {
    assert!(crate::common::corpus::each("sequence_arithmetic", model::run) > 0);
}
