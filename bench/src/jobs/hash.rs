//! `run hash`: SHA-256 of every file below the paths, one coroutine per file.
//!
//! The root task walks and spawns while workers hash. It keeps at most [`WINDOW`] unjoined tasks,
//! so a run takes memory for the names and digests of the sorted list, and not for a task per
//! file.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::settled;
use crate::cli::HashArgs;
use crate::files::{self, Failure, Gate, Walk, by_bytes};
use crate::measure::progress::Progress;
use crate::names;
use crate::report::{self, Outcome};

/// Maximum number of spawned tasks that are not yet joined.
const WINDOW: usize = 1024;

/// Bytes per read.
const CHUNK: usize = 64 << 10;

/// Runs the job and prints its result.
pub(crate) fn run(args: &HashArgs) -> anyhow::Result<ExitCode> {
    super::check_repeatable(&args.paths, &args.common)?;
    let report =
        report::measure("hash", "files", &args.common, |progress| hash(&args.paths, progress))?;
    report.publish(&args.common)
}

/// The digest and the size of one file.
#[derive(PartialEq, Serialize)]
struct Hashed {
    #[serde(flatten, serialize_with = "names::fields")]
    path: PathBuf,
    bytes: u64,
    #[serde(serialize_with = "names::in_hex")]
    sha256: [u8; 32],
}

/// The result of hashing. Both lists are sorted by the bytes of the path.
#[derive(Default, PartialEq, Serialize)]
struct Hashes {
    bytes: u64,
    files: Vec<Hashed>,
    failures: Vec<Failure>,
}

impl Hashes {
    fn add(&mut self, result: Result<Hashed, Failure>) {
        match result {
            Ok(file) => {
                self.bytes += file.bytes;
                self.files.push(file);
            }
            Err(failure) => self.failures.push(failure),
        }
    }
}

/// Hashes everything below `paths`; runs as the root task.
fn hash(paths: &[PathBuf], progress: &Progress) -> Hashes {
    let gate = &Gate::default();
    let mut hashes = Hashes::default();
    cygnet::scope(|s| {
        let mut window = VecDeque::with_capacity(WINDOW);
        for found in Walk::new(paths, gate) {
            match found {
                Ok(path) => {
                    progress.expect(1);
                    window.push_back(s.spawn(move || hash_one(path, gate, progress)));
                    if window.len() > WINDOW
                        && let Some(oldest) = window.pop_front()
                    {
                        hashes.add(settled(oldest.join()));
                    }
                }
                Err(failure) => hashes.add(Err(failure)),
            }
        }
        for task in window {
            hashes.add(settled(task.join()));
        }
    });
    hashes.files.sort_by(|a, b| by_bytes(&a.path, &b.path));
    hashes.failures.sort_by(|a, b| by_bytes(&a.path, &b.path).then_with(|| a.cmp(b)));
    hashes
}

/// The body of a task.
fn hash_one(path: PathBuf, gate: &Gate, progress: &Progress) -> Result<Hashed, Failure> {
    let sum = if files::is_standard_input(&path) {
        sum(io::stdin().lock())
    } else {
        gate.pass(|| sum(File::open(&path)?))
    };
    progress.step();
    match sum {
        Ok((sha256, bytes)) => Ok(Hashed { path, bytes, sha256 }),
        Err(error) => Err(Failure::new(path, &error)),
    }
}

/// Hashes a file to its end. Returns the digest and the number of bytes.
fn sum(mut file: impl Read) -> io::Result<([u8; 32], u64)> {
    files::with_buffer(CHUNK, |buffer| {
        let mut hasher = Sha256::new();
        let mut bytes = 0;
        loop {
            let count = files::uninterrupted(|| file.read(buffer))?;
            if count == 0 {
                return Ok((hasher.finalize().into(), bytes));
            }
            hasher.update(&buffer[..count]);
            bytes += count as u64;
        }
    })
}

impl Outcome for Hashes {
    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        self.files.iter().try_for_each(|file| {
            names::write_checksum_line(out, &names::hex(&file.sha256), &file.path)
        })
    }

    fn summary(&self) -> String {
        files::summary(self.files.len() as u64, self.bytes, &self.failures)
    }

    fn failures(&self) -> &[Failure] {
        &self.failures
    }
}
