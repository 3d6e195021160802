//! A pipeline over a ring, with four tasks: one reads lines, one parses them, one computes the
//! means, one writes the lines. Each works in place, in the ring's record that holds the line. A
//! slow writer slows the reader down, as the ring has no room then.
//!
//! ```sh
//! cargo run --release --example pipeline -- [--stop-after LINES | --cancel-after LINES] [FILE]
//! ```
//!
//! A line is a name and a number, `basel;12.5`; without a file, lines are made up. Ctrl-C stops the
//! program in good order: no more lines are read, and the lines already read are written. A second
//! Ctrl-C is a hard cancel: every stage ends where it is. Either can also be requested after a
//! number of lines. A third Ctrl-C kills the program, even if a stage is in a write(2) to a process
//! that does not read.
//!
//! A stop and a cancel reach a task where it waits. They do not reach a read(2) of a terminal or a
//! pipe, which may take for ever. So a separate thread reads the input, and is abandoned when the
//! program ends.

use cygnet::Runtime;
use cygnet::ring::{self, Producer, Stage};
use cygnet::shutdown::{Interrupt, Swansong, on_signals};
use cygnet::sync::{Receiver, WaitError, bounded};
use std::collections::HashMap;
use std::error::Error;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A record of the ring. Its memory is reused.
#[derive(Default)]
struct Record {
    line: String,
    name: String,
    number: Option<f64>,
    mean: f64,
}

#[derive(Default)]
struct Arguments {
    stop_after: Option<u64>,
    cancel_after: Option<u64>,
    file: Option<String>,
}

fn main() -> ExitCode {
    let Some(arguments) = arguments(std::env::args().skip(1)) else {
        eprintln!("usage: pipeline [--stop-after LINES | --cancel-after LINES] [FILE]");
        return ExitCode::from(2);
    };
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("pipeline: {error}");
            ExitCode::FAILURE
        }
    }
}

fn arguments(mut words: impl Iterator<Item = String>) -> Option<Arguments> {
    let mut arguments = Arguments::default();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--stop-after" => arguments.stop_after = Some(words.next()?.parse().ok()?),
            "--cancel-after" => arguments.cancel_after = Some(words.next()?.parse().ok()?),
            option if option.starts_with('-') => return None,
            _ if arguments.file.is_some() => return None,
            _ => arguments.file = Some(word),
        }
    }
    Some(arguments)
}

/// Returns whether all lines that were read have been written.
fn run(arguments: &Arguments) -> Result<bool, Box<dyn Error>> {
    let lines = match &arguments.file {
        Some(file) => lines_of(File::open(file).map_err(|error| format!("{file}: {error}"))?),
        None => lines_of(MadeUp::default()),
    };
    let runtime = Runtime::new()?;
    let (stop, at) = (Swansong::new(), (arguments.stop_after, arguments.cancel_after));

    let mut ring = ring::single_producer(256, Record::default);
    let (mut parser, mut keeper, writer) = (ring.stage(), ring.stage(), ring.stage());
    let mut producer = ring.producer();

    // How each task has ended. A cancelled task does not wait for others, but the scope does.
    let (mut came, mut ended, written) = (None, None, AtomicU64::new(0));
    on_signals(&stop, Duration::MAX)?;
    let guard = stop.guard();
    runtime.block_on(|| {
        // The second Ctrl-C cancels this scope.
        stop.scope(|s| {
            let (came, stop) = (&mut came, &stop);
            s.spawn(move || {
                let lines = stop.interrupt(lines);
                *came = Some(bring(lines, &mut producer, stop, at));
            });
            s.spawn(move || parse(&mut parser));
            s.spawn(move || keep(&mut keeper));
            s.spawn(|| ended = Some(write(writer, io::stdout().lock(), &written)));
        });
    });
    // From here on Ctrl-C ends the process.
    drop(guard);
    let (written, (read, waited, came)) = (written.into_inner(), came.unwrap_or((0, 0, Ok(()))));
    eprintln!("read {read} lines, wrote {written}; the reader waited for room {waited} times");
    // A task that was cancelled before it began has no result.
    ended.unwrap_or(Ok(()))?;
    came.map_err(|error| format!("after {read} lines: {error}"))?;
    Ok(read == written)
}

