//! Random programs.

use crate::common::Random;
use crate::programs;
use cygnet::sim::Bug;
use proptest::prelude::*;

pub(crate) fn config(cases: u32) -> ProptestConfig {
    // No file is kept: a failed case becomes a file in the corpus of the fuzz target.
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config(1_000))]

    #[test]
    fn random_programs_behave_as_recorded(
        bytes in proptest::collection::vec(any::<u8>(), 0..200)
    ) {
        programs::run(&bytes);
    }
}

/// The corpus of the fuzz target: programs that reach all of the code, and programs that have
/// failed once.
#[test]
fn the_corpus_of_the_fuzz_target_behaves_as_recorded() {
    assert!(crate::common::corpus::each("programs", programs::run) > 0);
}

/// The negative control, with each [`Bug`] but the child that outlives its parent. Programs find
/// that too, but it leaves memory in a state in which the next assertion may end the process.
#[test]
fn mistakes_in_the_library_are_found() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let bugs = [
        Bug::DoubleGrant,
        Bug::LeakedLock,
        Bug::LostWake,
        Bug::NoLookAfterPublishing,
        Bug::NoLookBeforeSleep,
    ];
    for bug in bugs {
        let found = (1..=20_000).find(|_| {
            let bytes: Vec<_> = (0..200).map(|_| random.below(256) as u8).collect();
            programs::finds(bug, &bytes)
        });
        println!("{bug:?}: found by program {}", found.expect("it is found"));
    }
}
