//! Runs a process with limits on its time and its output.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::line::Line;
use super::machine::{busy_seconds, children_seconds};
use super::rounds::Attempt;

/// Maximum output of a process, in bytes.
const OUTPUT: u64 = 64 << 10;
/// Interval of the checks whether a process that closed its output has ended.
const LOOK: Duration = Duration::from_millis(2);

/// The processes that are ended at the time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Only the process itself.
    Process,
    /// The process and all processes it started. It gets a process group of its own for this, so
    /// Ctrl-C on the terminal does not reach it.
    Group,
}

/// A command line of this program, for a process of its own.
///
/// # Errors
/// This program's own file cannot be found.
pub fn own(args: &[&str], quick: bool) -> anyhow::Result<Command> {
    let mut command =
        Command::new(std::env::current_exe().context("cannot find this program's file")?);
    command.args(args).args(quick.then_some("--quick"));
    Ok(command)
}

/// Measures by a command, which prints a line.
pub fn attempt(
    command: &mut Command,
    limit: Duration,
    ending: Ending,
) -> Attempt<Result<Line, String>> {
    let others = || Some(busy_seconds()? - children_seconds()?);
    let (began, before) = (Instant::now(), others());
    let line = run(command, limit, ending).and_then(|output| Line::read(&output));
    let foreign = others().zip(before).map_or(0.0, |(after, before)| after - before);
    Attempt::new(line, began.elapsed().as_secs_f64(), foreign)
}

/// Runs a command to its end and returns its output.
///
/// # Errors
/// A sentence: the command cannot be started, fails, prints too much, or takes longer than
/// `limit`.
pub fn run(command: &mut Command, limit: Duration, ending: Ending) -> Result<Vec<u8>, String> {
    let deadline = Instant::now() + limit;
    if ending == Ending::Group {
        command.process_group(0);
    }
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("it cannot be started: {error}"))?;
    let ended = wait(&mut child, deadline).and_then(|output| {
        output.ok_or_else(|| format!("it had not ended after {} s", limit.as_secs_f64()))
    });
    if ended.is_err() {
        end(&mut child, ending);
    }
    ended
}

/// Returns the output of a process that has ended, or `None` if it had not ended at the deadline.
fn wait(child: &mut Child, deadline: Instant) -> Result<Option<Vec<u8>>, String> {
    let stdout = child.stdout.take().expect("the output is piped");
    let (sender, output) = mpsc::channel();
    // The thread is not joined: another process may hold the pipe open, and must not hold up this
    // program.
    thread::spawn(move || {
        let mut output = Vec::new();
        let read: io::Result<usize> = stdout.take(OUTPUT + 1).read_to_end(&mut output);
        let _ = sender.send(read.map(|_| output));
    });
    let output = match output.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
        Ok(Ok(output)) if output.len() as u64 <= OUTPUT => output,
        Ok(Ok(_)) => return Err(format!("it printed more than {} KiB", OUTPUT >> 10)),
        Ok(Err(error)) => return Err(format!("its output cannot be read: {error}")),
        Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return Ok(None),
    };
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(Some(output)),
            Ok(Some(status)) => return Err(format!("it failed: {status}")),
            Ok(None) if Instant::now() >= deadline => return Ok(None),
            Ok(None) => thread::sleep(LOOK),
            Err(error) => return Err(format!("it cannot be waited for: {error}")),
        }
    }
}

/// Ends a process, unless it has already ended and been waited for.
fn end(child: &mut Child, ending: Ending) {
    if let Ok(None) = child.try_wait() {
        if ending == Ending::Group {
            let group = -child.id().cast_signed();
            // SAFETY: the call passes no pointers. The group is that of a child that has not been
            // waited for, so its number is not reused.
            unsafe { libc::kill(group, libc::SIGKILL) };
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Result<Vec<u8>, String> {
        let mut command = Command::new("sh");
        run(command.args(["-c", script]).stderr(Stdio::null()), limit, Ending::Group)
    }

    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_millis(200);

    #[test]
    fn the_output_is_returned() {
        assert_eq!(shell("echo 7", LONG).unwrap(), b"7\n");
    }

    #[test]
    fn failure_is_a_sentence() {
        assert!(shell("exit 3", LONG).unwrap_err().contains("exit status: 3"));
        assert!(shell("kill -SEGV $$", LONG).unwrap_err().contains("signal: 11"));
        let missing = run(&mut Command::new("/nonexistent/program"), LONG, Ending::Process);
        assert!(missing.unwrap_err().contains("cannot be started"));
    }

    #[test]
    fn too_much_is_cut_off() {
        assert!(shell("yes", LONG).unwrap_err().contains("more than 64 KiB"));
    }

    #[test]
    fn a_process_ends_at_the_limit_with_its_children() {
        let began = Instant::now();
        assert!(shell("sleep 60 & sleep 60", SHORT).unwrap_err().contains("after 0.2 s"));
        assert!(shell("exec >&-; sleep 60", SHORT).unwrap_err().contains("after 0.2 s"));
        assert!(began.elapsed() < LONG / 2);
    }
}
