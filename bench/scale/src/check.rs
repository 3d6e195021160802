//! Whether any workload has become worse than a stored table says.

use crate::arguments::Arguments;
use crate::cases::Case;
use crate::measure;
use crate::run::{Mean, Run, Runs, Spec};
use crate::world::MODELLED;
use clap::ValueEnum;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::ExitCode;

/// The numbers of cores that are measured again.
const CORES: [usize; 2] = [16, 64];
/// A figure below this part of the stored one has fallen, and one above its inverse has risen.
const PART: f64 = 0.9;

/// Measures the runs of a table that is to be stored.
///
/// # Errors
/// If the file cannot be written.
pub fn store(file: &Path, arguments: &Arguments) -> Result<ExitCode, String> {
    assert_modelled()?;
    let cases = match &arguments.cases[..] {
        [] => Case::value_variants(),
        cases => cases,
    };
    let spec = |case: Case, cores, seed| Spec {
        case,
        work_ns: case.usual_work(),
        cores,
        workers: cores,
        sockets: 1,
        seed,
        items_wanted: case.stored().1,
    };
    let seeds = |case: Case, cores| (0..case.stored().0).map(move |seed| spec(case, cores, seed));
    let of_case = |case: &Case| CORES.map(|cores| seeds(*case, cores)).into_iter().flatten();
    let specs: Vec<_> = cases.iter().flat_map(of_case).collect();
    crate::can_write(file)?;
    let runs = measure(&specs, arguments)?;
    for (spec, runs) in by_spec(&runs) {
        let mean = mean(&runs).map_or("failed".to_owned(), |mean| mean.to_string());
        println!("{spec}: {mean}");
    }
    let runs = Runs::new(runs);
    crate::write(file, &runs.to_json())?;
    Ok(ExitCode::from(u8::from(runs.any_failed())))
}

fn measure(specs: &[Spec], arguments: &Arguments) -> Result<Vec<Run>, String> {
    measure::all(specs, arguments, |_, done| {
        if let Err(report) = &done.result {
            eprintln!("cygnet-scale: {} has failed:\n{report}", done.spec);
        }
        Ok(())
    })
}

fn assert_modelled() -> Result<(), String> {
    let error = "times of the real machine cannot be checked: they vary too much";
    if MODELLED { Ok(()) } else { Err(error.to_owned()) }
}

/// Measures the runs of a stored table again, and compares.
///
/// # Errors
/// If the table is of no use.
pub fn check(file: &Path, arguments: &Arguments) -> Result<ExitCode, String> {
    let stored = read(file)?;
    let wanted = |run: &&Run| {
        let named = arguments.cases.is_empty() || arguments.cases.contains(&run.spec.case);
        CORES.contains(&run.spec.cores) && run.figures.is_some() && named
    };
    let stored: Vec<Run> = stored.runs.iter().filter(wanted).cloned().collect();
    if stored.is_empty() {
        return Err(format!("{} has no such run with 16 or 64 cores", file.display()));
    }
    let specs: Vec<Spec> = stored.iter().map(|run| run.spec.clone()).collect();
    let now = measure(&specs, arguments)?;
    let verdict = Verdict::new(&stored, &now);
    let missing = Case::value_variants().iter().filter(|case| {
        arguments.cases.is_empty() && !stored.iter().any(|run| run.spec.case == **case)
    });
    missing.for_each(|case| println!("not in the table: {}", case.name()));
    verdict.rose.iter().for_each(|line| println!("rose: {line}"));
    verdict.fell.iter().for_each(|line| println!("FELL: {line}"));
    let (all, fell, rose) = (verdict.all, verdict.fell.len(), verdict.rose.len());
    println!("{all} figures: {fell} fell by more than a tenth, {rose} rose by more than a tenth");
    if fell > 0 {
        println!("if the change is worth it, this renews the table: {}", renewal(file));
    } else if rose > 0 {
        println!("so that the next fall is noticed, renew the table: {}", renewal(file));
    }
    Ok(ExitCode::from(u8::from(fell > 0)))
}

