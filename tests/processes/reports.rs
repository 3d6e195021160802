//! What is said on stderr when something has taken ten seconds: in one program, so that they wait side by side.

use crate::common::rerun::{command, rerun, role};
use crate::common::{self, give_way_until, runtime};
use cygnet::{Wait, scope, scope_with, task, yield_now};
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

#[test]
fn one_that_waits_for_a_stranger_of_its_worker_is_reported() {
    common::real!("a process of its own");
    let name = "reports::one_that_waits_for_a_stranger_of_its_worker_is_reported";
    if role().is_some() {
        runtime(1).block_on(|| {
            let started = AtomicBool::new(false);
            let unparker = cygnet::unparker();
            scope(|s| {
                s.spawn(|| {
                    started.store(true, Ordering::Relaxed);
                    yield_now().unwrap();
                    unparker.unpark();
                });
                give_way_until(|| started.load(Ordering::Relaxed));
                scope_with(Wait::DescendantsOnly, |_| cygnet::park().unwrap());
            });
        });
        return;
    }
    let begun = Instant::now();
    let mut child = command(name, "report").stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let report = lines.into_iter().find(|line| line.contains("a wait for descendants only"));
    child.kill().unwrap();
    child.wait().unwrap();
    let report = report.expect("it says so before it is killed");
    assert!(report.contains("has kept 1 ready task(s) of worker 0 waiting"), "{report}");
    assert!(begun.elapsed() >= Duration::from_secs(10));
}

/// The drop of a runtime waits, and says for whom.
#[test]
fn the_end_of_the_runtime_names_who_takes_no_notice() {
    common::real!("a process of its own");
    const NAME: &str = "reports::the_end_of_the_runtime_names_who_takes_no_notice";
    if role().is_some() {
        let rt = runtime(1);
        let (give, given) = channel();
        rt.spawn(move || {
            let [begun, stop] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
            let (tell, stopped) = (begun.clone(), stop.clone());
            let deaf = task().name("has its fingers in its ears").spawn(move || {
                while !stopped.load(Ordering::Acquire) {
                    tell.store(true, Ordering::Release);
                    let _ = yield_now();
                }
            });
            give_way_until(|| begun.load(Ordering::Acquire));
            deaf.detach();
            give.send(stop).unwrap();
        })
        .detach();
        let stop = given.recv().unwrap();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(10_500));
            stop.store(true, Ordering::Release);
        });
        drop(rt);
        return;
    }
    let output = rerun(NAME, "alone");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("waits for its tasks"), "{said}");
    assert!(said.contains("go on although they are cancelled: task"), "{said}");
    assert!(said.contains("`has its fingers in its ears` (id "), "{said}");
}
