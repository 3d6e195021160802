//! `run wordcount`: the most frequent words of all files below the paths.
//!
//! The input is divided into leaves of about [`PIECE`] bytes: many small files, or one piece of a
//! large file. A binary tree of tasks counts the leaves and merges the tables on the way up, so
//! merging is as parallel as counting. The result depends only on the input, not on which worker
//! counted which leaf, or in which order.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;

use super::settled;
use super::words::{Frequency, Tally, first_cut, last_cut};
use crate::cli::WordcountArgs;
use crate::files::{self, Failure, Gate, Walk};
use crate::measure::progress::Progress;
use crate::report::{self, Outcome};

/// Size of a piece: how much of a file is read at once.
const PIECE: u64 = 1 << 20;

/// How far beyond the end of its piece a task looks for a place to cut.
const OVERLAP: u64 = 64 << 10;

/// Maximum number of files in a leaf, since empty files cost time too.
const FILES_PER_LEAF: usize = 256;

/// Runs the job and prints its result.
pub(crate) fn run(args: &WordcountArgs) -> anyhow::Result<ExitCode> {
    super::check_repeatable(&args.paths, &args.common)?;
    let report = report::measure("wordcount", "pieces", &args.common, |progress| {
        count(&args.paths, args.top, progress)
    })?;
    report.publish(&args.common)
}

/// Part of the input.
struct Piece<'a> {
    path: &'a Path,
    /// The range of bytes, or `None` for the whole of a file of unknown length.
    range: Option<(u64, u64)>,
}

/// The counts of a leaf or a subtree.
#[derive(Default)]
struct Found {
    tally: Tally,
    bytes: u64,
    failures: Vec<Failure>,
}

/// The result of the job.
#[derive(PartialEq, Serialize)]
struct Words {
    files: u64,
    bytes: u64,
    words: u64,
    distinct: u64,
    top: Vec<Frequency>,
    failures: Vec<Failure>,
}

/// Counts everything below `paths`; runs as the root task.
fn count(paths: &[PathBuf], top: usize, progress: &Progress) -> Words {
    let gate = Gate::default();
    let (mut files, mut failures) = (Vec::new(), Vec::new());
    for found in Walk::new(paths, &gate) {
        match found {
            Ok(path) => files.push(path),
            Err(failure) => failures.push(failure),
        }
    }
    // Neighbours in the tree then share directories, and often words.
    files.sort_by(|a, b| files::by_bytes(a, b));
    let leaves = divide(&files);
    progress.expect(leaves.iter().map(|leaf| leaf.len() as u64).sum());
    let found = count_leaves(&leaves, &gate, progress);
    failures.extend(found.failures);
    failures.sort();
    // Each piece of an unreadable file has reported the same failure.
    failures.dedup();
    let unread: HashSet<&Path> = failures.iter().map(|failure| &*failure.path).collect();
    let read = files.iter().filter(|path| !unread.contains(path.as_path())).count();
    Words {
        files: read as u64,
        bytes: found.bytes,
        words: found.tally.total(),
        distinct: found.tally.distinct(),
        top: found.tally.top(top),
        failures,
    }
}

/// Divides the files into leaves.
fn divide(files: &[PathBuf]) -> Vec<Vec<Piece<'_>>> {
    let mut leaves = Vec::new();
    let mut leaf = Vec::new();
    let mut room = PIECE;
    for path in files {
        for piece in pieces(path) {
            // A file of unknown size may be long.
            let size = piece.range.map_or(PIECE, |(from, to)| to - from);
            if !leaf.is_empty() && (size > room || leaf.len() == FILES_PER_LEAF) {
                leaves.push(std::mem::take(&mut leaf));
                room = PIECE;
            }
            room = room.saturating_sub(size);
            leaf.push(piece);
        }
    }
    leaves.push(leaf);
    leaves
}

/// Divides one file.
fn pieces(path: &Path) -> impl Iterator<Item = Piece<'_>> {
    // Errors are ignored here: the task that reads the file meets them again and reports them.
    let size = match fs::metadata(path) {
        Ok(about) if about.is_file() && !files::is_standard_input(path) => about.len(),
        _ => 0,
    };
    // Files in /proc have size zero and are not empty.
    let whole = (size == 0).then_some(Piece { path, range: None });
    let parts = (0..size.div_ceil(PIECE)).map(move |i| {
        let range = (i * PIECE, size.min((i + 1) * PIECE));
        Piece { path, range: Some(range) }
    });
    whole.into_iter().chain(parts)
}

