//! Targets of cygnet beside the others: ratios of two figures of one run, taken within each
//! round.

use serde::Serialize;

use super::cases::{ASKED, SPREAD_OF};
use super::page::{Page, Row};
use crate::measure::harness::{CPU, TIME};
use crate::measure::stats::{self, Spread};
use crate::measure::verdict::{self, Verdict};

/// A target: cygnet takes at most `most` times as much as another runtime.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    /// The case.
    pub case: &'static str,
    /// The key of the compared value.
    pub key: &'static str,
    /// The number of workers on which cygnet runs the case.
    pub workers: usize,
    /// The runtimes on the other side.
    pub beside: Beside,
    /// The case of those runtimes.
    pub their_case: &'static str,
    /// The number of workers on which those runtimes run the case.
    pub their_workers: usize,
    /// The ratio that should not be exceeded.
    pub most: f64,
}

/// The runtimes that cygnet is compared with: the best of these, or, if the list is empty, the best
/// of all but cygnet and serial work.
pub type Beside = &'static [&'static str];

const ANY_PEER: Beside = &[];
const CHILI: Beside = &["chili"];
const RAYON: Beside = &["rayon"];
const MAY: Beside = &["may"];
const TOKIO: Beside = &["tokio"];
const SWANSONG: Beside = &["swansong"];
const FORKING: Beside = &["chili", "rayon"];
const ITSELF: Beside = &["cygnet"];
const DISRUPTOR: Beside = &["disruptor"];
const DISRUPTOR_OR_CHANNEL: Beside = &["disruptor", "threads"];
const THREADS: Beside = &["threads"];
const SERIAL: Beside = &["serial"];

/// A comparison with other runtimes on the same number of workers.
const fn peer(case: &'static str, workers: usize, beside: Beside, most: f64) -> Target {
    Target { case, key: TIME, workers, beside, their_case: case, their_workers: workers, most }
}

/// A comparison of one worker with the work without a scheduler.
const fn overhead(case: &'static str, most: f64) -> Target {
    peer(case, 1, SERIAL, most)
}

/// A comparison of two workers with one.
const fn speedup(case: &'static str, most: f64) -> Target {
    Target { workers: 2, their_workers: 1, ..peer(case, 1, ITSELF, most) }
}

/// A comparison of a round trip with one over bounded channels.
const fn bounded_trip(case: &'static str, workers: usize) -> Target {
    Target { their_case: "round-trip-bounded", ..peer(case, workers, ITSELF, 1.2) }
}

/// Comparisons of many more workers than processors with two workers: time and processor time.
const fn crowd(case: &'static str) -> [Target; 2] {
    let time = Target { workers: 64, their_workers: 2, ..peer(case, 2, ITSELF, 1.5) };
    [time, Target { key: CPU, ..time }]
}

/// Comparisons with other runtimes on one worker and on two.
const fn both(case: &'static str, beside: Beside, most: f64) -> [Target; 2] {
    [peer(case, 1, beside, most), peer(case, 2, beside, most)]
}

