//! `cygnet run hash` prints the same as `sha256sum`.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::{
    Scratch, assert_ends, assert_refused, cygnet, feed, json, run_in, stderr, stdout,
};

const EMPTY: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

/// The output of the system's own tools for the same paths, or `None` if they are not GNU's.
fn reference(directory: &Path, paths: &str) -> Option<Output> {
    let version = Command::new("sha256sum").arg("--version").output().ok()?;
    if !version.stdout.windows(3).any(|word| word == b"GNU") {
        eprintln!("skipped: there is no GNU sha256sum to compare with");
        return None;
    }
    let script =
        format!("find -H {paths} -type f -print0 | LC_ALL=C sort -z | xargs -0 sha256sum --");
    Some(Command::new("sh").args(["-c", &script]).current_dir(directory).output().unwrap())
}

/// Makes a tree with every kind of name and every kind of entry.
fn odd_tree(name: &str) -> Scratch {
    let tree = Scratch::new(name);
    let names: [&[u8]; 16] = [
        b"plain",
        b"-n",
        b"--help",
        b"two words ",
        b"line\nfeed",
        b"carriage\rreturn",
        b"back\\slash",
        b"all\\of\nthem\r",
        b"latin1-\xe4\xff",
        "ümläut-🦢".as_bytes(),
        b"tab\tbell\x07",
        b"sub/x",
        b"sub-x",
        b"sub\ndir/deep/er/file",
        b"*",
        b" ",
    ];
    for (i, name) in names.into_iter().enumerate() {
        tree.write(name, &name[..name.len() - i % 2]);
    }
    tree.write("empty", "");
    // Sizes around the chunk size of reads, and around the block size of the hash.
    for size in [55, 56, 63, 64, 65, 65_535, 65_536, 65_537, 300_000] {
        let content: Vec<u8> = (0..size).map(|i: u32| (i * 7 % 251) as u8).collect();
        tree.write(format!("sizes/{size}"), content);
    }
    std::fs::create_dir(tree.at("no files here")).unwrap();
    symlink("plain", tree.at("link to a file")).unwrap();
    symlink("sub", tree.at("link to a directory")).unwrap();
    symlink("nowhere", tree.at("dangling")).unwrap();
    symlink(".", tree.at("sub/loop")).unwrap();
    assert!(Command::new("mkfifo").arg(tree.at("pipe")).status().unwrap().success());
    tree
}

#[track_caller]
fn assert_same(ours: &Output, theirs: &Output) {
    let lines = |output: &Output| {
        output.stdout.split(|b| *b == b'\n').map(|l| l.escape_ascii().to_string()).collect()
    };
    let (ours, theirs): (Vec<String>, Vec<String>) = (lines(ours), lines(theirs));
    assert_eq!(ours, theirs);
    assert!(ours.len() > 20, "the tree was found");
}

#[test]
fn an_odd_tree_gives_the_lines_of_sha256sum() {
    let tree = odd_tree("odd");
    for paths in [".", "./", ".//", "$PWD", "sub plain sizes/"] {
        let Some(theirs) = reference(tree.path(), &format!("{paths} sizes")) else { return };
        for workers in ["1", "2", "5"] {
            let paths = paths.replace("$PWD", tree.path().to_str().unwrap());
            let ours = cygnet(["run", "hash", "--quiet", "--workers", workers])
                .args(paths.split(' '))
                // Again, so that some files are reached twice.
                .arg("sizes")
                .current_dir(tree.path())
                .output()
                .unwrap();
            assert_same(&ours, &theirs);
            assert!(ours.status.success());
            assert_eq!(stderr(&ours), "", "quiet is quiet");
        }
    }
}

#[test]
fn given_names_are_printed_as_given_and_a_given_link_to_a_directory_is_followed() {
    let tree = odd_tree("direct");
    let args = ["--help", "-n", "./sub/../empty", "link to a file", "/dev/null"];
    let names = ["--help", "-n", "./sub/../empty", "/dev/null", "link to a file"];
    for (args, names) in
        [(&args[..], &names[..]), (&["link to a directory"], &["link to a directory/x"])]
    {
        let ours = run_in(&tree, [&["run", "hash", "--quiet", "--"], args].concat());
        let text = stdout(&ours);
        assert!(text.lines().map(|line| &line[66..]).eq(names.iter().copied()), "{text}");
        assert!(!args.contains(&"/dev/null") || text.contains(&format!("{EMPTY}  /dev/null\n")));
    }
}