/// Counts some leaves, half of them in a task of its own.
fn count_leaves(leaves: &[Vec<Piece<'_>>], gate: &Gate, progress: &Progress) -> Found {
    match leaves {
        [] => Found::default(),
        [leaf] => {
            let mut found = Found::default();
            for piece in leaf {
                found.read(piece, gate);
                progress.step();
            }
            found
        }
        _ => cygnet::scope(|s| {
            let (left, right) = leaves.split_at(leaves.len() / 2);
            let right = s.spawn(move || count_leaves(right, gate, progress));
            let left = count_leaves(left, gate, progress);
            left.merged(settled(right.join()))
        }),
    }
}

impl Found {
    /// Counts one piece.
    fn read(&mut self, piece: &Piece<'_>, gate: &Gate) {
        let read = match piece.range {
            Some((from, to)) => gate.pass(|| self.read_range(&File::open(piece.path)?, from, to)),
            None if files::is_standard_input(piece.path) => self.read_stream(io::stdin().lock()),
            None => gate.pass(|| self.read_stream(File::open(piece.path)?)),
        };
        if let Err(error) = read {
            self.failures.push(Failure::new(piece.path.to_owned(), &error));
        }
    }

    /// Counts the words between the cut for `from` and the cut for `to`.
    ///
    /// The reader of the next piece finds the same cut at `to` from the same bytes, so each word
    /// is counted once.
    fn read_range(&mut self, file: &File, from: u64, to: u64) -> io::Result<()> {
        files::with_buffer((PIECE + OVERLAP) as usize, |buffer| {
            let length = read_at(file, buffer, from)?;
            let text = &buffer[..length];
            let cut = |place: u64| {
                let start = ((place - from) as usize).min(text.len());
                let end = (start + OVERLAP as usize).min(text.len());
                start + if place == 0 { 0 } else { first_cut(&text[start..end], OVERLAP as usize) }
            };
            let (start, end) = (cut(from), if to - from < PIECE { text.len() } else { cut(to) });
            // A cut may lie up to `OVERLAP` beyond its nominal place.
            self.tally.read(&text[start.min(end)..end]);
            self.bytes += (to - from).min(length as u64);
            Ok(())
        })
    }

    /// Counts the words of a stream to its end.
    fn read_stream(&mut self, mut stream: impl Read) -> io::Result<()> {
        files::with_buffer((PIECE + OVERLAP) as usize, |buffer| {
            let mut held = 0;
            loop {
                let count = files::uninterrupted(|| stream.read(&mut buffer[held..]))?;
                if count == 0 {
                    self.tally.read(&buffer[..held]);
                    return Ok(());
                }
                held += count;
                self.bytes += count as u64;
                if held == buffer.len() {
                    let cut = last_cut(buffer);
                    self.tally.read(&buffer[..cut]);
                    buffer.copy_within(cut.., 0);
                    held -= cut;
                }
            }
        })
    }

    fn merged(mut self, other: Self) -> Self {
        self.tally = self.tally.merged(other.tally);
        self.bytes += other.bytes;
        self.failures.extend(other.failures);
        self
    }
}

/// Fills the buffer from offset `from`, as far as the file goes.
fn read_at(file: &File, buffer: &mut [u8], from: u64) -> io::Result<usize> {
    let mut length = 0;
    while length < buffer.len() {
        let at = from + length as u64;
        match files::uninterrupted(|| file.read_at(&mut buffer[length..], at))? {
            0 => break,
            count => length += count,
        }
    }
    Ok(length)
}

impl Outcome for Words {
    fn write_text(&self, out: &mut dyn Write) -> io::Result<()> {
        for Frequency { word, count } in &self.top {
            writeln!(out, "{count:>10} {word}")?;
        }
        writeln!(out, "{:>10} words in all, {} of them different", self.words, self.distinct)
    }

    fn summary(&self) -> String {
        files::summary(self.files, self.bytes, &self.failures)
    }

    fn failures(&self) -> &[Failure] {
        &self.failures
    }
}
