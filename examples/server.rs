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
//! * requests that have begun are finished, and their answers written: each holds a guard until then;
//! * a request that comes on an open connection is refused: `try_guard` gives nothing any more;
//! * one that is not finished in time is cancelled, and named in the report, with the place where it was spawned.

use cygnet::shutdown::Swansong;
use cygnet::{Handle, JoinError, Runtime};
use std::process::ExitCode;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::signal::unix::{SignalKind, signal};

const USAGE: &str =
    "usage: server [SECONDS]    how long requests may take to finish when it ends; 5 if not given";

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

/// One connection: a line is a request, and one its answer.
async fn serve(stream: TcpStream, swansong: Swansong, compute: Handle) -> std::io::Result<()> {
    let (from, mut to) = stream.into_split();
    let mut lines = BufReader::new(from).lines();
    while let Some(Ok(Some(request))) = swansong.interrupt(lines.next_line()).await {
        // Until the answer is written.
        let Some(_guard) = swansong.try_guard() else {
            return to.write_all(b"refused: the server is shutting down\n").await;
        };
        let Ok(task) = compute.spawn_guarded(move || answer(&request)) else { return Ok(()) };
        let answer = match task.await {
            Ok(Ok(answer)) => answer,
            Ok(Err(why)) => format!("failed: {why}"),
            Err(JoinError::Panicked(_)) => String::from("failed: a mistake of ours"),
            Err(error) => format!("failed: {error}"),
        };
        to.write_all(format!("{answer}\n").as_bytes()).await?;
    }
    Ok(())
}

async fn run(swansong: Swansong, compute: Handle) -> std::io::Result<()> {
    let (mut interrupt, mut terminate) =
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    tokio::spawn({
        let swansong = swansong.clone();
        async move {
            tokio::select! { _ = interrupt.recv() => {} _ = terminate.recv() => {} }
            println!("shutting down; {} guards are held", swansong.guard_count());
            swansong.shut_down();
        }
    });
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on {}", listener.local_addr()?);
    while let Some(accepted) = swansong.interrupt(listener.accept()).await {
        // One that is gone again is no reason to end.
        let Ok((stream, _)) = accepted else { continue };
        tokio::spawn(serve(stream, swansong.child(), compute.clone()));
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
    let report = runtime.shutdown(Duration::from_secs_f64(seconds));
    println!("{report}");
    if report.is_in_time() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