/// All targets.
#[rustfmt::skip]
pub const TARGETS: &[&[Target]] = &[
    &both("fib", CHILI, 1.0),
    &both("fib", RAYON, 0.4),
    &[peer("queens", 1, FORKING, 1.0)],
    &[peer("queens", 2, FORKING, 0.7)],
    &[peer("tree", 1, CHILI, 1.05)],
    &[peer("tree", 2, CHILI, 1.0)],
    &both("tree", RAYON, 0.7),
    &[overhead("tree", 1.15)],
    &[overhead("queens", 1.15)],
    &[speedup("fib", 0.6)],
    &[speedup("queens", 0.6)],
    &[speedup("tree", 0.6)],
    &[speedup("uneven", 0.6)],
    &both("uneven", RAYON, 1.1),
    &[speedup("join-10us", 0.8)],
    &[speedup("join-100us", 0.6)],
    &[speedup("join-1ms", 0.55)],
    &both("sum", RAYON, 1.0),
    &[overhead("sum", 1.05)],
    &both("items", RAYON, 1.0),
    &[overhead("items", 1.05)],
    &both("spawn-join", RAYON, 0.4),
    &both("spawn-join", TOKIO, 0.15),
    &both("spawn-join", ANY_PEER, 1.0),
    &both("batch", RAYON, 0.4),
    &both("batch", TOKIO, 0.15),
    &both("batch", ANY_PEER, 1.0),
    &[speedup("batch", 1.0)],
    &[peer("switch", 1, &["corosensei"], 1.3)],
    &[peer("switch", 1, &["generator"], 1.0)],
    &[peer("yield-2", 1, MAY, 0.2)],
    &[peer("yield-1000", 1, MAY, 0.2)],
    &both("ping-pong", TOKIO, 0.5),
    &[overhead("ask", 2.0)],
    &[peer("scope", 1, TOKIO, 0.5)],
    &[peer("cancel-10k", 1, TOKIO, 0.25)],
    &[peer("cancel-100k", 1, TOKIO, 0.25)],
    &[Target { key: ASKED, ..peer("cancel-10k", 1, TOKIO, 1.0) }],
    &[Target { key: ASKED, ..peer("cancel-100k", 1, TOKIO, 1.0) }],
    &[peer("cancel-handles-100k", 1, TOKIO, 1.0)],
    &[Target { key: ASKED, ..peer("cancel-handles-100k", 1, TOKIO, 1.0) }],
    &[peer("cancel-waiting-10k", 1, TOKIO, 0.25)],
    &[peer("cancel-waiting-100k", 1, TOKIO, 0.25)],
    &[overhead("mutex", 1.0)],
    &[peer("mutex-64", 2, TOKIO, 0.4)],
    &[Target { key: SPREAD_OF, ..peer("mutex-64-spread", 2, TOKIO, 1.5) }],
    &both("channel-1", TOKIO, 0.5),
    &[peer("channel-1", 2, THREADS, 1.0)],
    &both("channel-4", TOKIO, 0.5),
    &[peer("channel-4", 2, THREADS, 1.0)],
    &[peer("ring-batch-1", 2, DISRUPTOR, 1.0)],
    &[peer("ring-batch-4", 2, DISRUPTOR, 1.0)],
    &[peer("ring-1", 2, DISRUPTOR_OR_CHANNEL, 1.0)],
    &[peer("ring-4", 2, DISRUPTOR_OR_CHANNEL, 1.0)],
    &[peer("ring-park-1", 2, DISRUPTOR, 0.25)],
    &[peer("ring-park-4", 2, DISRUPTOR, 0.25)],
    &[peer("guard", 1, SWANSONG, 0.3)],
    &[peer("guard-outside", 1, SWANSONG, 0.8)],
    &[peer("guard-outside-late", 1, SWANSONG, 0.8)],
    &[peer("guard-two", 2, SWANSONG, 0.6)],
    &[peer("guard-two-outside", 2, SWANSONG, 0.6)],
    &[peer("guard-two-child", 2, SWANSONG, 0.6)],
    &[peer("guard-deep", 1, SWANSONG, 0.5)],
    &[peer("guard-deep-alone", 1, SWANSONG, 0.5)],
    &[peer("child", 1, SWANSONG, 0.5)],
    &[peer("child-siblings", 1, SWANSONG, 0.5)],
    &[peer("child", 1, TOKIO, 0.6)],
    &[peer("child-siblings", 1, TOKIO, 0.6)],
    &[peer("shut-down-10k", 1, SWANSONG, 0.1)],
    &[peer("shut-down-10k", 1, TOKIO, 0.4)],
    &both("wait-once", TOKIO, 1.1),
    &[peer("round-trip-bounded", 1, MAY, 0.95)],
    &[bounded_trip("round-trip-rendezvous", 1), bounded_trip("round-trip-rendezvous", 2)],
    &[bounded_trip("round-trip-unbounded", 1), bounded_trip("round-trip-unbounded", 2)],
    &[peer("round-trip-oneshot", 1, TOKIO, 0.5)],
    &[peer("round-trip-bounded", 2, ANY_PEER, 1.0)],
    &[peer("round-trip-rendezvous", 2, ANY_PEER, 1.0)],
    &[peer("round-trip-unbounded", 2, ANY_PEER, 1.0)],
    &[peer("round-trip-oneshot", 2, ANY_PEER, 1.0)],
    &[peer("turns-mutex-fifo-64", 2, TOKIO, 1.0)],
    &[peer("runtime", 2, ANY_PEER, 1.0)],
    &[Target { key: CPU, ..peer("sleepers", 1, TOKIO, 1.2) }],
    &[Target { key: CPU, ..peer("control-loop", 2, ANY_PEER, 1.0) }],
    &crowd("queens"),
    &crowd("tree"),
    &crowd("uneven"),
    &crowd("batch"),
    &crowd("wait-once"),
];

