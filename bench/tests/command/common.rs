//! Helpers that the tests of the command share.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;

use serde_json::Value;

/// A command line of `cygnet`.
pub fn cygnet(args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cygnet"));
    command.args(args).stdin(Stdio::null());
    command
}

/// Runs a command line of `cygnet` to its end.
pub fn run(args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Output {
    cygnet(args).output().expect("the binary runs")
}

/// Runs a command line of `cygnet` to its end, in a directory.
pub fn run_in(dir: &Scratch, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Output {
    cygnet(args).current_dir(dir.path()).output().expect("the binary runs")
}

/// Runs a command with bytes on its standard input.
pub fn feed(command: &mut Command, input: &[u8]) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary runs");
    let mut stdin = child.stdin.take().expect("a pipe");
    thread::scope(|s| {
        s.spawn(move || stdin.write_all(input).expect("the input is read"));
        child.wait_with_output().expect("the child ends")
    })
}

/// Parses the standard output as JSON.
#[track_caller]
pub fn json(output: &Output) -> Value {
    let text = str::from_utf8(&output.stdout).expect("JSON is UTF-8");
    assert_eq!(text.lines().count(), 1, "one object on one line: {text}");
    serde_json::from_str(text).expect("the output parses")
}

/// Returns the standard error as text.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the standard output as text.
pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Checks the exit status.
#[track_caller]
pub fn assert_ends(output: &Output, status: i32) {
    assert_eq!(output.status.code(), Some(status), "{}{}", stderr(output), stdout(output));
}

/// Checks that a command line is refused with a sentence, and prints nothing.
#[track_caller]
pub fn assert_refused(args: &[&str], status: i32, sentence: &str) {
    let output = run(args);
    assert_ends(&output, status);
    assert!(stderr(&output).contains(sentence), "{args:?}: {}", stderr(&output));
    assert!(output.stdout.is_empty(), "{args:?}");
}

/// A directory that is removed when the test ends.
pub struct Scratch(PathBuf);

impl Scratch {
    /// Creates an empty directory; `name` is unique among the tests of all files.
    pub fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("cygnet-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The path of an entry in it.
    pub fn at(&self, name: impl AsRef<[u8]>) -> PathBuf {
        self.0.join(OsStr::from_bytes(name.as_ref()))
    }

    /// The path of an entry in it, as text.
    pub fn text(&self, name: &str) -> String {
        self.at(name).to_str().expect("text").to_owned()
    }

    /// The text of a file in it.
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).expect("a file of text")
    }

    /// Writes a file in it, making the directories on the way.
    pub fn write(&self, name: impl AsRef<[u8]>, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.at(name);
        fs::create_dir_all(path.parent().expect("it is below the directory")).expect("made");
        fs::write(&path, content).expect("written");
        path
    }

    /// The names of its entries, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(&self.0)
            .expect("a directory")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
