//! Removes the steps on which the library's arguments rest, one at a time, and checks that a
//! model or a test catches each removal.
//!
//! The removable steps are marked in the source ([`marks`]). A copy of the tree gets all mutants
//! at once, each behind a check of its number, and is built once. An environment variable chooses
//! the mutant that runs. `checkers.txt` lists the models and tests for each mutant, in order.
//! ci/mutate.sh is the command.

mod checkers;
mod lexer;
mod marks;
mod report;
mod tests;
mod tree;

use marks::Mutant;
use report::Verdict;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tests::Suite;

const USAGE: &str =
    "usage: cygnet-mutate CHECKOUT WORK [--list] [--sample N] [--jobs N] [--write FILE] [NAME...]";

struct Options {
    checkout: PathBuf,
    work: PathBuf,
    list: bool,
    sample: Option<usize>,
    jobs: usize,
    write: Option<PathBuf>,
    names: Vec<String>,
}

fn options(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    fn next(arguments: &mut impl Iterator<Item = String>) -> Result<String, String> {
        arguments.next().ok_or(USAGE.to_owned())
    }
    let mut options = Options {
        checkout: next(&mut arguments)?.into(),
        work: next(&mut arguments)?.into(),
        list: false,
        sample: None,
        jobs: 2,
        write: None,
        names: Vec::new(),
    };
    let positive = |text: String| match text.parse() {
        Ok(n) if n > 0 => Ok(n),
        _ => Err(format!("'{text}' must be a number above 0")),
    };
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--list" => options.list = true,
            "--sample" => options.sample = Some(positive(next(&mut arguments)?)?),
            "--jobs" => options.jobs = positive(next(&mut arguments)?)?,
            "--write" => options.write = Some(next(&mut arguments)?.into()),
            flag if flag.starts_with('-') => return Err(format!("no option '{flag}'; {USAGE}")),
            _ => options.names.push(argument),
        }
    }
    Ok(options)
}

/// The numbers, from 1, of the mutants that should run.
fn chosen(mutants: &[Mutant], options: &Options) -> Result<Vec<usize>, String> {
    let all = || 1..=mutants.len();
    if let Some(name) = options.names.iter().find(|n| !mutants.iter().any(|m| is_named(m, n))) {
        return Err(format!("no mutant's name is '{name}' or begins with it"));
    }
    let mut numbers: Vec<usize> = match options.names.as_slice() {
        [] => all().collect(),
        names => {
            all().filter(|n| names.iter().any(|name| is_named(&mutants[n - 1], name))).collect()
        }
    };
    numbers.retain(|n| !report::is_control(&mutants[n - 1]));
    if let Some(sample) = options.sample.filter(|sample| *sample < numbers.len()) {
        // Spread over all protocols, the same mutants each time.
        let step = numbers.len() as f64 / sample as f64;
        numbers = (0..sample).map(|i| numbers[(i as f64 * step) as usize]).collect();
    }
    // The two mutants of the negative control always run, and first.
    let control = all().filter(|n| report::is_control(&mutants[n - 1]));
    Ok(control.chain(numbers).collect())
}

/// Whether `name` is the name of the mutant, of its place or of its protocol.
fn is_named(mutant: &Mutant, name: &str) -> bool {
    let rest = mutant.name.strip_prefix(name);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '/']))
}

fn run(options: &Options) -> Result<bool, String> {
    let tree = options.work.join("tree");
    let mutants = tree::copy(&options.checkout, &tree)?;
    let table = std::fs::read_to_string(options.checkout.join("ci/mutate/checkers.txt"))
        .map_err(|e| format!("checkers.txt: {e}"))?;
    let table = checkers::parse(&table)?;
    checkers::see_that_all_are_used(&table, &mutants)?;
    if options.list {
        mutants.iter().try_for_each(|m| checkers::of(&table, &m.name).map(|_| ()))?;
        mutants.iter().for_each(|m| println!("{:44} {}:{}: {}", m.name, m.file, m.line, m.code));
        println!("{} mutants", mutants.len());
        return Ok(true);
    }
    let numbers = chosen(&mutants, options)?;
    let asked: Vec<_> = numbers
        .iter()
        .map(|n| Ok((*n, checkers::of(&table, &mutants[n - 1].name)?)))
        .collect::<Result<_, String>>()?;
    let suite = Suite::build(&tree, &options.work, asked.iter().flat_map(|(_, c)| c.iter()))?;
    let suite = suite.without_a_mutant(options.jobs)?;

    let start = Instant::now();
    let queue = Mutex::new(asked.iter().rev().collect::<Vec<_>>());
    let verdicts = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(|| {
                while let Some((number, checkers)) = { queue.lock().expect("no panic").pop() } {
                    let verdict = judge(&suite, *number, checkers);
                    let mutant = &mutants[number - 1];
                    println!("{}", report::line(mutant, &verdict));
                    verdicts.lock().expect("no panic").push((*number, verdict));
                }
            });
        }
    });
    let mut verdicts = verdicts.into_inner().expect("no panic");
    verdicts.sort_by_key(|(number, _)| *number);
    let verdicts: Vec<_> = verdicts.into_iter().map(|(n, v)| (&mutants[n - 1], v)).collect();
    report::see_to_the_control(&verdicts)?;
    let page = report::page(&verdicts, start.elapsed());
    let path = options.write.clone().unwrap_or(options.work.join("mutants.md"));
    std::fs::write(&path, page).map_err(|e| format!("{}: {e}", path.display()))?;
    println!("{}", report::summary(&verdicts, mutants.len(), start.elapsed()));
    Ok(report::survivors(&verdicts).is_empty())
}

