//! Programs of Go's users, with errgroup and context.

use super::{Outcome, fetch, run};
use cygnet::sync::bounded;
use cygnet::{Cancelled, Reason, try_scope, try_timeout};
use std::time::Duration;

/// Fetch all, or return the first error.
#[test]
fn the_first_error_of_a_group_is_returned() -> Outcome {
    let addresses = ["http://a", "gopher://b", "http://c"];
    let fetched = run(|| {
        try_scope(|s| {
            for address in addresses {
                s.spawn_try(move || fetch(address));
            }
            Ok(())
        })
    });
    let error = fetched.expect_err("one has no scheme").to_string();
    assert_eq!(error, "no scheme: gopher://b");
    Ok(())
}

/// Search several backends at once; the results are in order.
#[test]
fn backends_are_searched_at_once() -> Outcome {
    let results = run(|| {
        let mut results = ["http://web", "http://image", "http://video"].map(String::from);
        try_scope(|s| {
            for result in &mut results {
                s.spawn_try(|| {
                    *result = fetch(result)?;
                    Ok(())
                });
            }
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
        })?;
        Ok(results)
    })?;
    assert_eq!(results, ["the page of web", "the page of image", "the page of video"]);
    Ok(())
}

/// A pipeline of stages with a fixed number of workers, which an error of any stage ends.
#[test]
fn a_pipeline_ends_with_the_first_error() -> Outcome {
    let sizes = |addresses: &'static [&'static str]| {
        run(move || {
            try_scope(|s| {
                let (paths, walked) = bounded(4);
                let (sizes, sized) = bounded(4);
                s.spawn_try(move || {
                    addresses.iter().try_for_each(|address| paths.send(address))?;
                    Ok(())
                });
                for _ in 0..3 {
                    let (walked, sizes) = (walked.clone(), sizes.clone());
                    s.spawn_try(move || {
                        for address in walked.iter() {
                            sizes.send(fetch(address)?.len())?;
                        }
                        Ok(())
                    });
                }
                drop(sizes);
                Ok(sized.iter().sum::<usize>())
            })
        })
    };
    assert_eq!(sizes(&["http://a", "http://bb"])?, "the page of abb".len() + "the page of ".len());
    assert!(sizes(&["http://a", "b", "http://c"]).is_err());
    Ok(())
}

/// A deadline for a call and for all it starts, and why it ended.
#[test]
fn a_deadline_reaches_everything_below() -> Outcome {
    let why = run(|| {
        let slow = || -> Result<(), Cancelled> {
            try_scope(|s| s.spawn_try(|| cygnet::sleep(Duration::from_secs(60))).value())
        };
        let cancelled = try_timeout(Duration::from_millis(2), slow).expect_err("it is slow");
        Ok(cancelled.reason().clone())
    })?;
    assert_eq!(why, Reason::Deadline);
    Ok(())
}

/// Fan out over workers, and fan in.
#[test]
fn numbers_fan_out_and_in() -> Outcome {
    let sum = run(|| {
        let (numbers, taken) = bounded(1);
        let (squares, squared) = bounded(1);
        cygnet::scope(|s| {
            s.spawn(move || (1..=10_u64).try_for_each(|n| numbers.send(n)));
            for _ in 0..2 {
                let (taken, squares) = (taken.clone(), squares.clone());
                s.spawn(move || taken.iter().try_for_each(|n| squares.send(n * n)));
            }
            drop(squares);
            Ok(squared.iter().sum::<u64>())
        })
    })?;
    assert_eq!(sum, 385);
    Ok(())
}
