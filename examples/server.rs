//! A server that ends gracefully, on Ctrl-C or on SIGTERM, which service managers send.
//!
//! ```sh
//! cargo run --release --example server             # prints its address; then, elsewhere:
//! printf 'steps 97\n' | nc -q 1 127.0.0.1 PORT     # = 118
//! ```
//!
//! Connections belong to tokio, which waits for sockets; the computing is done by cygnet. When the
//! server is told to end
//!
//! * no connection is accepted any more, and an idle one ends at once: both wait in an `interrupt`;
//! * requests that have begun are finished, and their answers written;
//! * requests that have come and have not begun are refused, each with a line: a connection holds a
//!   guard until that is done;
//! * a request that is not finished in time is cancelled, and named in the report with the place
//!   where it was spawned.
//!
//! A second Ctrl-C or SIGTERM cancels requests that are not finished, a third one kills the server.

use cygnet::shutdown::{Guard, Swansong, on_signals};
use cygnet::{Handle, JoinError, Runtime};
use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

const USAGE: &str =
    "usage: server [SECONDS]    time for requests to finish when the server ends; 5 by default";

const REFUSAL: &[u8] = b"refused: the server is shutting down\n";

/// How long the end waits, after the time for requests, for work that ignores the cancellation: a
/// computation that does not check for it, an answer that its client does not read.
const PATIENCE: Duration = Duration::from_secs(1);

/// Computes the answer to a request. At any depth of calls it may wait, as in any task.
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
        // A request that gets stuck.
        ["hang"] => cygnet::park().map(|()| String::new()).map_err(|cut| cut.to_string()),
        _ => Err(String::from("requests are: steps N, nap MILLISECONDS, hang")),
    }
}

/// Serves one connection: each line is a request, and gets one line as its answer. The guard is
/// held until each request has had its answer.
async fn serve(
    stream: TcpStream,
    swansong: Swansong,
    compute: Handle,
    _guard: Guard,
) -> std::io::Result<()> {
    let (from, mut to) = stream.into_split();
    let mut lines = BufReader::new(from).lines();
    while let Some(Ok(Some(request))) = swansong.interrupt(lines.next_line()).await {
        let Ok(task) =
            cygnet::task().guard(&compute.swansong()).spawn_in(&compute, move || answer(&request))
        else {
            to.write_all(REFUSAL).await?;
            break;
        };
        let answer = match task.await {
            Ok(Ok(answer)) => answer,
            Ok(Err(why)) => format!("failed: {why}"),
            Err(JoinError::Panicked(_)) => String::from("failed: internal error"),
            Err(error) => format!("failed: {error}"),
        };
        to.write_all(format!("{answer}\n").as_bytes()).await?;
    }
    // Either the client has gone, or the server ends. A client may send requests without waiting
    // for the answers: requests that have arrived are refused here, without waiting for more.
    while let Ok(Ok(Some(_))) = timeout(Duration::ZERO, lines.next_line()).await {
        to.write_all(REFUSAL).await?;
    }
    Ok(())
}

/// Prints to a terminal or a log. If it is closed, the server goes on.
fn say(what: &str) {
    let _ = writeln!(std::io::stdout(), "{what}");
}

async fn run(swansong: Swansong, compute: Handle) -> std::io::Result<()> {
    // How much time requests have is said at the end of `main`.
    on_signals(&swansong, Duration::MAX)?;
    let stopped = swansong.clone();
    tokio::spawn(async move {
        stopped.shutting_down().await;
        say(&format!("shutting down; {} guards are held", stopped.guard_count()));
    });
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    say(&format!("listening on {}", listener.local_addr()?));
    while let Some(accepted) = swansong.interrupt(listener.accept()).await {
        // A connection that has already gone is no reason to end.
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
    // Called outside any task of either runtime: tokio's thread still serves connections meanwhile.
    let report = runtime.shutdown_at_most(Duration::from_secs_f64(seconds), PATIENCE);
    say(&report.to_string());
    if report.is_in_time() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