/// A target and the ratio reached.
#[derive(Clone, Debug, Serialize)]
pub struct Judged {
    /// The case, its value if that is not the main one, and the number of workers.
    pub what: String,
    /// The runtimes on the other side.
    pub beside: String,
    /// The ratio that should not be exceeded.
    pub target: f64,
    /// Median of the ratios of all rounds; NaN if one side was not measured.
    pub ratio: f64,
    /// The upper bound of the interval that holds the median with 90 % probability.
    pub high: f64,
    /// The verdict; `None` if one side was not measured.
    pub verdict: Option<Verdict>,
    /// The ratio of each round.
    pub rounds: Vec<f64>,
}

impl Target {
    /// Whether a row belongs to the other side.
    fn is_beside(&self, row: &Row) -> bool {
        let asked = match self.beside {
            [] => !["cygnet", "serial"].contains(&row.runtime.as_str()),
            names => names.contains(&row.runtime.as_str()),
        };
        asked && row.workers == self.their_workers
    }

    /// Judges the target by the rows of a page.
    pub fn judge(&self, page: &Page) -> Judged {
        let of = |case| page.rows_of(case).filter(|row| !row.values(self.key).is_empty());
        let ours = of(self.case).find(|row| row.runtime == "cygnet" && row.workers == self.workers);
        let median = |row: &Row| stats::median(row.values(self.key));
        let theirs = of(self.their_case)
            .filter(|row| self.is_beside(row))
            .min_by(|a, b| median(a).total_cmp(&median(b)));
        let values = [ours, theirs].map(|row| row.map_or(&[][..], |row| row.values(self.key)));
        let pairs = values[0].iter().zip(values[1]);
        let ratio = Spread::from(pairs.map(|(ours, theirs)| ours / theirs).collect::<Vec<_>>());
        let verdict = verdict::Target::ratio(self.most).judge(&ratio, f64::NAN);
        let key = match self.key {
            CPU => ", CPU",
            ASKED => ", asked",
            _ => "",
        };
        Judged {
            what: format!("{}{key}, {}", self.case, super::contenders::workers(self.workers)),
            beside: self.beside_whom(theirs),
            target: self.most,
            ratio: ratio.value,
            high: ratio.high,
            verdict: (!ratio.rounds.is_empty()).then_some(verdict),
            rounds: ratio.rounds,
        }
    }

