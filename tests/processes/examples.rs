//! The examples, run as a user runs them.

// ThreadSanitizer reports a race inside of tokio, as tests/tokio.rs says, and the examples are not
// built for it.
#![cfg(not(any(cygnet_tsan, cygnet_asan)))]

use crate::common::prelude::*;
use crate::common::rerun::command_of;
use std::env;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// The command of an example that `cargo test` has built, or `None` if it has built only some
/// tests.
fn example(name: &str) -> Option<Command> {
    let tests = env::current_exe().unwrap();
    let binary: PathBuf = tests.parent().unwrap().parent().unwrap().join("examples").join(name);
    if !binary.exists() {
        eprintln!("{} is not built: nothing is shown here", binary.display());
        return None;
    }
    Some(command_of(binary))
}

/// Runs an example to its end, and returns its exit code, its output and what it wrote to standard
/// error.
fn run(name: &str, arguments: &[&str]) -> Option<(Option<i32>, String, String)> {
    let output = example(name)?.args(arguments).output().unwrap();
    let [said, complained] =
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    Some((output.status.code(), said, complained))
}

#[test]
fn phases_loses_nothing() {
    within(|| {
        let Some((code, said, _)) = run("phases", &[]) else { return };
        assert_eq!(code, Some(0), "{said}");
        let order: Vec<_> = said.lines().map(|line| line.split(':').next().unwrap()).collect();
        assert_eq!(order[..3], ["sources", "workers", "store"]);
        assert!(said.lines().take(3).all(|line| line.contains("all was finished")), "{said}");
    });
}

#[test]
fn pipeline_writes_all_that_was_read_unless_it_is_cancelled() {
    within_seconds(240, || {
        let Some((code, output, said)) = run("pipeline", &["--stop-after", "20000"]) else {
            return;
        };
        assert_eq!(code, Some(0), "{said}");
        assert!(said.starts_with("read 20000 lines, wrote 20000;"), "{said}");
        assert_eq!(output.lines().count(), 20_000);

        let (code, output, said) = run("pipeline", &["--cancel-after", "20000"]).unwrap();
        assert!(said.starts_with("read 20000 lines, wrote "), "{said}");
        let written = output.lines().count();
        assert!(said.contains(&format!("wrote {written};")) && written <= 20_000, "{said}");
        assert_eq!(code == Some(0), written == 20_000);
    });
}

#[test]
fn pipeline_and_server_say_how_they_are_called() {
    within(|| {
        for arguments in [&["--stop-after"][..], &["--cancel-after", "x"], &["-h"], &["a", "b"]] {
            let Some((code, _, said)) = run("pipeline", arguments) else { return };
            assert_eq!(code, Some(2), "{arguments:?}");
            assert!(said.starts_with("usage: pipeline"), "{said}");
        }
        let (code, _, said) = run("pipeline", &["/no/such/file"]).unwrap();
        assert_eq!(code, Some(1));
        assert!(said.starts_with("pipeline: /no/such/file: "), "{said}");
        for arguments in [&["five"][..], &["-1"], &["1", "2"], &["nan"], &["inf"]] {
            let Some((code, _, said)) = run("server", arguments) else { return };
            assert_eq!(code, Some(2), "{arguments:?}");
            assert!(said.starts_with("usage: server [SECONDS]"), "{said}");
        }
    });
}

#[test]
fn pipeline_writes_what_was_read_before_an_error() {
    within(|| {
        let file = std::env::temp_dir().join(format!("cygnet-pipeline-{}", std::process::id()));
        std::fs::write(&file, b"oslo;1.5\nlima;x\n\xff;2\noslo;3\n").unwrap();
        let ran = run("pipeline", &[file.to_str().unwrap()]);
        std::fs::remove_file(&file).unwrap();
        let Some((code, output, said)) = ran else { return };
        assert_eq!((code, output.as_str()), (Some(1), "oslo;1.5;1.500\n?lima;x\n"));
        assert!(said.starts_with("read 2 lines, wrote 2;"), "{said}");
        assert!(said.contains("\npipeline: after 2 lines: "), "{said}");
    });
}

#[test]
fn pipeline_that_waits_for_input_stops_at_the_first_ctrl_c() {
    within(|| {
        let Some(mut pipeline) = example("pipeline") else { return };
        pipeline.arg("/dev/stdin").stdin(Stdio::piped());
        let mut child = pipeline.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        input.write_all(b"oslo;1.5\n").unwrap();
        let mut written = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut written).unwrap();
        assert_eq!(written, "oslo;1.5;1.500\n");
        // It is in read(2) of an empty pipe, or on its way there.
        signal(&child, libc::SIGINT);
        let ended = child.wait_with_output().unwrap();
        let said = String::from_utf8(ended.stderr).unwrap();
        assert!(ended.status.success(), "{said}");
        assert!(said.contains("read 1 lines, wrote 1;"), "{said}");
        drop(input);
    });
}

