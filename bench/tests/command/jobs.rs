//! `cygnet run nqueens`, `cygnet run wordcount`, and the behaviour that all jobs share.

use std::collections::HashMap;
use std::fmt::Write;

use crate::common::{
    Scratch, assert_ends, assert_refused, cygnet, feed, json, run, run_in, stderr, stdout,
};

#[test]
fn nqueens_prints_the_known_answers() {
    let known = [1, 0, 0, 2, 10, 4, 40, 92, 352, 724, 2_680, 14_200];
    for (n, solutions) in (1..).zip(known) {
        let output = run(["run", "nqueens", "--workers", "2", &format!("{n}")]);
        assert_eq!(stdout(&output), format!("{solutions}\n"));
        assert_ends(&output, 0);
    }
}

#[test]
fn the_closing_line_tells_tasks_steals_and_times() {
    let output = run(["run", "nqueens", "10", "--workers", "2", "--compare-serial"]);
    let line = stderr(&output);
    assert!(line.starts_with("cygnet: 724 solutions on a board of 10 by 10; "), "{line}");
    for part in [" tasks, ", " on 2 workers; wall ", " s, CPU ", "; one worker: wall "] {
        assert!(line.contains(part), "{part:?} in {line}");
    }
    assert_eq!(line.lines().count(), 1, "no progress bar where there is no terminal");
}

#[test]
fn nqueens_speaks_json() {
    let output = run(["run", "nqueens", "8", "--json", "--quiet"]);
    let report = json(&output);
    assert_eq!((&report["job"], &report["n"]), (&"nqueens".into(), &8.into()));
    assert_eq!(report["solutions"], 92);
    for figure in ["workers", "tasks", "steals", "parks", "wall_seconds", "cpu_seconds"] {
        assert!(report["figures"][figure].is_number(), "{figure}");
    }
    assert!(report.get("serial").is_none() && report.get("ratio").is_none());
    assert_eq!(stderr(&output), "");
}

#[test]
fn wordcount_lists_the_most_frequent_words_and_the_total() {
    let dir = Scratch::new("words");
    dir.write("a/1", "The swan, the SWAN and the duck.");
    dir.write("b", "duck");
    let output = run(["run", "wordcount", "--top", "3", dir.path().to_str().unwrap()]);
    let expected = "         3 the\n         2 duck\n         2 swan\n         \
                    8 words in all, 4 of them different\n";
    assert_eq!(stdout(&output), expected);
    assert!(stderr(&output).starts_with("cygnet: 2 files, 36 bytes; "), "{}", stderr(&output));
}

#[test]
fn wordcount_is_the_same_in_pieces_in_a_stream_and_for_every_number_of_workers() {
    let dir = Scratch::new("pieces");
    // Three megabytes, so that cuts fall within words of one, two, three and four bytes per
    // letter.
    let alphabet = ["a", "Z", "7", "ä", "Ω", "語", "𝔸"];
    let (mut text, mut counts, mut state) = (String::new(), HashMap::new(), 1_u32);
    while text.len() < 3 << 20 {
        let mut word = String::new();
        for _ in 0..1 + state % 5 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            word.push_str(alphabet[(state >> 24) as usize % alphabet.len()]);
        }
        write!(text, "{word}{}", [" ", "\n", ", ", "—\t"][(state >> 16) as usize % 4]).unwrap();
        *counts.entry(word.to_lowercase()).or_insert(0_u64) += 1;
    }
    // No separator follows the last word.
    text.push_str("end");
    *counts.entry("end".into()).or_insert(0) += 1;
    let file = dir.write("large", &text);
    dir.write("empty", "");

    let strip = |mut report: serde_json::Value| {
        let report = report.as_object_mut().unwrap();
        report.remove("figures");
        report.remove("files");
        report.clone()
    };
    let all = ["run", "wordcount", "--json", "--top", "1000000", "--workers"];
    let streamed = strip(json(&feed(cygnet(all).args(["2", "-"]), text.as_bytes())));
    for workers in ["1", "2", "3"] {
        let pieces = json(&cygnet(all).arg(workers).arg(dir.path()).output().unwrap());
        assert_eq!(pieces["files"], 2);
        assert_eq!(strip(pieces), streamed);
    }
    assert_eq!(streamed["bytes"], std::fs::metadata(file).unwrap().len());
    assert_eq!(streamed["distinct"], counts.len());
    assert_eq!(streamed["words"], counts.values().sum::<u64>());
    let mut expected: Vec<_> = counts.into_iter().collect();
    expected.sort_by(|(a, m), (b, n)| n.cmp(m).then(a.cmp(b)));
    let listed: Vec<_> = streamed["top"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| (e["word"].as_str().unwrap().to_owned(), e["count"].as_u64().unwrap()))
        .collect();
    assert!(listed == expected, "the table is wrong");
}

#[test]
fn wordcount_names_unreadable_files_and_counts_the_rest() {
    let dir = Scratch::new("words-unreadable");
    dir.write("good", "one two");
    let paths = ["good", "missing", "/proc/self/mem", "/proc/version"];
    let output = run_in(&dir, ["run", "wordcount", "--top=999"].iter().chain(&paths));
    assert_ends(&output, 1);
    let errors = stderr(&output);
    assert!(errors.contains("cygnet: missing: No such file or directory\n"), "{errors}");
    assert!(errors.contains("cygnet: /proc/self/mem: Input/output error\n"), "{errors}");
    assert!(errors.contains("cygnet: 2 files, "), "{errors}");
    assert!(stdout(&output).contains("1 linux\n"), "a size of 0 is not");
}

#[test]
fn mistakes_on_the_command_line_are_explained() {
    for (args, status, part) in [
        (&["run", "nqeens", "8"][..], 2, "nqueens"),
        (&["run", "nqueens", "8", "--worker", "2"], 2, "--workers"),
        (&["run", "nqueens", "8", "--workers", "0"], 2, "a job needs at least one worker"),
        (&["run", "nqueens", "8", "--workers", "two"], 2, "not a number of workers"),
        (&["run", "nqueens", "0"], 2, "1..=27"),
        (&["run", "nqueens"], 2, "<N>"),
        (&["run", "hash"], 2, "<PATH>"),
        (&["run", "mandelbrot"], 2, "--out"),
        (&["run"], 2, "wordcount"),
        (&[], 2, "run"),
        (&["run", "hash", "/does/not/exist"], 1, "No such file or directory"),
    ] {
        assert_refused(args, status, part);
    }
}

#[test]
fn the_help_of_each_job_is_printed_and_explains_that_job() {
    for (job, reads_files) in
        [("hash", true), ("wordcount", true), ("mandelbrot", false), ("nqueens", false)]
    {
        let output = run(["run", job, "--help"]);
        assert_ends(&output, 0);
        let help = stdout(&output);
        assert!(job != "hash" || help.contains("sha256sum"), "{help}");
        assert!(help.contains("--compare-serial"), "{help}");
        for of_files in ["page cache", "standard input", "symbolic link"] {
            assert_eq!(help.contains(of_files), reads_files, "{job}, {of_files}: {help}");
        }
        let others = ["hash", "wordcount", "mandelbrot", "nqueens"].map(|job| format!("run {job}"));
        let named = others.iter().filter(|other| help.contains(*other));
        assert!(named.eq([&format!("run {job}")]), "the help of {job} names no other: {help}");
    }
}
