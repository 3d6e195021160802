//! The shutdown of a runtime.

use super::joined::GuardedWork;
use super::{Shutdown, ShutdownReport, Swansong, of_runtime};
use crate::runtime::Handle;
use crate::runtime::Runtime;
use crate::runtime::SpawnError;
use crate::runtime::Task;
use crate::shim::time::{Duration, now};
use std::panic::Location;

impl Handle {
    /// Returns the runtime's [`Swansong`], the root of the `Swansong`s of its scopes. See
    /// [`Runtime::swansong`].
    pub fn swansong(&self) -> Swansong {
        of_runtime(self.shared())
    }

    /// Spawns a task like [`spawn`](Handle::spawn), with a guard of the runtime's
    /// [`swansong`](Handle::swansong). See [`Swansong::spawn_guarded`].
    ///
    /// # Errors
    /// [`SpawnError`] with `f` and its guard, if the runtime has ended or is ending.
    #[track_caller]
    pub fn spawn_guarded<F, T>(
        &self,
        f: F,
    ) -> Result<Task<T>, SpawnError<impl FnOnce() -> T + Send + 'static + use<F, T>>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let work = GuardedWork::new(&self.swansong());
        let guarded = work.guarded(f);
        let task = self.spawn(move || guarded.call())?;
        work.belongs_to(task.id(), task.cancel_handle());
        Ok(task)
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

    /// Spawns a task like [`spawn`](Runtime::spawn), with a guard of the runtime's
    /// [`swansong`](Runtime::swansong). See [`Swansong::spawn_guarded`].
    ///
    /// # Panics
    /// Never.
    #[track_caller]
    pub fn spawn_guarded<F, T>(&self, f: F) -> Task<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        match self.handle().spawn_guarded(f) {
            Ok(task) => task,
            Err(_) => unreachable!("a runtime ends when it is dropped"),
        }
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
    /// runtime parks while it waits for guards, and blocks its thread while the runtime ends.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    /// let swansong = rt.swansong();
    /// let request = rt.spawn_guarded(|| 6 * 7);
    /// rt.spawn(move || cygnet::wait(swansong.shutting_down())).detach(); // ends at the stop
    /// let report = rt.shutdown(Duration::from_secs(5));
    /// assert!(report.is_in_time());
    /// assert_eq!(request.join().unwrap(), 42);
    /// ```
    ///
    /// # Panics
    /// If called by one of the runtime's own tasks, or inside [`no_suspend`](crate::no_suspend).
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
    /// If called by one of the runtime's own tasks, or inside [`no_suspend`](crate::no_suspend).
    #[track_caller]
    pub fn shutdown_at_most(self, grace: Duration, patience: Duration) -> ShutdownReport {
        self.shut_down_and_end(grace, Some(patience), Location::caller())
    }

    #[track_caller]
    fn shut_down_and_end(
        mut self,
        grace: Duration,
        patience: Option<Duration>,
        place: &'static Location<'static>,
    ) -> ShutdownReport {
        // Panics if called by one of the runtime's own tasks.
        self.may_end();
        let mut shutdown = Shutdown::begin(self.swansong(), grace);
        shutdown.cancel(place);
        let cancelled_at = now();
        let ended = self.end(patience);
        // Both waits share one patience: the guards get what the end of the runtime has left of it.
        let rest = patience.map(|patience| patience.saturating_sub(now() - cancelled_at));
        let complete = shutdown.wait(rest);
        shutdown.report(!ended || !complete)
    }
}