#[test]
fn pipeline_that_cannot_write_ends_at_the_third_ctrl_c() {
    within(|| {
        // The second Ctrl-C may come before the writer writes, and then there is nothing to write.
        let mut attempts = std::iter::repeat_with(stop_and_kill_one_that_cannot_write);
        let stuck = attempts.by_ref().take(100).find(|stuck| *stuck != Some(false));
        assert!(stuck.is_some(), "it was never stuck");
    });
}

/// Returns whether the pipeline was stuck; `None` if it is not built.
fn stop_and_kill_one_that_cannot_write() -> Option<bool> {
    let mut pipeline = example("pipeline")?;
    // The pipe is not read, and half a million lines are more than it takes.
    let (reader, writer) = std::io::pipe().unwrap();
    pipeline.stdout(writer.try_clone().unwrap()).stderr(Stdio::piped());
    let mut child = pipeline.spawn().unwrap();
    // When it has begun to write, many more lines are to come.
    let mut begun = libc::pollfd { fd: reader.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one structure, which lives across the call.
    assert_eq!(unsafe { libc::poll(&mut begun, 1, -1) }, 1);
    fill(&writer);
    // Two that come at the same time may be one for the process.
    let mut ended = None;
    eventually("it ends", || {
        signal(&child, libc::SIGINT);
        ended = child.try_wait().unwrap();
        ended.is_some()
    });
    let said = rest_of(child.stderr.take().unwrap());
    drop(reader);
    let stuck = ended.unwrap().signal() == Some(libc::SIGINT);
    assert!(stuck || said.contains("read ") && said.contains(" lines, wrote "), "{said}");
    Some(stuck)
}

/// Fills a pipe, into which the example writes too, to its last byte.
fn fill(pipe: &std::io::PipeWriter) {
    // Opened again, since the example needs an end that blocks.
    let again = format!("/proc/self/fd/{}", pipe.as_raw_fd());
    let mut options = std::fs::OpenOptions::new();
    let mut ours = options.write(true).custom_flags(libc::O_NONBLOCK).open(again).unwrap();
    while ours.write(b"\n").is_ok() {}
}

fn line_of(mut reader: impl BufRead) -> String {
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    line
}

fn rest_of(mut reader: impl Read) -> String {
    let mut rest = String::new();
    reader.read_to_string(&mut rest).unwrap();
    rest
}

/// Starts a server, and returns it with its output and its address.
fn start(seconds: &str) -> Option<(Child, BufReader<impl Read>, SocketAddr)> {
    let mut server = example("server")?.arg(seconds).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = BufReader::new(server.stdout.take().unwrap());
    let line = line_of(&mut said);
    let address = line.trim().strip_prefix("listening on ").unwrap().parse().unwrap();
    Some((server, said, address))
}

fn signal(server: &Child, signal: i32) {
    let process = i32::try_from(server.id()).unwrap();
    // SAFETY: a signal to a child of this process, which has not been waited for.
    assert_eq!(unsafe { libc::kill(process, signal) }, 0);
}

struct Client(BufReader<TcpStream>);

impl Client {
    fn new(address: SocketAddr) -> Client {
        Client(BufReader::new(TcpStream::connect(address).unwrap()))
    }

    fn ask(&mut self, request: &str) {
        self.0.get_mut().write_all(format!("{request}\n").as_bytes()).unwrap();
    }

    /// Asks, and asserts the answer.
    #[track_caller]
    fn expect(&mut self, request: &str, answer: &str) {
        self.ask(request);
        assert_eq!(self.hear(), answer);
    }

    /// Returns an answer, or nothing if the connection is at its end.
    fn hear(&mut self) -> String {
        let mut line = String::new();
        // A connection that was reset is at its end, too.
        let _ = self.0.read_line(&mut line);
        line.trim().to_string()
    }
}

#[test]
fn server_finishes_requests_ends_idle_connections_and_refuses_the_rest() {
    within_seconds(240, || {
        for by in [libc::SIGINT, libc::SIGTERM] {
            let Some((mut server, mut said, address)) = start("3600") else { return };
            let (mut idle, mut busy) = (Client::new(address), Client::new(address));
            idle.expect("steps 97", "= 118");
            idle.expect("steps many", "failed: many is no number");
            idle.ask("what?");
            assert!(idle.hear().starts_with("failed: requests are"));
            busy.expect("steps 1", "= 0");
            // Longer than the server needs to notice the signal.
            busy.ask("nap 1500");
            idle.expect("nap 1", "= rested");
            signal(&server, by);
            assert_eq!(idle.hear(), "", "an idle connection ends");
            assert_eq!(busy.hear(), "= rested");
            busy.0.get_mut().write_all(b"steps 97\n").unwrap_or_default();
            assert!(["", "refused: the server is shutting down"].contains(&&*busy.hear()));
            assert!(TcpStream::connect(address).is_err(), "it accepts connections");
            assert!(server.wait().unwrap().success());
            let rest = rest_of(&mut said);
            assert!(rest.contains("all was finished in"), "{rest}");
        }
    });
}

#[test]
fn server_cancels_a_stuck_request_and_names_it() {
    within_seconds(240, || {
        let Some((mut server, mut said, address)) = start("0.2") else { return };
        let mut stuck = Client::new(address);
        stuck.expect("steps 27", "= 111");
        stuck.ask("hang");
        // The hanging request has begun when another one is served.
        let mut other = Client::new(address);
        other.expect("nap 300", "= rested");
        signal(&server, libc::SIGTERM);
        let answer = stuck.hear();
        assert!(answer.contains("its time to finish is over"), "{answer}");
        assert_eq!(server.wait().unwrap().code(), Some(1));
        let rest = rest_of(&mut said);
        assert!(rest.contains("1 from examples/server.rs:"), "{rest}");
        assert!(rest.contains("scopes and tasks were cancelled"), "{rest}");
    });
}

#[test]
fn server_refuses_requests_that_have_not_begun() {
    within_seconds(240, || {
        let Some((mut server, mut said, address)) = start("0.2") else { return };
        let mut client = Client::new(address);
        // In one piece, so all requests are there when the first one is answered.
        client.ask("steps 97\nhang\nsteps 27\nwhat?\nnap 1");
        assert_eq!(client.hear(), "= 118");
        // The hanging request has begun when one of another connection is served.
        Client::new(address).expect("nap 300", "= rested");
        signal(&server, libc::SIGINT);
        let answer = client.hear();
        assert!(answer.contains("its time to finish is over"), "{answer}");
        for _ in 0..3 {
            assert_eq!(client.hear(), "refused: the server is shutting down");
        }
        assert_eq!(client.hear(), "");
        assert_eq!(server.wait().unwrap().code(), Some(1));
        let rest = rest_of(&mut said);
        assert!(rest.contains("1 from examples/server.rs:"), "{rest}");
    });
}

#[test]
fn server_cancels_what_is_left_when_it_is_told_again() {
    within_seconds(240, || {
        for by in [libc::SIGINT, libc::SIGTERM] {
            let Some((mut server, mut said, address)) = start("3600") else { return };
            let mut stuck = Client::new(address);
            stuck.ask("steps 97\nhang");
            assert_eq!(stuck.hear(), "= 118");
            signal(&server, libc::SIGINT);
            let line = line_of(&mut said);
            assert!(line.starts_with("shutting down; "), "{line}");
            signal(&server, by);
            let answer = stuck.hear();
            assert!(answer.contains("its time to finish is over"), "{answer}");
            assert_eq!(server.wait().unwrap().code(), Some(1));
            let rest = rest_of(&mut said);
            assert!(rest.contains("scopes and tasks were cancelled"), "{rest}");
        }
    });
}

#[test]
fn server_ends_although_its_output_is_not_read() {
    within_seconds(240, || {
        let Some((mut server, said, address)) = start("3600") else { return };
        drop(said);
        let mut client = Client::new(address);
        client.expect("steps 97", "= 118");
        signal(&server, libc::SIGINT);
        assert_eq!(client.hear(), "");
        assert!(server.wait().unwrap().success());
    });
}

#[test]
fn server_ends_although_a_client_does_not_read_its_answers() {
    within_seconds(240, || {
        let Some((mut server, mut said, address)) = start("0.2") else { return };
        let mut client = TcpStream::connect(address).unwrap();
        // Until answers that are not read leave no room for more requests.
        client.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
        let requests = "what?\n".repeat(10_000);
        while client.write_all(requests.as_bytes()).is_ok() {}
        signal(&server, libc::SIGINT);
        // The server ends late if requests are in its way, and in time if it was slow to take them
        // in.
        server.wait().unwrap();
        let rest = rest_of(&mut said);
        assert!(rest.starts_with("shutting down; "), "{rest}");
        drop(client);
    });
}

#[cfg(feature = "sim")]
#[test]
fn bank_loses_money_by_a_seed_that_loses_it_again() {
    within(|| {
        let Some((_, said, _)) = run("bank", &[]) else { return };
        assert!(said.contains("money has come from nowhere"), "{said}");
        let line = |said: &str, start: &str| {
            let mut lines = said.lines().filter_map(|line| line.split(start).nth(1));
            lines.next().map(str::to_owned).unwrap_or_else(|| panic!("no {start} in {said}"))
        };
        let seed = line(&said, "CYGNET_SIM_SEED=");
        let output = example("bank").unwrap().env("CYGNET_SIM_SEED", &seed).output().unwrap();
        let again = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(again.starts_with("run 1 of the simulation has failed"), "{again}");
        assert_eq!(line(&again, "after "), line(&said, "after "));
    });
}