/// The command that stores a table of the present state.
fn renewal(file: &Path) -> String {
    format!("cargo run --release --package cygnet-scale -- --store {}", file.display())
}

fn read(file: &Path) -> Result<Runs, String> {
    assert_modelled()?;
    let text = fs::read_to_string(file)
        .map_err(|error| format!("cannot read {}: {error}", file.display()))?;
    let runs: Runs = serde_json::from_str(&text)
        .map_err(|error| format!("{} is not a table of runs: {error}", file.display()))?;
    if !runs.modelled {
        return Err(format!("{} was measured on a real machine", file.display()));
    }
    if let Some(run) = runs.runs.iter().find(|run| run.spec.cores > run.spec.case.most_cores()) {
        return Err(format!("{}: there is no run of {}", file.display(), run.spec));
    }
    Ok(runs)
}

/// What has changed.
#[derive(Default, Debug)]
struct Verdict {
    all: usize,
    fell: Vec<String>,
    rose: Vec<String>,
}

impl Verdict {
    /// Compares the means of the runs that differ only in their seeds.
    fn new(stored: &[Run], now: &[Run]) -> Verdict {
        let mut verdict = Verdict::default();
        let now = by_spec(now);
        for (spec, then) in by_spec(stored) {
            let then = mean(&then).expect("only runs with figures are measured again");
            let found = now.get(&spec).and_then(|runs| mean(runs));
            verdict.all += 1;
            match found {
                None => verdict.fell.push(format!("{spec}: {then} to a failure")),
                Some(now) if now.over(then) < PART => {
                    verdict.fell.push(format!("{spec}: {then} to {now}"));
                }
                Some(now) if now.over(then) > 1.0 / PART => {
                    verdict.rose.push(format!("{spec}: {then} to {now}"));
                }
                Some(_) => {}
            }
        }
        verdict
    }
}

/// The runs by what they have in common.
fn by_spec(runs: &[Run]) -> BTreeMap<Spec, Vec<&Run>> {
    let mut map = BTreeMap::<_, Vec<_>>::new();
    for run in runs {
        map.entry(Spec { seed: 0, ..run.spec.clone() }).or_default().push(run);
    }
    map
}

/// Returns `None` if one of the runs has failed.
fn mean(runs: &[&Run]) -> Option<Mean> {
    let figures: Option<Vec<_>> = runs.iter().map(|run| run.figures.as_ref()).collect();
    Mean::of(figures?.into_iter())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tests::run;

    fn verdict(then: f64, now: Option<f64>) -> (usize, usize) {
        let now = now.map_or(Run { figures: None, ..run(16, 0.0) }, |now| run(16, now));
        let verdict = Verdict::new(&[run(16, then)], &[now]);
        assert_eq!(verdict.all, 1);
        (verdict.fell.len(), verdict.rose.len())
    }

    #[test]
    fn a_tenth_is_tolerated_and_more_is_not() {
        assert_eq!(verdict(0.5, Some(0.5)), (0, 0));
        assert_eq!(verdict(0.5, Some(0.451)), (0, 0));
        assert_eq!(verdict(0.5, Some(0.449)), (1, 0));
        assert_eq!(verdict(0.5, Some(0.555)), (0, 0));
        assert_eq!(verdict(0.5, Some(0.557)), (0, 1));
        assert_eq!(verdict(0.5, None), (1, 0));
    }

    #[test]
    fn seeds_are_compared_by_their_mean() {
        let seed = |seed, efficiency| {
            let run = run(64, efficiency);
            Run { spec: Spec { seed, ..run.spec }, ..run }
        };
        let verdict = Verdict::new(&[seed(0, 0.4), seed(1, 0.6)], &[seed(0, 0.6), seed(1, 0.4)]);
        assert_eq!((verdict.all, verdict.fell.len(), verdict.rose.len()), (1, 0, 0));
    }
}
