//! The test programs of the copy, and the run of a test with a mutant.

use crate::checkers::{Checker, LIBRARY, Way};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Time limit of a model with a mutant. A model that reaches it proves nothing, as it may merely
/// have more executions with the mutant.
const MODEL: Duration = Duration::from_secs(200);
/// Time from which a model is asked after the others.
const SLOW: Duration = Duration::from_secs(10);
/// Time limit of a test with a mutant, besides ten times its time without one. A test that hangs
/// has caught the mutant.
const TEST: Duration = Duration::from_secs(20);
/// Maximum number of preemptions in an execution of a model: as in ci/loom.sh, and in a first
/// pass.
pub(crate) const ALL: &str = "3";
pub(crate) const FEW: &str = "2";
/// Maximum number of seeds and of seconds for a test in simulation.
const SEEDS: &str = "60";
const SECONDS: &str = "3";

/// A model or a test.
pub(crate) struct Test {
    way: Way,
    program: String,
    pub(crate) name: String,
    /// Its time without a mutant.
    time: Duration,
}

pub(crate) enum Outcome {
    Passed,
    /// Failed with this message.
    Failed(String),
    /// Not ended in time, which proves nothing.
    Unfinished,
}

pub(crate) struct Suite {
    /// By whether the program is for models, and by its name.
    programs: BTreeMap<(bool, String), PathBuf>,
    tests: Vec<Test>,
    folder: PathBuf,
    runs: AtomicUsize,
}

impl Test {
    pub(crate) fn title(&self) -> String {
        let name = &self.name;
        match self.way {
            Way::Loom => format!("model `{name}`"),
            Way::Unit => format!("unit test `{name}`"),
            Way::Test => format!("test `{}/{name}`", self.program),
            Way::Sim => format!("simulation `{}/{name}`", self.program),
        }
    }

    pub(crate) fn is_model(&self) -> bool {
        self.way == Way::Loom
    }

    /// Whether it is a model that takes long even in few interleavings.
    pub(crate) fn is_slow(&self) -> bool {
        self.is_model() && self.time > SLOW
    }

    fn is_asked_by(&self, checker: &Checker) -> bool {
        (self.way, &self.program) == (checker.way, &checker.program)
            && self.name.contains(&checker.part)
    }
}

