//! Reports on stderr about something that has taken ten seconds. One test has them all, so that
//! they take these seconds side by side. The name of the module comes first, so that all other
//! tests run beside it.

use crate::common::prelude::*;
use crate::common::rerun::{command, role, run};
use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::mpsc::channel;

const NAME: &str = "alarms::what_has_taken_ten_seconds_is_reported";

#[test]
fn what_has_taken_ten_seconds_is_reported() {
    common::real!("processes of their own");
    match role().as_deref() {
        Some("restricted") => return wait_for_a_stranger_of_the_same_worker(),
        Some("deaf") => return end_a_runtime_with_a_deaf_task(),
        _ => {}
    }
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let output = run(&mut command(NAME, "deaf"));
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{said}");
            assert!(said.contains("waits for its tasks"), "{said}");
            assert!(said.contains("go on although they are cancelled: task"), "{said}");
            assert!(said.contains("`has its fingers in its ears` (id "), "{said}");
        });
        let begun = Instant::now();
        let mut child = command(NAME, "restricted").stderr(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        let report = lines.into_iter().find(|line| line.contains("a wait for descendants only"));
        child.kill().unwrap();
        child.wait().unwrap();
        let report = report.expect("it says so before it is killed");
        assert!(report.contains("has kept 1 ready task(s) of worker 0 waiting"), "{report}");
        assert!(begun.elapsed() >= Duration::from_secs(10));
    });
}

/// Never ends.
fn wait_for_a_stranger_of_the_same_worker() {
    runtime(1).block_on(|| {
        let started = Flag::new();
        let unparker = cygnet::unparker();
        scope(|s| {
            s.spawn(|| {
                started.set();
                yield_now().unwrap();
                unparker.unpark();
            });
            started.wait();
            scope_with(Wait::DescendantsOnly, |_| cygnet::park().unwrap());
        });
    });
}

/// The drop of a runtime waits, and names the tasks that it waits for.
fn end_a_runtime_with_a_deaf_task() {
    let rt = runtime(1);
    let (give, given) = channel();
    rt.spawn(move || {
        let [begun, stop] = [(); 2].map(|()| Flag::new());
        let (tell, stopped) = (begun, stop);
        let deaf = task().name("has its fingers in its ears").spawn(move || {
            while !stopped.get() {
                tell.set();
                let _ = yield_now();
            }
        });
        begun.wait();
        deaf.detach();
        give.send(stop).unwrap();
    })
    .detach();
    let stop = given.recv().unwrap();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(10_500));
        stop.set();
    });
    drop(rt);
}
