//! A shutdown in phases: first the sources are stopped, then the workers, then the store. Each
//! phase begins when the one before is complete, so nothing that was taken in is lost on the way.
//!
//! ```sh
//! cargo run --release --example phases
//! ```

use cygnet::Runtime;
use cygnet::shutdown::Swansong;
use cygnet::sync::bounded;
use std::time::Duration;

fn main() -> Result<(), cygnet::BuildError> {
    let runtime = Runtime::new()?;
    let all = Swansong::new();
    let [sources, workers, store] = [all.child(), all.child(), all.child()];
    let (to_work, work) = bounded(16);
    let (to_store, results) = bounded(16);
    let (brought, kept) = runtime.block_on(|| {
        cygnet::scope(|s| {
            let bringing: Vec<_> = (0..2)
                .map(|_| {
                    let (to_work, sources) = (to_work.clone(), &sources);
                    s.spawn(move || {
                        let _guard = sources.guard();
                        let mut brought = 0u64;
                        for n in sources.interrupt(1u64..) {
                            // Waits if the channel has no room, which gives the other tasks their
                            // turn.
                            let Ok(()) = to_work.send(n) else { break };
                            brought += n;
                        }
                        brought
                    })
                })
                .collect();
            for _ in 0..2 {
                let (work, to_store, workers) = (work.clone(), to_store.clone(), &workers);
                s.spawn(move || {
                    let _guard = workers.guard();
                    let mut work = workers.interrupt(work);
                    work.iter().for_each(|n| to_store.send(n).unwrap());
                    // Work that is there at the stop has been taken in, and is done.
                    work.try_iter().for_each(|n| to_store.send(n).unwrap());
                });
            }
            let keeping = s.spawn(|| {
                let _guard = store.guard();
                let mut results = store.interrupt(results);
                let kept: u64 = results.iter().sum();
                kept + results.try_iter().sum::<u64>()
            });
            cygnet::sleep(Duration::from_millis(20)).expect("nobody cancels this task");
            for (name, phase) in [("sources", &sources), ("workers", &workers), ("store", &store)] {
                println!("{name}: {}", phase.shut_down_within(Duration::from_secs(5)));
            }
            let brought: u64 = bringing.into_iter().map(|task| task.join().unwrap_or(0)).sum();
            (brought, keeping.join().unwrap_or(0))
        })
    });
    println!("brought {brought}, kept {kept}");
    assert_eq!(brought, kept, "something was lost on its way");
    Ok(())
}
