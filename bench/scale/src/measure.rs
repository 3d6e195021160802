//! Runs, each in a process of its own.

use crate::arguments::{Arguments, processors};
use crate::cases::Size;
use crate::run::{Figures, Run, Spec};
use crate::world::{MODELLED, World};
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// A run that has ended.
pub struct Done {
    pub spec: Spec,
    /// The error is a report.
    pub result: Result<Figures, String>,
    pub places: Option<String>,
}

/// Measures each of `specs` in a process of its own: after another run, the addresses of variables
/// would decide which of them share a cache line. Several processes run at a time on a modelled
/// machine, where the time does not depend on it. Calls `when_done` in the order of the ends.
pub fn all(
    specs: &[Spec],
    arguments: &Arguments,
    mut when_done: impl FnMut(usize, &Done) -> Result<(), String>,
) -> Result<Vec<Run>, String> {
    let next = AtomicUsize::new(0);
    let at_a_time = if MODELLED { processors() } else { 1 };
    let mut runs: Vec<Option<Run>> = specs.iter().map(|_| None).collect();
    thread::scope(|s| {
        let (sender, ended) = mpsc::channel();
        for _ in 0..at_a_time {
            let (sender, next) = (sender.clone(), &next);
            s.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(spec) = specs.get(at) else { return };
                    if sender.send((at, in_process(spec, arguments))).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for (at, done) in ended {
            when_done(at, &done)?;
            let failed = done.result.as_ref().err();
            let failed = failed.map(|report| report.lines().next().unwrap_or_default().to_owned());
            runs[at] = Some(Run { spec: done.spec, figures: done.result.ok(), failed });
        }
        Ok::<(), String>(())
    })?;
    Ok(runs.into_iter().flatten().collect())
}

/// Measures in a process of its own.
fn in_process(spec: &Spec, arguments: &Arguments) -> Done {
    let program = std::env::current_exe().expect("the path of this program");
    let mut command = Command::new(program);
    let Spec { case, work_ns, cores, workers, sockets, seed, items_wanted } = spec;
    command.arg(case.name()).arg("--alone").args(arguments.places.then_some("--places"));
    let mut option = |name: &str, value: u64| _ = command.arg(name).arg(value.to_string());
    option("--work", *work_ns);
    option("--cores", *cores as u64);
    option("--workers", *workers as u64);
    option("--sockets", *sockets as u64);
    option("--seed", *seed);
    option("--most-steps", arguments.most_steps);
    items_wanted.iter().for_each(|items| option("--items", *items));
    let mut done = Done { spec: spec.clone(), result: Err(String::new()), places: None };
    match command.output() {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8_lossy(&output.stdout);
            let (figures, places) = text.split_once('\n').unwrap_or((&text, ""));
            done.result = serde_json::from_str(figures).map_err(|error| error.to_string());
            done.places = arguments.places.then(|| places.to_owned());
        }
        Ok(output) => {
            // The report of a run comes first; its panics have been printed before it.
            let report = String::from_utf8_lossy(&output.stdout);
            let panics = String::from_utf8_lossy(&output.stderr);
            let report = if report.is_empty() { output.status.to_string() } else { report.into() };
            done.result = Err(format!("{}\n{}", report.trim_end(), panics.trim_end()));
        }
        Err(error) => done.result = Err(format!("the process cannot be started: {error}")),
    }
    done
}

/// Performs the run that this process was started for.
pub fn alone(arguments: &Arguments) -> ExitCode {
    let (&[case], &[work], &[cores], &[sockets]) =
        (&arguments.cases[..], &arguments.work[..], &arguments.cores[..], &arguments.sockets[..])
    else {
        crate::refuse("--alone needs one case, one work, one number of cores and of sockets");
    };
    let (workers, items) = (arguments.workers.unwrap_or(cores), arguments.items);
    let size = Size { cores, workers, work: Duration::from_nanos(work), items };
    let world = World {
        cores: case.machine(cores),
        sockets,
        seed: arguments.seed,
        most_steps: arguments.most_steps,
    };
    #[cfg(feature = "model")]
    crate::heap::begin(arguments.seed);
    match world.measure(|clock| case.run(&size, clock)) {
        Ok(outcome) => {
            let figures = Figures::new(case, &outcome);
            println!("{}", serde_json::to_string(&figures).expect("plain fields"));
            if arguments.places {
                print!("{}", outcome.places);
            }
            ExitCode::SUCCESS
        }
        Err(report) => {
            println!("{report}");
            ExitCode::FAILURE
        }
    }
}
