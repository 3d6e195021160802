//! The command, run as a user runs it, on small machines or with few items.
#![cfg(feature = "model")]

use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

fn scale(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cygnet-scale"));
    command.args(args).env("RUST_BACKTRACE", "0").output().expect("the binary runs")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
fn assert_ends(output: &Output, status: i32) {
    assert_eq!(output.status.code(), Some(status), "{}{}", stderr(output), stdout(output));
}

/// A path for a file of the test of this name.
fn file(name: &str) -> PathBuf {
    let name = format!("cygnet-scale-{}-{name}", std::process::id());
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// The runs that a command line measures.
#[track_caller]
fn runs(args: &[&str]) -> Vec<Value> {
    let output = scale(&[args, &["--json", "-"]].concat());
    assert_ends(&output, 0);
    let table: Value = serde_json::from_str(&stdout(&output)).expect("the output is JSON");
    table["runs"].as_array().expect("runs").clone()
}

#[test]
fn every_case_runs_on_one_core() {
    let runs = runs(&["--cores", "1", "--items", "20"]);
    assert!(runs.len() > 25);
    for run in runs {
        assert!(run["time_ns"].as_u64().unwrap() > 0, "{run}");
        assert!(run["efficiency"].as_f64().is_none_or(|part| part > 0.0 && part < 1.1), "{run}");
    }
}

#[test]
fn every_case_runs_on_two_sockets() {
    for run in runs(&["--cores", "4", "--items", "50", "--sockets", "2"]) {
        assert_eq!((&run["cores"], &run["sockets"]), (&json!(4), &json!(2)), "{run}");
        assert!(run["moves"].as_u64().unwrap() > 0, "{run}");
    }
}

#[test]
fn cores_may_be_divided_unevenly() {
    let run = &runs(&["for", "--cores", "16", "--sockets", "3", "--items", "4000"])[0];
    let efficiency = run["efficiency"].as_f64().unwrap();
    assert!(efficiency > 0.5 && efficiency <= 1.0, "{run}");
}

#[test]
fn more_sockets_than_cores_are_refused() {
    let output = scale(&["join", "--cores", "2", "--sockets", "3"]);
    assert_ends(&output, 2);
    assert!(stderr(&output).contains("3 sockets need 3 cores at least"), "{}", stderr(&output));
    assert!(output.stdout.is_empty());
}

#[test]
fn a_machine_that_cannot_exist_is_an_empty_cell_beside_others() {
    let output = scale(&["join", "--cores", "1,2", "--sockets", "2", "--items", "100"]);
    assert_ends(&output, 0);
    let row = stdout(&output).lines().last().unwrap().to_owned();
    assert_eq!(row.split_whitespace().nth(3), Some("-"), "{row}");
    assert!(
        stderr(&output).contains("no runs with cores 1: 2 sockets need"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn machines_without_cores_and_beyond_the_limit_are_refused() {
    for cores in ["0", "4097", "-1", "many", ""] {
        assert_ends(&scale(&["join", "--cores", cores]), 2);
    }
    let output = scale(&["steps", "--cores", "256"]);
    assert_ends(&output, 2);
    assert!(stderr(&output).contains("steps has 128 cores at most"), "{}", stderr(&output));
}

#[test]
fn machines_without_sockets_or_workers_are_refused() {
    for option in ["--sockets", "--workers", "--items", "--seeds"] {
        let output = scale(&["join", "--cores", "2", option, "0"]);
        assert_ends(&output, 2);
        assert!(stderr(&output).contains(&format!("'{option} <")), "{}", stderr(&output));
    }
}

#[test]
fn a_misspelt_case_is_refused_with_a_suggestion() {
    let output = scale(&["scope-flod", "--cores", "2"]);
    assert_ends(&output, 2);
    assert!(
        stderr(&output).contains("a similar value exists: 'scope-flood'"),
        "{}",
        stderr(&output)
    );
    assert!(output.stdout.is_empty());
}

#[test]
fn a_check_measures_the_machines_of_the_table() {
    for option in ["--cores", "--sockets", "--seeds"] {
        let output = scale(&["--check", "table.json", option, "2"]);
        assert_ends(&output, 2);
        assert!(stderr(&output).contains("cannot be used with"), "{}", stderr(&output));
    }
}

/// The tree has 10^12 leaves.
#[test]
fn a_workload_that_never_ends_is_a_failure_with_a_report() {
    let endless = ["join", "--cores", "2", "--items", "1000000000000", "--most-steps", "100000"];
    let output = scale(&endless);
    assert_ends(&output, 1);
    let row = stdout(&output).lines().last().unwrap().to_owned();
    assert!(row.starts_with("join ") && row.ends_with(" failed"), "{row}");
    let report = stderr(&output);
    for part in ["join with 1000 ns of work, 2 cores has failed", "limit of steps", "cygnet-1"] {
        assert!(report.contains(part), "{part:?} in {report}");
    }
}

#[test]
fn a_failure_is_stored_and_others_are_measured() {
    let limit = ["join", "--cores", "1,2", "--items", "100", "--most-steps", "2000", "--json", "-"];
    let output = scale(&limit);
    assert_ends(&output, 1);
    let table: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert!(table["runs"][0]["time_ns"].is_number(), "{table}");
    let failed = table["runs"][1]["failed"].as_str().unwrap();
    assert!(failed.contains("limit of steps"), "{failed}");
    assert!(table["runs"][1].get("time_ns").is_none());
}

#[test]
fn a_run_can_be_repeated_to_the_nanosecond() {
    let args = ["request", "channel", "--cores", "16", "--items", "2000", "--seeds", "2"];
    let (once, again) = (runs(&args), runs(&args));
    assert_eq!(once.len(), 4);
    assert_eq!(once, again);
    assert_ne!(once[0]["time_ns"], once[1]["time_ns"], "the seeds differ");
}

/// With too few cores, the threads would take turns of 3 ms.
#[test]
fn threads_outside_have_cores_of_their_own() {
    let output = scale(&["outside", "--cores", "2", "--items", "100", "--places"]);
    assert_ends(&output, 0);
    let text = stdout(&output);
    let is_thread = |line: &&str| line.starts_with("cygnet-") || line.starts_with("thread ");
    let queueing = |line: &str| line.split_whitespace().nth_back(1).unwrap().parse::<f64>();
    let queueing: Vec<f64> =
        text.lines().filter(is_thread).filter_map(|line| queueing(line).ok()).collect();
    assert_eq!(queueing.len(), 4, "{text}");
    assert!(queueing.iter().all(|us| *us < 100.0), "{text}");
}

#[test]
fn places_are_those_of_a_single_run() {
    let output = scale(&["join", "--cores", "2", "--items", "100", "--places"]);
    assert_ends(&output, 0);
    assert!(stdout(&output).contains("lost, us"), "{}", stdout(&output));
    let output = scale(&["join", "--cores", "2,4", "--places"]);
    assert_ends(&output, 2);
    assert!(stderr(&output).contains("--places shows a single run, and these are 2"));
}

#[test]
fn a_picture_is_written() {
    let svg = file("picture.svg");
    let path = svg.to_str().unwrap();
    assert_ends(&scale(&["join", "cancel", "--cores", "1,2", "--items", "50", "--svg", path]), 0);
    let text = fs::read_to_string(&svg).unwrap();
    assert!(text.starts_with("<svg") && text.contains("join "), "{text}");
    fs::remove_file(svg).unwrap();
}

#[test]
fn an_unwritable_file_is_found_before_anything_is_measured() {
    for option in ["--json", "--svg"] {
        let output = scale(&["join", "--cores", "1", option, "/nonexistent/file"]);
        assert_ends(&output, 1);
        assert!(stderr(&output).contains("cannot write /nonexistent/file"), "{}", stderr(&output));
        assert!(output.stdout.is_empty());
    }
}

/// Stores a table, changes its first efficiency by a factor, and checks it.
fn checked(name: &str, factor: f64) -> Output {
    let table = file(name);
    let path = table.to_str().unwrap();
    let few = ["for", "--cores", "8,16", "--items", "2000", "--json", path];
    assert_ends(&scale(&few), 0);
    let mut runs: Value = serde_json::from_str(&fs::read_to_string(&table).unwrap()).unwrap();
    // The one with 16 cores.
    let efficiency = &mut runs["runs"][1]["efficiency"];
    *efficiency = json!(efficiency.as_f64().unwrap() * factor);
    fs::write(&table, runs.to_string()).unwrap();
    let output = scale(&["--check", path]);
    fs::remove_file(table).unwrap();
    output
}

#[test]
fn a_table_of_this_state_passes_the_check() {
    let output = checked("same.json", 1.0);
    assert_ends(&output, 0);
    let text = stdout(&output);
    assert!(text.contains("1 figures: 0 fell by more than a tenth, 0 rose"), "{text}");
    assert!(text.contains("not in the table: join"), "{text}");
}

#[test]
fn a_stored_table_has_seeds_and_passes_the_check() {
    let table = file("stored.json");
    let path = table.to_str().unwrap();
    assert_ends(&scale(&["late", "semaphore", "--store", path]), 0);
    let runs: Value = serde_json::from_str(&fs::read_to_string(&table).unwrap()).unwrap();
    assert!(runs["runs"].as_array().unwrap().len() >= 4 * 4, "{runs}");
    let output = scale(&["--check", path]);
    fs::remove_file(table).unwrap();
    assert_ends(&output, 0);
    let text = stdout(&output);
    assert!(text.contains("4 figures: 0 fell by more than a tenth, 0 rose"), "{text}");
}

#[test]
fn a_fall_fails_the_check_and_is_named() {
    let output = checked("fell.json", 1.2);
    assert_ends(&output, 1);
    let text = stdout(&output);
    assert!(text.contains("FELL: for with 1000 ns of work, 16 cores: "), "{text}");
    assert!(text.contains("renews the table: cargo run --release"), "{text}");
}

#[test]
fn a_rise_is_mentioned() {
    let output = checked("rose.json", 0.8);
    assert_ends(&output, 0);
    let text = stdout(&output);
    assert!(text.contains("rose: for with 1000 ns of work, 16 cores: "), "{text}");
    assert!(text.contains("renew the table: cargo run --release"), "{text}");
}

#[test]
fn a_file_that_is_no_table_is_an_error() {
    let bad = file("bad.json");
    let run = r#"{"case":"C","work_ns":1,"cores":16,"workers":16,"sockets":1,"seed":0}"#;
    for (text, sentence) in [
        ("", "is not a table of runs"),
        ("{\"modelled\":true,\"runs\":[]}", "has no such run"),
        ("{\"modelled\":false,\"runs\":[]}", "was measured on a real machine"),
        (&format!("{{\"modelled\":true,\"runs\":[{run}]}}"), "unknown variant `C`"),
    ] {
        fs::write(&bad, text).unwrap();
        let output = scale(&["--check", bad.to_str().unwrap()]);
        assert_ends(&output, 1);
        assert!(stderr(&output).contains(sentence), "{sentence:?} in {}", stderr(&output));
    }
    fs::remove_file(bad).unwrap();
    let output = scale(&["--check", "/nonexistent/table"]);
    assert_ends(&output, 1);
    assert!(stderr(&output).contains("cannot read /nonexistent/table"), "{}", stderr(&output));
}