/// Starts a thread that reads lines as long as there is a receiver.
fn lines_of(input: impl io::Read + Send + 'static) -> Receiver<io::Result<String>> {
    let (sender, lines) = bounded(64);
    std::thread::spawn(move || {
        for line in BufReader::new(input).lines() {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// Puts lines into the ring until the end, the stop, the cancel, or an error. Returns the number of
/// lines, and how often the ring had no room.
fn bring(
    mut lines: Interrupt<Receiver<io::Result<String>>>,
    producer: &mut Producer<Record>,
    stop: &Swansong,
    (stop_after, cancel_after): (Option<u64>, Option<u64>),
) -> (u64, u64, io::Result<()>) {
    let (mut read, mut waited) = (0, 0);
    loop {
        if Some(read) == stop_after {
            stop.shut_down();
        }
        if Some(read) == cancel_after {
            stop.shut_down_now();
        }
        let line = match lines.recv() {
            Ok(Some(Ok(line))) => line,
            Ok(Some(Err(error))) => return (read, waited, Err(error)),
            // Stopped, or at the end, or cancelled.
            Ok(None) | Err(_) => break,
        };
        waited += u64::from(producer.try_claim(1).is_err());
        let Ok(mut batch) = producer.claim(1) else { break };
        batch.iter_mut().next().expect("one was claimed").line = line;
        batch.publish();
        read += 1;
    }
    (read, waited, Ok(()))
}

/// Calls `f` with each record, batch by batch, until there are no more or the task is cancelled.
fn each_batch(stage: &mut Stage<Record>, mut f: impl FnMut(&mut Record)) {
    loop {
        match stage.next_batch(..) {
            Ok(mut batch) => batch.iter_mut().for_each(&mut f),
            Err(WaitError::Closed | WaitError::Cancelled(_)) => return,
            Err(other) => unreachable!("no time was set: {other}"),
        }
    }
}

fn parse(stage: &mut Stage<Record>) {
    each_batch(stage, |record| {
        record.name.clear();
        record.number = None;
        if let Some((name, number)) = record.line.split_once(';') {
            record.name.push_str(name);
            record.number = number.parse().ok();
        }
    });
}

fn keep(stage: &mut Stage<Record>) {
    let mut means: HashMap<String, (f64, f64)> = HashMap::new();
    each_batch(stage, |record| {
        let Some(number) = record.number else { return };
        if !means.contains_key(&record.name) {
            means.insert(record.name.clone(), (0.0, 0.0));
        }
        let (sum, count) = means.get_mut(&record.name).expect("it is there");
        *sum += number;
        *count += 1.0;
        record.mean = *sum / *count;
    });
}

/// Writes each line with the mean so far, and counts the lines.
fn write(mut stage: Stage<Record>, output: impl Write, written: &AtomicU64) -> io::Result<()> {
    let mut output = io::BufWriter::new(output);
    while let Ok(batch) = stage.next_batch(..) {
        for record in batch.iter() {
            // After an error the stage is dropped, and that ends the ring: the reader's claim
            // fails.
            match record.number {
                Some(number) => writeln!(output, "{};{number};{:.3}", record.name, record.mean)?,
                None => writeln!(output, "?{}", record.line)?,
            }
            written.fetch_add(1, Ordering::Relaxed);
        }
        // Before a wait for more, which may take long.
        output.flush()?;
    }
    Ok(())
}

/// Half a million lines of five towns.
#[derive(Default)]
struct MadeUp {
    lines: u64,
    state: u64,
}

impl io::Read for MadeUp {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        const TOWNS: [&str; 5] = ["basel", "lagos", "lima", "oslo", "perth"];
        if self.lines == 500_000 {
            return Ok(0);
        }
        self.lines += 1;
        // Knuth's linear congruential generator (MMIX).
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let (town, degrees) = (TOWNS[(self.state >> 33) as usize % 5], (self.state >> 40) % 400);
        let line = format!("{town};{}.{}\n", degrees / 10, degrees % 10);
        buffer[..line.len()].copy_from_slice(line.as_bytes());
        Ok(line.len())
    }
}
