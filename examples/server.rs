//! A server that ends gracefully: what it is told by Ctrl-C, or by SIGTERM, as service managers do.
//!
//! ```sh
//! cargo run --release --example server             # prints its address; then, elsewhere:
//! printf 'steps 97\n' | nc -q 1 127.0.0.1 PORT     # = 118
//! ```
//!
//! Connections are tokio's, which waits for sockets; what there is to compute is cygnet's. When it is told to end
//!
//! * no connection is accepted any more, and one that is idle ends at once: both wait in an `interrupt`;
//! * requests that have begun are finished, and their answers written;
//! * requests that have come and have not begun are refused, each with a line: a connection holds a guard until that is done;
//! * one that is not finished in time is cancelled, and named in the report, with the place where it was spawned.
//!
//! The second Ctrl-C, or SIGTERM, ends the process at once, whatever is not finished.

use cygnet::shutdown::{Guard, Swansong};
use cygnet::{Handle, JoinError, Runtime};
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::timeout;

const USAGE: &str =
    "usage: server [SECONDS]    how long requests may take to finish when it ends; 5 if not given";

const REFUSAL: &[u8] = b"refused: the server is shutting down\n";

/// How long the end waits, after the time for requests, for what takes no notice: work that does not look whether it is cancelled, an
/// answer that its client does not read.
const PATIENCE: Duration = Duration::from_secs(1);

/// The work. Deep in here it may wait for anything, as in any task.
fn answer(request: &str) -> Result<String, String> {
    match request.split_whitespace().collect::<Vec<_>>()[..] {
        ["steps", n] => {
            let n: u64 = n.parse().map_err(|_| format!("{n} is no number"))?;
            let next = |n: &u64| match n {
                0 | 1 => None,
                n if n % 2 == 0 => Some(n / 2),
                n => n.checked_mul(3)?.checked_add(1),
            };
            Ok(format!("= {}", std::iter::successors(Some(n), next).count() - 1))
        }
        ["nap", milliseconds] => {
            let time = milliseconds.parse().map_err(|_| format!("{milliseconds} is no number"))?;
            cygnet::sleep(Duration::from_millis(time)).map_err(|cut| cut.to_string())?;
            Ok(String::from("= rested"))
        }
        // One that gets stuck.
        ["hang"] => cygnet::park().map(|()| String::new()).map_err(|cut| cut.to_string()),
        _ => Err(String::from("requests are: steps N, nap MILLISECONDS, hang")),
    }
}

/// One connection: a line is a request, and one its answer. The guard is there until each request has had its answer.
async fn serve(
    stream: TcpStream,
    swansong: Swansong,
    compute: Handle,
    _guard: Guard,
) -> std::io::Result<()> {
    let (from, mut to) = stream.into_split();
    let mut lines = BufReader::new(from).lines();
    while let Some(Ok(Some(request))) = swansong.interrupt(lines.next_line()).await {
        let Ok(task) = compute.spawn_guarded(move || answer(&request)) else {
            to.write_all(REFUSAL).await?;
            break;
        };
        let answer = match task.await {
            Ok(Ok(answer)) => answer,
            Ok(Err(why)) => format!("failed: {why}"),
            Err(JoinError::Panicked(_)) => String::from("failed: a mistake of ours"),
            Err(error) => format!("failed: {error}"),
        };
        to.write_all(format!("{answer}\n").as_bytes()).await?;
    }
    // Either the client has gone, or it is the end. A client may send requests without waiting for the answers: what lies here is
    // looked at, and nothing is waited for.
    while let Ok(Ok(Some(_))) = timeout(Duration::ZERO, lines.next_line()).await {
        to.write_all(REFUSAL).await?;
    }
    Ok(())
}

/// To a terminal, or a log. If nobody reads it the server goes on.
fn say(what: &str) {
    let _ = writeln!(std::io::stdout(), "{what}");
}

/// The first signal is a stop in good order, and the second one ends the process.
async fn end_on(mut interrupt: Signal, mut terminate: Signal, swansong: Swansong) {
    let mut told = async || {
        tokio::select! { _ = interrupt.recv() => {} _ = terminate.recv() => {} }
    };
    told().await;
    swansong.shut_down();
    say(&format!("shutting down; {} guards are held", swansong.guard_count()));
    // Whoever listens for a signal has it for good: without this the next ones would do nothing.
    told().await;
    say(&format!("told again, and ended at once; {} guards were held", swansong.guard_count()));
    std::process::exit(1);
}

async fn run(swansong: Swansong, compute: Handle) -> std::io::Result<()> {
    let (interrupt, terminate) =
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::spawn(end_on(interrupt, terminate, swansong.clone()));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    say(&format!("listening on {}", listener.local_addr()?));
    while let Some(accepted) = swansong.interrupt(listener.accept()).await {
        // One that is gone again is no reason to end.
        let Ok((stream, _)) = accepted else { continue };
        let Some(guard) = swansong.try_guard() else { break };
        tokio::spawn(serve(stream, swansong.child(), compute.clone(), guard));
    }
    Ok(())
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let seconds = match (arguments.next().map(|seconds| seconds.parse()), arguments.next()) {
        (None, _) => 5.0,
        (Some(Ok(seconds)), None) if (0.0..1e9).contains(&seconds) => seconds,
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    let io = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let (io, runtime) = match (io, Runtime::new()) {
        (Ok(io), Ok(runtime)) => (io, runtime),
        (io, runtime) => {
            eprintln!("server: no runtime: {:?} {:?}", io.err(), runtime.err());
            return ExitCode::FAILURE;
        }
    };
    if let Err(error) = io.block_on(run(runtime.swansong(), runtime.handle())) {
        eprintln!("server: {error}");
        return ExitCode::FAILURE;
    }
    // Here, in no task of either runtime: connections are still served by tokio's thread meanwhile.
    let report = runtime.shutdown_at_most(Duration::from_secs_f64(seconds), PATIENCE);
    say(&report.to_string());
    if report.is_in_time() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