impl Suite {
    /// Builds the programs of the checkers, once each, and lists their tests.
    pub(crate) fn build<'a>(
        tree: &Path,
        work: &Path,
        checkers: impl Iterator<Item = &'a Checker>,
    ) -> Result<Suite, String> {
        let mut suite = Suite {
            programs: BTreeMap::new(),
            tests: Vec::new(),
            folder: work.join("runs"),
            runs: AtomicUsize::new(0),
        };
        std::fs::create_dir_all(&suite.folder).map_err(|e| e.to_string())?;
        let mut asked: Vec<&Checker> = Vec::new();
        checkers.for_each(|c| {
            if !asked.contains(&c) {
                asked.push(c)
            }
        });
        for models in [true, false] {
            let these = asked.iter().filter(|c| (c.way == Way::Loom) == models);
            let programs: BTreeSet<&str> = these.map(|c| c.program.as_str()).collect();
            if !programs.is_empty() {
                let built = build(tree, work, models, &programs)?;
                suite.programs.extend(built.into_iter().map(|(name, path)| ((models, name), path)));
            }
        }
        for checker in asked {
            let before = suite.tests.len();
            for name in suite.list(checker)? {
                let (way, program) = (checker.way, checker.program.clone());
                let known = |t: &Test| (t.way, &t.program, &t.name) == (way, &program, &name);
                if name.contains(&checker.part) && !suite.tests.iter().any(known) {
                    suite.tests.push(Test { way, program, name, time: Duration::ZERO });
                }
            }
            if suite.tests.len() == before && !suite.tests.iter().any(|t| t.is_asked_by(checker)) {
                return Err(format!("checkers.txt: no test matches {checker:?}"));
            }
        }
        Ok(suite)
    }

    fn program(&self, way: Way, program: &str) -> Result<&PathBuf, String> {
        let key = (way == Way::Loom, program.to_owned());
        self.programs.get(&key).ok_or(format!("the test program '{program}' was not built"))
    }

    /// The tests of a program that are not ignored. Negative controls of models are left out, as
    /// they have faults of their own.
    fn list(&self, checker: &Checker) -> Result<Vec<String>, String> {
        let list = |ignored: bool| {
            let mut command = Command::new(self.program(checker.way, &checker.program)?);
            command.args(["--list", "--format", "terse"]);
            if ignored {
                command.arg("--ignored");
            }
            let output = command.output().map_err(|e| e.to_string())?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let names = text.lines().filter_map(|l| l.strip_suffix(": test")).map(str::to_owned);
            Ok::<_, String>(names.collect::<Vec<_>>())
        };
        let ignored = list(true)?;
        let models = checker.way == Way::Loom;
        let usual =
            |name: &String| !models || name.contains("loom_") && !name.contains("loom_negative_");
        Ok(list(false)?.into_iter().filter(|n| !ignored.contains(n) && usual(n)).collect())
    }

    /// The tests of these checkers in the order of the checkers, the cheapest first for each
    /// checker.
    pub(crate) fn of<'a>(&'a self, checkers: &[Checker]) -> Vec<&'a Test> {
        let mut tests: Vec<(usize, &Test)> = Vec::new();
        for test in &self.tests {
            if let Some(place) = checkers.iter().position(|checker| test.is_asked_by(checker)) {
                tests.push((place, test));
            }
        }
        tests.sort_by_key(|(place, test)| (*place, test.time));
        tests.into_iter().map(|(_, test)| test).collect()
    }

    /// Runs all tests without a mutant; they must pass. Models run in few interleavings here, and
    /// in all of them in ci/loom.sh.
    pub(crate) fn without_a_mutant(mut self, jobs: usize) -> Result<Suite, String> {
        let start = Instant::now();
        println!("{} models and tests without a mutant", self.tests.len());
        let next = AtomicUsize::new(0);
        let times = Mutex::new(Vec::new());
        let errors = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for _ in 0..jobs {
                scope.spawn(|| {
                    while let Some(test) = self.tests.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let start = Instant::now();
                        let said = match self.run(test, 0, FEW) {
                            Outcome::Passed => {
                                let time = (test.title(), start.elapsed());
                                times.lock().expect("no panic").push(time);
                                continue;
                            }
                            Outcome::Failed(said) => said,
                            Outcome::Unfinished => "it did not end in time".to_owned(),
                        };
                        errors.lock().expect("no panic").push(format!("{}: {said}", test.title()));
                    }
                });
            }
        });
        let errors = errors.into_inner().expect("no panic");
        if !errors.is_empty() {
            return Err(format!("fails without a mutant: {}", errors.join("\n")));
        }
        let times: BTreeMap<_, _> = times.into_inner().expect("no panic").into_iter().collect();
        for test in &mut self.tests {
            test.time = times[&test.title()];
        }
        println!("all pass, in {:.0} s", start.elapsed().as_secs_f64());
        Ok(self)
    }

    pub(crate) fn run(&self, test: &Test, mutant: usize, preemptions: &str) -> Outcome {
        let models = test.way == Way::Loom;
        let program =
            self.program(test.way, &test.program).expect("it has been asked for its tests");
        let log = self.folder.join(format!("{}.log", self.runs.fetch_add(1, Ordering::Relaxed)));
        let file = std::fs::File::create(&log).expect("the folder is there");
        let mut command = Command::new(program);
        command
            .args([test.name.as_str(), "--exact", "--nocapture", "--test-threads", "1"])
            .env("CYGNET_MUTANT", mutant.to_string())
            .env("RUST_BACKTRACE", "0")
            .env_remove("CYGNET_SIM_SEEDS")
            .stdin(Stdio::null())
            .stdout(file.try_clone().expect("a file can be shared"))
            .stderr(file);
        if models {
            command.env("LOOM_MAX_PREEMPTIONS", preemptions);
        }
        if test.way == Way::Sim {
            command.env("CYGNET_SIM_SEEDS", SEEDS).env("CYGNET_SIM_SECONDS", SECONDS);
        }
        let limit = if models { MODEL } else { TEST + test.time * 10 };
        let start = Instant::now();
        let mut child = command.spawn().expect("the program has been built");
        let mut nap = Duration::from_millis(1);
        let status = loop {
            match child.try_wait().expect("a child can be waited for") {
                Some(status) => break Some(status),
                None if start.elapsed() >= limit => {
                    let _ = child.kill();
                    let _ = child.wait();
                    break None;
                }
                None => {
                    std::thread::sleep(nap);
                    nap = (nap * 2).min(Duration::from_millis(50));
                }
            }
        };
        let said = std::fs::read(&log).unwrap_or_default();
        let said = String::from_utf8_lossy(&said).into_owned();
        let _ = std::fs::remove_file(&log);
        match status {
            Some(status) if status.success() && said.contains("1 passed") => Outcome::Passed,
            Some(status) if status.success() => Outcome::Failed("no test was run".to_owned()),
            Some(status) => Outcome::Failed(complaint(&said, &status.to_string())),
            None if models => Outcome::Unfinished,
            None => Outcome::Failed("it hangs".to_owned()),
        }
    }
}

