//! The command `compare`, with one short round of small cases.

use std::path::Path;
use std::process::{Command, Output};

use crate::common::{Scratch, assert_ends, assert_refused, run, stderr, stdout};
use serde_json::Value;

/// Runs `compare` for one quick round.
fn compare(args: &[&str]) -> Output {
    run([&["compare", "--quick", "--rounds", "1"], args].concat())
}

/// The measured rows: case, runtime, workers.
fn rows(page: &Value) -> Vec<(String, String, u64)> {
    let row = |row: &Value| {
        let text = |key: &str| row[key].as_str().expect("a name").to_owned();
        (text("case"), text("runtime"), row["workers"].as_u64().expect("a number"))
    };
    page["rows"].as_array().expect("rows").iter().map(row).collect()
}

fn page(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

/// Writes a shell script, and returns the command that runs it.
fn script(scratch: &Scratch, name: &str, text: &str) -> String {
    format!("sh {}", scratch.write(name, text).display())
}

#[test]
fn a_case_is_measured_on_every_runtime_that_has_it_and_judged() {
    let output = compare(&["--json", "join-100us"]);
    assert_ends(&output, 0);
    let page = page(&output);
    let rows = rows(&page);
    for wanted in [("serial", 1), ("cygnet", 1), ("cygnet", 2), ("threads", 2)] {
        let found = |row: &&(String, String, u64)| (row.1.as_str(), row.2) == wanted;
        assert_eq!(rows.iter().filter(found).count(), 1, "{rows:?}");
    }
    assert_eq!(rows.iter().any(|row| row.1 == "rayon"), cfg!(feature = "peers"), "{rows:?}");
    let value = page["rows"][0]["figures"]["time"]["value"].as_f64().expect("a time");
    assert!(value > 0.0);
    let targets = page["targets"].as_array().expect("targets");
    assert_eq!(targets[0]["what"], "join-100us, 2 workers");
    assert_eq!(targets[0]["verdict"], "too-few-rounds");
}

#[test]
fn a_build_without_peers_says_how_to_get_them() {
    let output = compare(&["join-10us"]);
    assert_eq!(stderr(&output).contains("--features peers"), !cfg!(feature = "peers"));
    assert!(stdout(&output).contains("join-10us: a fork of two leaves of 10 us each"));
}

#[test]
fn mistakes_are_refused_before_measuring() {
    for (args, sentence) in [
        (["compare", "join-10us", "nonsense"], "no case's name contains nonsense"),
        (["compare", "--plot", "/nonexistent/plot.svg"], "cannot write /nonexistent/plot.svg"),
    ] {
        assert_refused(&args, 1, sentence);
    }
}

#[test]
fn markdown_and_a_picture() {
    let scratch = Scratch::new("compare-plot");
    let file = scratch.text("plot.svg");
    let output = compare(&["--markdown", "--plot", &file, "join-10us"]);
    assert!(stdout(&output).contains("| case | workers | serial | cygnet |"));
    assert!(scratch.read("plot.svg").contains("</svg>"));
}

#[test]
fn a_program_that_goes_wrong_does_not_spoil_the_rest() {
    let scratch = Scratch::new("compare-external");
    let line = r#"{"runtime": "good", "values": {"time": 5}, "checksum": 2}"#;
    let programs = [
        ("good", format!("echo '{line}'\n"), None),
        ("knows-nothing", "echo '{\"unknown\": true}'\n".to_owned(), None),
        ("fails", "exit 7\n".to_owned(), Some("exit status: 7")),
        ("crashes", "kill -SEGV $$\n".to_owned(), Some("signal: 11")),
        ("rubbish", "echo fast\n".to_owned(), Some("it printed `fast`")),
        ("wrong", format!("echo '{}'\n", line.replace("2}", "3}")), Some("should be 2")),
    ];
    let mut args = vec!["--json".to_owned()];
    for (name, text, _) in &programs {
        args.extend(["--external".to_owned(), script(&scratch, name, text)]);
    }
    args.extend(["--external".to_owned(), "/nonexistent/program".to_owned()]);
    args.push("join-10us".to_owned());
    let output = compare(&args.iter().map(String::as_str).collect::<Vec<_>>());
    let told = stderr(&output);
    assert_ends(&output, 1);
    for (name, _, reason) in &programs {
        if let Some(reason) = reason {
            let line = told.lines().find(|l| l.contains(name) && l.contains(reason));
            let starts = |line: &str| line.starts_with("cygnet: join-10us on sh ");
            assert!(line.is_some_and(starts), "{told}");
        } else {
            assert!(!told.contains(name), "{told}");
        }
    }
    let missing = "/nonexistent/program with 1 worker: it failed: exit status: 127";
    assert!(told.contains(missing), "{told}");
    let rows = rows(&page(&output));
    assert!(rows.iter().any(|row| row.1 == "good") && rows.iter().any(|row| row.1 == "cygnet"));
    assert!(!rows.iter().any(|row| row.1.contains("knows-nothing")), "{rows:?}");
}

/// This is a separate test because a program that does not hang may take a second merely to
/// start.
#[test]
fn a_program_that_hangs_is_ended_at_the_limit() {
    let scratch = Scratch::new("compare-hangs");
    let program = script(&scratch, "hangs", "sleep 300\n");
    let output = compare(&["--json", "--time-limit", "1", "--external", &program, "join-10us"]);
    let told = stderr(&output);
    assert_ends(&output, 1);
    let sentence =
        format!("cygnet: join-10us on {program} with 2 workers: it had not ended after 1 s");
    assert!(told.lines().any(|line| line == sentence), "{told}");
    assert!(rows(&page(&output)).iter().any(|row| row.1 == "cygnet"));
}

#[test]
fn the_example_in_c_takes_part() {
    let scratch = Scratch::new("compare-c");
    let program = scratch.text("pthreads");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("external/pthreads.c");
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let flags = ["-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"];
    let compiled = Command::new(compiler).args(flags).arg(&program).arg(source).status();
    assert!(compiled.expect("a C compiler").success());
    let output = compare(&["--json", "--external", &program, "join-10us", "block-on"]);
    assert_ends(&output, 0);
    let rows = rows(&page(&output));
    let ours: Vec<_> = rows.iter().filter(|row| row.1 == "pthreads").collect();
    assert_eq!(ours, [&("join-10us".to_owned(), "pthreads".to_owned(), 2)]);
}
