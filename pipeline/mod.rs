//! Pipelines: items pass through stages, with a bound on the number of items in flight.
//!
//! [`run`] has the protocol, [`board`] the word that records where there is work, [`stages`] the
//! stages.

mod board;
mod run;
mod stages;

use crate::runtime::{Cancelled, JoinError, TaskError};
use stages::{Arrivals, End, InTurn, Parallel, Single, Source};
use std::convert::Infallible;
use std::marker::PhantomData;

pub use stages::Stages;

/// Makes a pipeline: the items of a source pass through stages, which are added by calls on the
/// returned [`Pipeline`].
///
/// A stage is one of three kinds.
///
/// | stage | how many items at once | in which order | its closure |
/// | --- | --- | --- | --- |
/// | [`parallel`](Pipeline::parallel) | any number | any | `Fn + Sync` |
/// | [`serial`](Pipeline::serial) | one | in which they reach the stage | `FnMut + Send` |
/// | [`ordered`](Pipeline::ordered) | one | of the source | `FnMut + Send` |
///
/// The last stage returns `()`. Nothing happens before [`run`](Pipeline::run) or
/// [`try_run`](Pipeline::try_run), which return after the last step has ended. So the source and
/// the closures may borrow from the caller.
///
/// A task carries an item through as many stages as possible. If the item has to wait for a stage,
/// because the stage is busy or it is another item's turn, the task leaves the item there and looks
/// for other work in the pipeline. Tasks come and go with the work, and none belongs to a stage. So
/// all workers help wherever there is something to do, whatever each stage costs. (A design with
/// one task for each stage and [channels](crate::sync::bounded) between them balances worse: a task
/// stays on the worker where it has started.)
///
/// ```
/// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
/// let lines = ["3 4", "10 2", "1 1"];
/// let mut products: Vec<u32> = Vec::new();
/// rt.block_on(|| {
///     cygnet::pipeline(lines)
///         .parallel(|line| line.split(' ').map(|n| n.parse::<u32>().unwrap()).product())
///         .ordered(|product| products.push(product))
///         .run()
/// })?;
/// assert_eq!(products, [12, 20, 1]);
/// # Ok::<(), cygnet::Cancelled>(())
/// ```
///
/// # Ending early
///
/// A step is a call of a stage's closure or of the source.
///
/// **Errors.** The first error of a stage with `try_` stops the pipeline. No step begins after
/// that, and the steps in progress are cancelled: their next wait, or
/// [`checkpoint`](crate::checkpoint), returns an error. All items that have not reached the end are
/// dropped, each once. [`try_run`](Pipeline::try_run) returns the error when all steps have ended.
///
/// **Panics.** A panic in a stage, in the source, or in the destructor of an item stops the
/// pipeline in the same way, and `run` resumes it. Later errors and panics are dropped.
///
/// **Cancellation.** If the calling task is cancelled, or its runtime ends, no further step begins,
/// and the next wait of each step in progress returns the cancellation. The items are dropped, and
/// the pipeline returns [`Cancelled`]. A pipeline that has already processed all items returns
/// `Ok`. A pipeline that is begun in a cancelled task takes no item from its source.
///
/// In all cases the pipeline waits for the steps in progress. A stage with a long computation
/// should therefore call [`checkpoint`](crate::checkpoint), and return its error (from a stage with
/// `try_`) or [unwind](Cancelled::unwind).
///
/// Items that were not taken from the source are not lost: an iterator that is passed
/// [`by_ref`](Iterator::by_ref) can be continued behind the last item taken.
///
/// # What it costs
///
/// An allocation for the source and two for each stage that is not parallel, but none for an item.
/// Some 50 ns for each item, and some 50 ns more for each stage that is not parallel (the case
/// `steps-500` of `cygnet compare` with one worker). A task is spawned only if another worker can
/// be brought in, not for each item.
pub fn pipeline<I, E>(source: I) -> Pipeline<impl Stages<E, Item = I::Item>, E>
where
    I: IntoIterator<IntoIter: Send, Item: Send>,
    E: Send,
{
    Pipeline { stages: Source(source.into_iter()), in_flight: None, error: PhantomData }
}

/// A source and stages for its items, made by [`pipeline()`].
///
/// `E` is the error type of its stages. If no stage can fail, call [`run`](Pipeline::run);
/// otherwise [`try_run`](Pipeline::try_run).
#[must_use = "a pipeline does nothing before run or try_run is called"]
pub struct Pipeline<S, E> {
    stages: S,
    in_flight: Option<usize>,
    error: PhantomData<E>,
}

