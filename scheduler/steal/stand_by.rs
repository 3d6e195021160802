//! How a worker waits that may not search, since enough others do.

use crate::scheduler::steal::idle::{Rest, Roused};
use crate::scheduler::steal::search::LINGER;
use crate::scheduler::worker::Worker;
use crate::shim::atomic::Ordering;
use crate::shim::spin_until;
use crate::shim::time::Duration;

/// How long such a worker keeps its processor before it sleeps. A worker that is called meanwhile
/// is up after 0.1 us, and one that sleeps after 8 us.
const STAND_BY: Duration = Duration::from_micros(40);
/// The same for a worker without tasks, where the workers share the processors.
const STAND_BY_SHARING: Duration = Duration::from_micros(5);

/// For a worker that may not search, since enough others do: waits for work that comes by itself. A
/// task that waits for another worker's task is often woken sooner than a thread could be put to
/// sleep. Also waits for a searcher to leave, as one soon does if this worker has just woken its
/// task. Returns whether the worker has entered the searchers.
pub(super) fn linger(worker: &Worker) -> bool {
    let shared = worker.shared();
    let mut let_in = false;
    spin_until(time_awake(worker), || {
        if !worker.has_ready() && !worker.has_fresh() && !shared.is_stopping() {
            let_in = shared.idle.start_searching(shared.workers());
            return let_in;
        }
        true
    });
    let_in
}

/// As [`linger`], for many workers: if all of them polled the count of searchers, they would slow
/// down those that change it. A worker that stands by can be woken as if it slept. A searcher that
/// has found more than it needs wakes it.
pub(super) fn stand_by(worker: &Worker) -> bool {
    let shared = worker.shared();
    let limit = worker.time_to_next().unwrap_or(Duration::MAX);
    let rest = Rest::StandBy(time_awake(worker).min(limit));
    let roused = shared.idle.rest(shared, worker.remote.index, rest, || {
        worker.has_ready()
            || worker.has_fresh()
            || shared.is_stopping()
            || shared.pressure.load(Ordering::Relaxed)
            // A searcher looks for this worker, too, when it stops. Without one, a worker must look
            // itself.
            || !shared.idle.anyone_searching()
    });
    roused == Roused::ToSearch
        || !worker.has_ready()
            && !worker.has_fresh()
            && shared.idle.start_searching(shared.workers())
}

/// How long a worker that may not search keeps its processor before it sleeps.
fn time_awake(worker: &Worker) -> Duration {
    match (worker.shared().has_processors, worker.live()) {
        (true, _) => STAND_BY,
        (false, 0) => STAND_BY_SHARING,
        (false, _) => LINGER,
    }
}
