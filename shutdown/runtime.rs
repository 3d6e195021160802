//! The shutdown of a runtime.

use super::{Shutdown, ShutdownReport, Swansong, of_runtime};
use crate::runtime::{Handle, Runtime};
use crate::shim::time::{Duration, now};
use crate::sync::oneshot;
use std::panic::Location;

impl Handle {
    /// Returns the runtime's [`Swansong`], the root of the `Swansong`s of its scopes. See
    /// [`Runtime::swansong`].
    pub fn swansong(&self) -> Swansong {
        of_runtime(self.shared())
    }
}

impl Runtime {
    /// Returns the runtime's [`Swansong`], which is stopped by [`shutdown`](Runtime::shutdown) and
    /// when the runtime is dropped. The `Swansong`s of [scopes](crate::Scope::swansong) are below
    /// it.
    ///
    /// Does not suspend. The first use costs some allocations.
    pub fn swansong(&self) -> Swansong {
        of_runtime(self.shared())
    }

    /// Ends the runtime gracefully, and reports which guards were late.
    ///
    /// Stops the runtime's [`swansong`](Runtime::swansong) and waits for its guards, for `grace` at
    /// most. Then ends the runtime like a drop, which cancels all remaining tasks and waits for
    /// their end without limit. If guards were late, it waits for these too, even if they are held
    /// outside the runtime.
    ///
    /// Tasks without a guard are not work that must be finished: they are cancelled when the last
    /// guard is gone or the time is over. The call blocks the calling thread. A task of another
    /// runtime parks while it waits for guards, and blocks its thread while the runtime ends. In a
    /// destructor that runs because the task panics, it blocks its thread all the time.
    ///
    /// # Cancellation
    /// If the calling task is cancelled, the time is over at once: the remaining work is cancelled,
    /// and this waits for it.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    /// let swansong = rt.swansong();
    /// let request = cygnet::task().guard(&swansong).spawn_in(&rt, || 6 * 7);
    /// rt.spawn(move || cygnet::wait(swansong.shutting_down())).detach(); // ends at the stop
    /// let report = rt.shutdown(Duration::from_secs(5));
    /// assert!(report.is_in_time());
    /// assert_eq!(request.join().unwrap(), 42);
    /// ```
    ///
    /// # Panics
    /// If called by one of the runtime's own tasks, or inside [`no_suspend`](crate::no_suspend). In
    /// a destructor of such a task while it unwinds, the call returns at once, with a report that
    /// [says so](ShutdownReport::is_given_up): the runtime goes on and is leaked.
    #[track_caller]
    pub fn shutdown(self, grace: Duration) -> ShutdownReport {
        self.shut_down_and_end(grace, None, Location::caller())
    }

    /// Shuts the runtime down like [`shutdown`](Runtime::shutdown), but gives up when `patience`
    /// has passed since the cancel. Tasks and guards share this one `patience`. Tasks that remain
    /// then go on, and the runtime's threads and stacks are leaked. [`ShutdownReport::is_given_up`]
    /// tells.
    ///
    /// # Panics
    /// As [`shutdown`](Runtime::shutdown) does.
    #[track_caller]
    pub fn shutdown_at_most(self, grace: Duration, patience: Duration) -> ShutdownReport {
        self.shut_down_and_end(grace, Some(patience), Location::caller())
    }

    /// Shuts the runtime down like [`shutdown`](Runtime::shutdown), and returns a future of the
    /// report, for any executor. The shutdown has begun when this returns, on a thread of its own,
    /// and goes on if the future is dropped.
    ///
    /// One of the runtime's own tasks may call this, too. It is cancelled like the others, and its
    /// wait for the future is cut short.
    ///
    /// Does not suspend. Costs a thread. If the system refuses it, the call itself waits.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// # let tokio = tokio::runtime::Builder::new_current_thread().build().unwrap();
    /// # tokio.block_on(async {
    /// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    /// let request = cygnet::task().guard(&rt.swansong()).spawn_in(&rt, || 6 * 7);
    /// let report = rt.shutdown_async(Duration::from_secs(5)).await;
    /// assert!(report.is_in_time());
    /// assert_eq!(request.await.unwrap(), 42);
    /// # });
    /// ```
    ///
    /// # Panics
    /// As [`shutdown`](Runtime::shutdown) does, if one of the runtime's own tasks calls this and the
    /// system refuses the thread.
    #[track_caller]
    pub fn shutdown_async(
        self,
        grace: Duration,
    ) -> impl Future<Output = ShutdownReport> + Send + use<> {
        let place = Location::caller();
        let (tell, mut told) = oneshot();
        drop(self.swansong().shut_down());
        self.elsewhere(move |runtime| {
            // An error: the future was dropped.
            let _ = tell.send(runtime.shut_down_and_end(grace, None, place));
        });
        async move { told.recv_async().await.expect("the thread sends a report") }
    }

    #[track_caller]
    fn shut_down_and_end(
        mut self,
        grace: Duration,
        patience: Option<Duration>,
        place: &'static Location<'static>,
    ) -> ShutdownReport {
        // Panics if called by one of the runtime's own tasks, unless that unwinds.
        if !self.may_end() {
            return ShutdownReport::refused(&self.swansong());
        }
        let shutdown = Shutdown::begin(self.swansong(), grace, place);
        let cancelled_at = now();
        let ended = self.end(patience);
        // Both waits share one patience: the guards get what the end of the runtime has left of it.
        let rest = patience.map(|patience| patience.saturating_sub(now() - cancelled_at));
        let complete = shutdown.wait(rest);
        shutdown.report(!ended || !complete)
    }
}