impl<S, E> Pipeline<S, E> {
    /// Limits the number of items between the source and the end. The pipeline takes an item from
    /// the source only if there are fewer.
    ///
    /// The default is 4 for each worker, and 16 at least. A stage in which items wait for each
    /// other, or for something outside, may want more; big items may want fewer. With 1 the
    /// pipeline is serial. The queues of the stages grow with the waiting items, so a huge number
    /// costs nothing by itself.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    ///
    /// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    /// let (open, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    /// let files = (0..100).inspect(|_| {
    ///     most.fetch_max(open.fetch_add(1, Relaxed) + 1, Relaxed);
    /// });
    /// rt.block_on(|| {
    ///     cygnet::pipeline(files)
    ///         .in_flight(3)
    ///         .parallel(|file| file * 2)
    ///         .serial(|_| {
    ///             open.fetch_sub(1, Relaxed);
    ///         })
    ///         .run()
    /// })?;
    /// assert!(most.into_inner() <= 3);
    /// # Ok::<(), cygnet::Cancelled>(())
    /// ```
    ///
    /// # Panics
    /// If `items` is 0.
    #[track_caller]
    pub fn in_flight(self, items: usize) -> Pipeline<S, E> {
        assert!(
            items > 0,
            "cygnet: a pipeline with in_flight(0) would never take an item; allow at least 1"
        );
        Pipeline { in_flight: Some(items), ..self }
    }
}

impl<S: Stages<E>, E: Send> Pipeline<S, E> {
    fn with<T>(self, stage: impl FnOnce(S) -> T) -> Pipeline<T, E> {
        Pipeline { stages: stage(self.stages), in_flight: self.in_flight, error: PhantomData }
    }

    /// Adds a stage that takes any number of items at once, in any order.
    ///
    /// The closure may wait. Costs nothing besides the call. See [`pipeline()`] for an example.
    pub fn parallel<U, F>(self, f: F) -> Pipeline<impl Stages<E, Item = U>, E>
    where
        F: Fn(S::Item) -> U + Sync,
        U: Send,
    {
        self.try_parallel(infallible(f))
    }

    /// Adds a stage that takes one item at a time, in the order in which the items reach the stage.
    ///
    /// The closure may wait. Other items then wait for the stage, but no worker does. Costs two
    /// short lock acquisitions for each item.
    ///
    /// ```
    /// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    /// let mut longest = String::new();
    /// rt.block_on(|| {
    ///     cygnet::pipeline(["a", "abc", "ab"])
    ///         .parallel(str::to_uppercase)
    ///         .serial(|word| {
    ///             if word.len() > longest.len() {
    ///                 longest = word;
    ///             }
    ///         })
    ///         .run()
    /// })?;
    /// assert_eq!(longest, "ABC");
    /// # Ok::<(), cygnet::Cancelled>(())
    /// ```
    pub fn serial<U, F>(self, f: F) -> Pipeline<impl Stages<E, Item = U>, E>
    where
        F: FnMut(S::Item) -> U + Send,
        U: Send,
    {
        self.try_serial(infallible_mut(f))
    }

    /// Adds a stage that takes one item at a time, in the order of the source.
    ///
    /// The closure may wait. An item that comes before its turn waits in the stage, which holds at
    /// most as many items as are [in flight](Pipeline::in_flight). Costs as much as
    /// [`serial`](Pipeline::serial).
    ///
    /// ```
    /// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    /// let mut text = String::new();
    /// rt.block_on(|| {
    ///     cygnet::pipeline('a'..='e')
    ///         .parallel(|c| c.to_ascii_uppercase())
    ///         .ordered(|c| text.push(c))
    ///         .run()
    /// })?;
    /// assert_eq!(text, "ABCDE");
    /// # Ok::<(), cygnet::Cancelled>(())
    /// ```
    pub fn ordered<U, F>(self, f: F) -> Pipeline<impl Stages<E, Item = U>, E>
    where
        F: FnMut(S::Item) -> U + Send,
        U: Send,
    {
        self.try_ordered(infallible_mut(f))
    }

    /// Adds a [`parallel`](Pipeline::parallel) stage. Its first error stops the pipeline.
    ///
    /// ```
    /// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    /// let mut sum = 0;
    /// let error = rt.block_on(|| {
    ///     cygnet::pipeline(["1", "2", "three"])
    ///         .try_parallel(|text| text.parse::<u32>())
    ///         .ordered(|n| sum += n)
    ///         .try_run()
    ///         .unwrap_err()
    /// });
    /// assert_eq!(error.to_string(), "invalid digit found in string");
    /// ```
    pub fn try_parallel<U, F>(self, f: F) -> Pipeline<impl Stages<E, Item = U>, E>
    where
        F: Fn(S::Item) -> Result<U, E> + Sync,
        U: Send,
    {
        self.with(|before| Parallel { before, f })
    }

    /// Adds a [`serial`](Pipeline::serial) stage. Its first error stops the pipeline.
    ///
    /// ```
    /// use cygnet::TaskError;
    ///
    /// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    /// let mut room = 3;
    /// let result = rt.block_on(|| {
    ///     cygnet::pipeline(0..)
    ///         .try_serial(|_| {
    ///             room -= 1;
    ///             if room == 0 { Err("it is full") } else { Ok(()) }
    ///         })
    ///         .try_run()
    /// });
    /// assert!(matches!(result, Err(TaskError::Failed("it is full"))));
    /// ```
    pub fn try_serial<U, F>(self, f: F) -> Pipeline<impl Stages<E, Item = U>, E>
    where
        F: FnMut(S::Item) -> Result<U, E> + Send,
        U: Send,
    {
        self.with(|before| Single::<_, _, Arrivals<S::Item>>::new(before, f))
    }

