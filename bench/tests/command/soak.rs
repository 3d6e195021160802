//! The command `soak`, for a few rounds: arguments that it refuses, its report, and planted
//! faults.
//!
//! The behaviour of a run must not depend on the machine's momentary speed, so most of these runs
//! are bounded by rounds.

use std::fs;
use std::process::Output;
use std::time::{Duration, Instant};

use crate::common::{Scratch, assert_ends, assert_refused, cygnet, run, stderr, stdout};

/// Runs `soak` with few workers, as other tests run beside it.
fn soak(args: &[&str]) -> Output {
    run([&["soak", "--workers", "1,2"], args].concat())
}

#[test]
fn bad_arguments_are_refused_with_a_sentence() {
    for (args, status, sentence) in [
        (&["--minutes", "0"][..], 2, "more than 0"),
        (&["--minutes=-1"], 2, "more than 0"),
        (&["--minutes", "NaN"], 2, "more than 0"),
        (&["--minutes", "inf"], 2, "more than 0"),
        (&["--minutes", "1e9"], 2, "more than 0"),
        (&["--minutes", "soon"], 2, "not a number of minutes"),
        (&[], 2, "--minutes"),
        (&["--rounds", "0"], 2, "--rounds"),
        (&["--minutes", "1", "--rounds", "1"], 2, "cannot be used with"),
        (&["--minutes", "1", "--workers", "2,0"], 2, "1 to 256 workers"),
        (&["--minutes", "1", "--workers", "two"], 2, "not a number of workers"),
        (&["--minutes", "1", "--seed", "x"], 2, "--seed"),
        (&["--minutes", "1", "--watchdog", "0"], 2, "--watchdog"),
        (&["--minutes", "1", "--only", "join,nonsense"], 1, "no kind's name contains nonsense"),
        (&["--minutes", "1", "--program", "join"], 1, "not a kind and a seed"),
        (&["--minutes", "1", "--program", "nonsense:1"], 1, "not a kind and a seed"),
        (&["--minutes", "1", "--plant", "nonsense"], 1, "leak, hang, wrong"),
        (&["--minutes", "1", "--out", "/nonexistent/a.md"], 1, "cannot write /nonexistent/a.md"),
        (&["--minutes", "1", "--out", "picture.svg"], 1, "the report is Markdown"),
    ] {
        assert_refused(&[&["soak"], args].concat(), status, sentence);
    }
}

#[test]
fn the_kinds_are_listed() {
    let output = run(["soak", "--list"]);
    assert_ends(&output, 0);
    assert!(stdout(&output).lines().any(|line| line.starts_with("channel ")), "{output:?}");
}

#[test]
fn a_short_run_passes_and_writes_its_report_and_its_picture() {
    let scratch = Scratch::new("soak-report");
    let file = scratch.text("soak.md");
    let output = soak(&["--rounds", "8", "--seed", "7", "--out", &file]);
    assert_ends(&output, 0);
    assert!(stdout(&output).starts_with("passed: no failure"), "{}", stdout(&output));
    let report = scratch.read("soak.md");
    assert!(report.contains("(soak.svg)") && report.contains("| heap in use |"), "{report}");
    assert!(report.contains("- 8 of 8 rounds, in "), "{report}");
    assert!(report.contains("`cygnet soak --rounds 8 --seed 7 --workers 1,2`"), "{report}");
    assert!(scratch.read("soak.svg").contains("</svg>"));
    assert_eq!(scratch.names(), ["soak.md", "soak.svg"]);
}

#[test]
fn only_requested_programs_run_and_the_seed_is_printed() {
    let output = soak(&["--rounds", "1", "--only", "join,mutex"]);
    assert_ends(&output, 0);
    let (told, text) = (stderr(&output), stdout(&output));
    assert!(text.contains("| join |") || text.contains("| mutex |"), "{text}");
    assert!(!text.contains("| channel |"), "{text}");
    let seed = told.split("--seed ").nth(1).expect("it is printed").trim();
    assert!(text.contains(&format!("- seed {seed},")), "{told}{text}");

    let output = soak(&["--rounds", "1", "--program", "join:5"]);
    assert!(stdout(&output).contains("--program join:5`"), "{}", stdout(&output));
}

/// Enough rounds to tell whether anything grows, with programs that take next to no time.
const ENOUGH: &[&str] = &["--rounds", "24", "--seed", "7", "--only", "join,end"];

#[cfg(target_env = "gnu")]
#[test]
fn a_planted_leak_is_found() {
    let output = soak(&[ENOUGH, &["--plant", "leak"]].concat());
    assert_ends(&output, 1);
    let text = stdout(&output);
    assert!(text.contains("**FAILED: grows beyond its limit: heap in use"), "{text}");
}

/// The first run is the same without the leak.
#[test]
fn without_a_planted_fault_nothing_is_found_and_a_run_may_be_short() {
    let ends = ["--only", "join,end"];
    for (args, sentence) in [
        (ENOUGH.to_vec(), "**passed: no failure, and nothing grows beyond its limit**"),
        ([["--rounds", "2"], ends].concat(), "too short to tell whether anything grows"),
        ([["--minutes", "0.01"], ends].concat(), " of 0.0 minutes: "),
    ] {
        let output = soak(&args);
        assert_ends(&output, 0);
        assert!(stdout(&output).contains(sentence), "{}", stdout(&output));
    }
}

#[test]
fn a_planted_hang_ends_the_run_and_is_described() {
    let scratch = Scratch::new("soak-hang");
    let file = scratch.text("soak.md");
    let output = soak(&["--minutes", "10", "--watchdog", "2", "--plant", "hang", "--out", &file]);
    assert_ends(&output, 1);
    for text in [stderr(&output), scratch.read("soak.md")] {
        assert!(text.contains("hang (--program hang:"), "{text}");
        assert!(text.contains("it has not ended after 2s"), "{text}");
        assert!(text.contains("WorkerMetrics") && text.contains("thread lasting-0"), "{text}");
    }
}

#[test]
fn a_planted_wrong_result_is_a_failure_with_its_seed() {
    let output = soak(&["--minutes", "10", "--only", "join", "--plant", "wrong"]);
    assert_ends(&output, 1);
    let text = stdout(&output);
    assert!(text.contains("**FAILED: 20 failures"), "{text}");
    assert!(text.contains("wrong (--program wrong:") && text.contains("planted"), "{text}");
}

#[test]
fn an_interrupt_ends_the_run_with_its_report() {
    let mut child = cygnet(["soak", "--minutes", "10", "--only", "join"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the binary runs");
    // The first line is printed just before Ctrl-C is handled, so the process status in /proc
    // tells when it is.
    let status = format!("/proc/{}/status", child.id());
    let is_noted = || {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let caught = text.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
        caught.is_some_and(|set| set & (1 << (libc::SIGINT - 1)) != 0)
    };
    let begun = Instant::now();
    while !is_noted() {
        assert!(begun.elapsed() < Duration::from_secs(60), "Ctrl-C is not handled");
        assert!(child.try_wait().expect("a child").is_none(), "the run has ended already");
        std::thread::yield_now();
    }
    let sent = std::process::Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
    let output = child.wait_with_output().expect("it ends");
    assert_ends(&output, 0);
    assert!(stdout(&output).contains("of 10.0 minutes, cut short"), "{}", stdout(&output));
}
