//! Random programs.

use crate::programs;
use proptest::prelude::*;

fn config() -> ProptestConfig {
    // No file is kept: a case that failed becomes a file of the fuzz target's corpus.
    ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn random_programs_do_what_is_known_of_them(
        bytes in proptest::collection::vec(any::<u8>(), 0..200)
    ) {
        programs::run(&bytes);
    }
}

/// What the fuzz target has kept: programs that reach all of the code, and those that have failed once.
#[test]
fn the_corpus_of_the_fuzz_target_does_what_is_known_of_it() {
    assert!(crate::common::corpus::each("programs", programs::run) > 0);
}