#[test]
fn a_dash_is_the_standard_input() {
    let output = feed(&mut cygnet(["run", "hash", "--quiet", "-"]), b"abc");
    assert_eq!(stdout(&output), format!("{ABC}  -\n"));
}

#[test]
fn unreadable_files_are_named_and_counted_and_the_rest_is_hashed() {
    let tree = Scratch::new("unreadable");
    tree.write("good", "abc");
    symlink("nowhere", tree.at("dangling")).unwrap();
    // Reading the last one from its beginning fails for every user, including root.
    let paths = ["good", "missing\nname", "dangling", "good/below", "/proc/self/mem"];
    let ours = run_in(&tree, ["run", "hash"].iter().chain(&paths));
    assert_ends(&ours, 1);
    assert_eq!(stdout(&ours), format!("{ABC}  good\n"));
    let errors = stderr(&ours);
    let lines: Vec<_> = errors.lines().collect();
    assert_eq!(
        lines[..4],
        [
            "cygnet: /proc/self/mem: Input/output error",
            "cygnet: dangling: No such file or directory",
            "cygnet: good/below: Not a directory",
            r"cygnet: $'missing\nname': No such file or directory",
        ]
    );
    assert!(lines[4].starts_with("cygnet: 1 file, 3 bytes, 4 unreadable; "), "{errors}");
    assert_eq!(lines.len(), 5);
}

#[test]
fn json_has_every_file_and_failure_and_the_figures() {
    let tree = Scratch::new("json");
    tree.write(b"caf\xe9", "abc");
    tree.write("empty", "");
    let args = ["run", "hash", "--json", "--compare-serial", "--workers", "2", ".", "no"];
    let output = run_in(&tree, args);
    let report = json(&output);
    assert_ends(&output, 1);
    assert_eq!(report["job"], "hash");
    assert_eq!(report["bytes"], 3);
    assert_eq!(
        report["files"],
        serde_json::json!([
            { "path": "./caf\u{fffd}", "path_hex": "2e2f636166e9", "bytes": 3, "sha256": ABC },
            { "path": "./empty", "bytes": 0, "sha256": EMPTY },
        ])
    );
    assert_eq!(
        report["failures"],
        serde_json::json!([{ "path": "no", "reason": "No such file or directory" }])
    );
    assert_eq!(report["figures"]["workers"], 2);
    assert_eq!(report["figures"]["tasks"], 3, "the root and one per file");
    assert_eq!(report["serial"]["workers"], 1);
    assert!(report["ratio"].as_f64().unwrap() > 0.0);
}

#[test]
fn input_that_can_be_read_only_once_is_not_compared() {
    assert_refused(&["run", "hash", "--compare-serial", "-"], 1, "--compare-serial reads twice");
}

#[test]
fn few_descriptors_are_enough() {
    let tree = Scratch::new("descriptors");
    for i in 0..400 {
        tree.write(format!("{}/{}/{i}", i % 7, i % 5), vec![b'x'; i * 100]);
    }
    let output = Command::new("sh")
        .args(["-c", r#"exec 3<&-; ulimit -n 4 && exec "$0" run hash --quiet --workers 24 ."#])
        .arg(env!("CARGO_BIN_EXE_cygnet"))
        .current_dir(tree.path())
        .output()
        .unwrap();
    assert_eq!(stderr(&output), "");
    assert_ends(&output, 0);
    assert_eq!(output.stdout.split(|b| *b == b'\n').count(), 401);
}

#[test]
fn a_closed_standard_output_ends_it_quietly() {
    let mut child = cygnet(["run", "hash", "--quiet", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The command prints nothing before its input ends, so the pipe is closed in time.
    drop(child.stdout.take());
    drop(child.stdin.take());
    let output = child.wait_with_output().unwrap();
    assert_ends(&output, 1);
    assert_eq!(stderr(&output), "");
}
