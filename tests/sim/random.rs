//! Random programs.

use crate::common::Random;
use crate::programs;
use cygnet::sim::Bug;
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

/// What tells programs that find something from those that find nothing. Of [`Bug`] all but the child that outlives its parent: programs find that,
/// too, but it leaves memory in a state in which the next assertion may end the process.
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