    fn beside_whom(&self, theirs: Option<&Row>) -> String {
        let found = theirs.map(|row| row.runtime.as_str());
        let who = match (self.beside, found) {
            ([name], _) => (*name).to_owned(),
            ([], None) => "the best peer".to_owned(),
            (names, None) => format!("the better of {}", names.join(" and ")),
            (_, Some(found)) => format!("the best, {found}"),
        };
        if self.case != self.their_case {
            format!("{who}, {}", self.their_case)
        } else if self.workers != self.their_workers {
            format!("{who}, {}", super::contenders::workers(self.their_workers))
        } else {
            who
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::cases::find;
    use super::super::page::tests::{page, row};
    use super::super::runtimes;
    use super::*;

    #[test]
    fn each_target_is_about_something_that_is_measured() {
        for target in TARGETS.iter().copied().flatten() {
            let case = find(target.case).unwrap_or_else(|| panic!("{target:?}"));
            assert!(case.workers.contains(&target.workers), "{target:?}");
            assert!(target.key == CPU || case.parts.iter().any(|part| part.key == target.key));
            for name in target.beside.iter().filter(|_| cfg!(feature = "peers")) {
                let runtime = runtimes::find(name).unwrap_or_else(|| panic!("{target:?}"));
                assert!(runtime.run(target.their_case).is_some(), "{target:?}");
                let case = find(target.their_case).unwrap_or_else(|| panic!("{target:?}"));
                assert!(runtime.workers(case).contains(&target.their_workers), "{target:?}");
            }
        }
    }

    #[test]
    fn a_ratio_is_that_of_the_same_round_and_to_the_best() {
        let page = page(vec![
            row("queens", "cygnet", 2, &[1.0, 4.0]),
            row("queens", "rayon", 2, &[9.0, 9.0]),
            row("queens", "chili", 2, &[2.0, 8.0]),
            row("queens", "chili", 1, &[0.1, 0.1]),
        ]);
        let judged = peer("queens", 2, FORKING, 0.7).judge(&page);
        assert_eq!(judged.rounds, [0.5, 0.5]);
        assert_eq!(judged.beside, "the best, chili");
        assert_eq!(judged.verdict, Some(Verdict::TooFewRounds));
    }

    #[test]
    fn enough_rounds_are_judged_with_a_tenth_of_room() {
        let verdict = |ours: f64| {
            let page = page(vec![
                row("fib", "cygnet", 1, &[ours; 15]),
                row("fib", "chili", 1, &[1.0; 15]),
            ]);
            peer("fib", 1, CHILI, 1.0).judge(&page).verdict
        };
        assert_eq!(verdict(1.09), Some(Verdict::Met));
        assert_eq!(verdict(1.11), Some(Verdict::Missed));
    }

    #[test]
    fn two_workers_stand_beside_one_and_the_crowd_beside_two() {
        let page = page(vec![
            row("tree", "cygnet", 1, &[10.0]),
            row("tree", "cygnet", 2, &[5.0]),
            row("tree", "cygnet", 64, &[6.0]),
        ]);
        let judged = speedup("tree", 0.6).judge(&page);
        assert_eq!((judged.rounds, judged.beside), (vec![0.5], "cygnet, 1 worker".to_owned()));
        let judged = crowd("tree")[0].judge(&page);
        assert_eq!((judged.rounds, judged.what), (vec![1.2], "tree, 64 workers".to_owned()));
    }

    #[test]
    fn another_case_may_be_beside() {
        let page = page(vec![
            row("round-trip-unbounded", "cygnet", 1, &[3.0]),
            row("round-trip-bounded", "cygnet", 1, &[2.0]),
            row("round-trip-bounded", "cygnet", 2, &[9.0]),
        ]);
        let judged = bounded_trip("round-trip-unbounded", 1).judge(&page);
        assert_eq!(judged.what, "round-trip-unbounded, 1 worker");
        assert_eq!(
            (judged.rounds, judged.beside),
            (vec![1.5], "cygnet, round-trip-bounded".to_owned())
        );
    }

    #[test]
    fn what_was_not_measured_is_not_judged() {
        let judged = peer("fib", 1, CHILI, 1.0).judge(&page(vec![row("fib", "cygnet", 1, &[1.0])]));
        assert!(judged.ratio.is_nan() && judged.verdict.is_none());
    }
}