    /// Adds an [`ordered`](Pipeline::ordered) stage. Its first error stops the pipeline.
    ///
    /// ```
    /// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    /// let mut written = Vec::new();
    /// let result = rt.block_on(|| {
    ///     cygnet::pipeline(0..100)
    ///         .parallel(|n| n * n)
    ///         .try_ordered(|n| if n < 50 { Ok(written.push(n)) } else { Err(n) })
    ///         .try_run()
    /// });
    /// assert_eq!(result.unwrap_err().into_failed().unwrap(), 64);
    /// assert_eq!(written, [0, 1, 4, 9, 16, 25, 36, 49]);
    /// ```
    pub fn try_ordered<U, F>(self, f: F) -> Pipeline<impl Stages<E, Item = U>, E>
    where
        F: FnMut(S::Item) -> Result<U, E> + Send,
        U: Send,
    {
        self.with(|before| Single::<_, _, InTurn<S::Item>>::new(before, f))
    }

    /// Runs a pipeline with stages that can fail: passes all items of the source through all
    /// stages.
    ///
    /// Suspends until the last step has ended; the wait is structured. See [`pipeline()`] for
    /// errors, panics and cancellation, and for the cost.
    ///
    /// ```
    /// use cygnet::{Cancelled, TaskError};
    ///
    /// let rt = cygnet::Runtime::builder().workers(2).build().unwrap();
    /// let sum = rt.block_on(|| -> Result<u64, TaskError<Cancelled>> {
    ///     let mut sum = 0;
    ///     cygnet::pipeline(1..=4_u64)
    ///         .try_parallel(|n| {
    ///             let mut factorial = 1;
    ///             for i in 1..=n {
    ///                 cygnet::checkpoint()?; // if it took long
    ///                 factorial *= i;
    ///             }
    ///             Ok(factorial)
    ///         })
    ///         .serial(|factorial| sum += factorial)
    ///         .try_run()?;
    ///     Ok(sum)
    /// });
    /// assert_eq!(sum.unwrap(), 33);
    /// ```
    ///
    /// # Errors
    /// [`TaskError::Failed`] with the first error of a stage. [`TaskError::Join`] with
    /// [`JoinError::Cancelled`] if the calling task is cancelled before the last item has reached
    /// the end, even if a stage fails after that.
    ///
    /// # Panics
    /// If the source, a stage or the destructor of an item panics and no error came before: the
    /// first such panic is resumed. If there was no stack for a step, with the text of
    /// [`NoStack`](crate::NoStack). If called outside a task.
    #[track_caller]
    pub fn try_run(self) -> Result<(), TaskError<E>>
    where
        S: Stages<E, Item = ()>,
    {
        let mut start = run::Start::here("Pipeline::try_run", self.in_flight);
        self.stages.run(End, &mut start)
    }
}

impl<S: Stages<Infallible, Item = ()>> Pipeline<S, Infallible> {
    /// Runs a pipeline whose stages cannot fail: passes all items of the source through all stages.
    ///
    /// Suspends until the last step has ended; the wait is structured. See [`pipeline()`] for an
    /// example, for panics and cancellation, and for the cost.
    ///
    /// # Errors
    /// [`Cancelled`] if the calling task is cancelled, or its runtime ends, before the last item
    /// has reached the end.
    ///
    /// # Panics
    /// If the source, a stage or the destructor of an item panics: the first such panic is resumed.
    /// If there was no stack for a step, with the text of [`NoStack`](crate::NoStack). If called
    /// outside a task.
    #[track_caller]
    pub fn run(self) -> Result<(), Cancelled> {
        let mut start = run::Start::here("Pipeline::run", self.in_flight);
        match self.stages.run(End, &mut start) {
            Err(TaskError::Join(JoinError::Cancelled(cancelled))) => Err(cancelled),
            result => {
                debug_assert!(result.is_ok(), "a pipeline throws panics on");
                Ok(())
            }
        }
    }
}

// Separate functions, because the type of a closure contains all type parameters of the surrounding
// function. In a method of a pipeline these include the types of all earlier stages, so the type of
// a pipeline, and the time to compile it, would double with each stage.

fn infallible<T, U, E>(f: impl Fn(T) -> U + Sync) -> impl Fn(T) -> Result<U, E> + Sync {
    move |item| Ok(f(item))
}

fn infallible_mut<T, U, E>(
    mut f: impl FnMut(T) -> U + Send,
) -> impl FnMut(T) -> Result<U, E> + Send {
    move |item| Ok(f(item))
}

debug! { impl<S, E> Pipeline<S, E> as this { in_flight: this.in_flight, .. } }