/// The first panic message of a failed test, or its exit status.
fn complaint(said: &str, status: &str) -> String {
    let mut lines = said.lines();
    let panics = |line: &&str| line.contains("panicked at");
    let line = match lines.find(panics) {
        Some(_) => lines.next().unwrap_or(""),
        None => status,
    };
    line.trim().chars().take(120).collect()
}

fn build(
    tree: &Path,
    work: &Path,
    models: bool,
    programs: &BTreeSet<&str>,
) -> Result<BTreeMap<String, PathBuf>, String> {
    let mut command = Command::new("cargo");
    command.args(["test", "--release", "--no-run", "--package", LIBRARY]);
    command.args(["--message-format", "json-render-diagnostics"]);
    if programs.contains(LIBRARY) {
        command.arg("--lib");
    }
    for program in programs.iter().filter(|program| **program != LIBRARY) {
        command.args(["--test", program]);
    }
    // Warnings about the copy are disabled, as its code is generated.
    command.env("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "true");
    command.env("CARGO_TARGET_DIR", work.join(if models { "models" } else { "tests" }));
    if models {
        command.env("RUSTFLAGS", "--cfg loom -Awarnings");
    } else {
        command.args(["--features", "sim"]).env("RUSTFLAGS", "-Awarnings");
    }
    let output = command.current_dir(tree).stderr(Stdio::inherit()).output();
    let output = output.map_err(|e| format!("cargo: {e}"))?;
    if !output.status.success() {
        return Err("the copy with the mutants cannot be built".to_owned());
    }
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(output.lines().filter_map(program).collect())
}

/// Parses the name and the path of a test program from a line of cargo's output.
fn program(line: &str) -> Option<(String, PathBuf)> {
    let field = |text: &str, name: &str| {
        let value = text.split_once(&format!("\"{name}\":\""))?.1;
        Some(value.split_once('"')?.0.to_owned())
    };
    let executable = field(line, "executable")?;
    let target = line.split_once("\"target\":")?.1;
    Some((field(target, "name")?, executable.into()))
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn a_program_is_found_in_cargos_output() {
        let line = r#"{"reason":"compiler-artifact","package_id":"path+file:///a#cygnet@0.1.0","target":{"kind":["test"],"name":"sync"},"executable":"/t/sync-1"}"#;
        assert_eq!(program(line), Some(("sync".to_owned(), PathBuf::from("/t/sync-1"))));
        assert_eq!(program(r#"{"target":{"name":"cygnet"},"executable":null}"#), None);
    }

    #[test]
    fn the_first_complaint_is_kept() {
        let said =
            "running 1 test\n\nthread 'a' panicked at b.rs:1:2:\n  deadlock; 2 threads\nmore\n";
        assert_eq!(complaint(said, "exit status: 101"), "deadlock; 2 threads");
        assert_eq!(complaint("", "signal: 6"), "signal: 6");
    }
}