/// Runs the tests of the checkers in turn until one catches the mutant. A first pass runs the
/// models in fewer interleavings, which suffice for most mutants, and those that take long last.
fn judge(suite: &Suite, number: usize, checkers: &[checkers::Checker]) -> Verdict {
    let start = Instant::now();
    let mut asked = 0;
    let mut unfinished = Vec::new();
    let tests = suite.of(checkers);
    let (slow, quick): (Vec<&tests::Test>, Vec<_>) =
        tests.iter().copied().partition(|test| test.is_slow());
    let few = quick.into_iter().chain(slow).map(|test| (test, tests::FEW));
    let all = tests.iter().filter(|test| test.is_model()).map(|test| (*test, tests::ALL));
    for (test, preemptions) in few.chain(all) {
        asked += 1;
        match suite.run(test, number, preemptions) {
            tests::Outcome::Passed => {}
            tests::Outcome::Unfinished => unfinished.push(test.name.clone()),
            tests::Outcome::Failed(said) => {
                let (by, time) = (test.title(), start.elapsed());
                return Verdict::Caught { by, said, time };
            }
        }
    }
    Verdict::Survived { asked, unfinished, time: round(start.elapsed()) }
}

fn round(time: Duration) -> Duration {
    Duration::from_millis(time.as_millis() as u64)
}

fn main() -> ExitCode {
    match options(std::env::args().skip(1)).and_then(|options| run(&options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("mutate: {error}");
            ExitCode::from(2)
        }
    }
}

#[cfg(test)]
mod choosing {
    use super::*;

    fn mutants() -> Vec<Mutant> {
        let names =
            ["control.harmful", "idle.a", "idle.b/relaxed", "idle.b/split", "idler.c", "tree.d"];
        let mutant = |name: &&str| Mutant {
            name: (*name).to_owned(),
            kind: "skip".to_owned(),
            file: "f.rs".to_owned(),
            line: 1,
            code: "a();".to_owned(),
        };
        names.iter().map(mutant).collect()
    }

    fn choose(arguments: &[&str]) -> Result<Vec<usize>, String> {
        let arguments = ["checkout", "work"].iter().chain(arguments).map(|s| (*s).to_owned());
        chosen(&mutants(), &options(arguments)?)
    }

    #[test]
    fn a_name_is_that_of_a_mutant_a_place_or_a_protocol_and_the_control_always_runs() {
        assert_eq!(choose(&["idle.b/split"]), Ok(vec![1, 4]));
        assert_eq!(choose(&["idle.b"]), Ok(vec![1, 3, 4]));
        assert_eq!(choose(&["idle", "tree"]), Ok(vec![1, 2, 3, 4, 6]));
    }

    #[test]
    fn a_sample_is_spread_over_all() {
        assert_eq!(choose(&["--sample", "2"]), Ok(vec![1, 2, 4]));
        assert_eq!(choose(&["--sample", "9"]), Ok(vec![1, 2, 3, 4, 5, 6]));
    }

    #[test]
    fn what_is_not_there_is_an_error() {
        for arguments in
            [&["idl"][..], &["--leap"], &["--sample", "0"], &["--sample"], &["--jobs", "x"]]
        {
            assert!(choose(arguments).is_err(), "{arguments:?}");
        }
        assert!(options(std::iter::empty()).is_err());
    }
}
