//! How a worker runs tasks: the loop, and the switches between coroutines.
//!
//! The loop runs on coroutine stacks. It takes a fresh task and calls it; a task that never waits
//! costs neither a switch nor a stack. When a task waits, its coroutine, with the loop frame at the
//! bottom, is set aside, and the worker goes on with a ready coroutine or with a new loop on another
//! stack. A loop that finds a ready coroutine gives up its own stack and leaves for it. The main
//! coroutine (the thread's own stack) is where a worker goes when it has nothing else.
//!
//! Order of service: ready coroutines, the front and the deque (last in first out), local tasks, the
//! injector; each 61st decision turns the order round, so that nothing waits for ever behind endless
//! local spawns or endless yields.

use crate::retire::chain::{restore_chain, suspend_chain};
use crate::retire::coroutine::Coroutine;
use crate::retire::record::{Extras, Failure, JoinedAtHome, Phase, Record, drop_payload, quietly};
use crate::retire::stack::StackClass;
use crate::retire::tree::{NOBODY, Node, WorkerNumber};
use crate::scheduler::complete::{complete, dispose, release};
use crate::scheduler::item::{Item, Runnable};
use crate::scheduler::shortage;
use crate::scheduler::worker::{Strand, Turn, Worker};
use crate::shim::atomic::Ordering;
use crate::shim::point;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{self, NonNull};

/// Items that an owner hands over at once, and a thief takes at once.
pub(crate) const BATCH: usize = 64;

/// How a coroutine comes out of standing by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum StoodBy {
    /// There is a task for it, or for its loop.
    Needed,
    /// Another one stands by, or somebody may need its stack.
    Superfluous,
    /// Its time is over: it was asked to end by the main coroutine.
    Dismissed,
}

impl Worker {
    /// What goes on when `task`, which runs here, is set aside until somebody makes it ready again; may be
    /// the running coroutine itself. The caller has seen to that, and has stored the coroutine in the
    /// task's `place`.
    #[inline]
    pub(crate) fn next_after(&self, task: NonNull<Record>) -> *const Strand {
        point();
        self.strand().task.set(task.as_ptr());
        self.pick()
    }

    /// Goes on with `next`, and comes back when somebody continues the running coroutine, whose task is
    /// noted in it. Returns the worker that the task then runs on (another one only if it may migrate).
    ///
    /// Inlined, with nothing but the switch and what belongs to it: each return from a function that
    /// another coroutine has called is one that the processor predicts wrong.
    #[inline(always)]
    pub(crate) fn leave_for<'a>(&self, next: *const Strand) -> &'a Worker {
        let me = self.strand();
        let node = self.node.get();
        if !ptr::eq(next, me) {
            self.counters().switches.add(1);
            self.current.set(next);
            let chain = suspend_chain();
            // SAFETY: `me` runs; `next` is suspended, new, or the main coroutine, in this worker's
            // hand alone, and lives until it has run to its end.
            unsafe { me.context.switch(&(*next).context) };
            restore_chain(chain);
        }
        let worker = Worker::current().expect("a task runs on a worker");
        worker.bury();
        worker.node.set(node);
        worker
    }

    /// The coroutine to run next. May be the one that is being suspended.
    pub(crate) fn pick(&self) -> *const Strand {
        self.collect();
        if self.next_turn.get() == Turn::Neglected {
            self.next_turn.set(Turn::ReadyAgain);
            if let Some(strand) = self.next_neglected().and_then(|record| self.begin(record)) {
                return strand;
            }
        }
        if self.tick() {
            // The turn of fresh tasks, before those that yield all the time.
            // Not left to the tick in `next_fresh`, which always comes right after this one.
            self.serve_owed();
            self.offers.set(self.offers.get().wrapping_add(1));
            if self.has_neglected()
                && let Some(strand) = self.next_neglected().and_then(|record| self.begin(record))
            {
                return strand;
            }
            if let Some(strand) = self.begin_fresh() {
                return strand;
            }
            if self.exhausted.get() && !ptr::eq(self.current.get(), self.main.get()) {
                // There a fresh task may be run on the stack of one that waits for it.
                return self.main.get();
            }
        }
        self.next_ready().or_else(|| self.begin_fresh()).unwrap_or(self.main.get())
    }

    /// A new coroutine for a fresh task; none if there is no task, or no stack for it.
    fn begin_fresh(&self) -> Option<*const Strand> {
        if !self.has_fresh() || !self.may_start() {
            return None;
        }
        if self.remote.front.wants_attention() {
            self.attend();
        }
        self.next_fresh().and_then(|record| self.begin(record))
    }

    /// A new coroutine for a claimed task; if there is no stack the task is kept for later.
    pub(crate) fn begin(&self, record: NonNull<Record>) -> Option<*const Strand> {
        // SAFETY: we hold the run reference.
        let class = self.class_for(unsafe { record.as_ref() });
        let strand = self.new_strand(class, record.as_ptr());
        if strand.is_none() {
            self.dedicated.set(record.as_ptr());
        }
        strand
    }

    fn class_for(&self, task: &Record) -> StackClass {
        match task.traits.stack_class {
            0 => self.class,
            class => StackClass::from_byte(class),
        }
    }

    /// The coroutine of the next ready task.
    #[inline]
    fn next_ready(&self) -> Option<*const Strand> {
        let record = self.ready.pop()?;
        // SAFETY: a ready task has not ended.
        let record = unsafe { record.as_ref() };
        record.set_phase(Phase::Running);
        Some(ptr::with_exposed_provenance(record.place.load(Ordering::Relaxed)))
    }

    /// Whether a fresh task is at hand, without looking at other workers.
    pub(crate) fn has_fresh(&self) -> bool {
        !self.remote.front.is_empty()
            || !self.deque.is_empty()
            || !self.local.borrow().is_empty()
            || !self.shared().injector.is_empty()
            || !self.dedicated.get().is_null()
    }

    /// Whether there are fresh tasks that come last.
    pub(crate) fn has_neglected(&self) -> bool {
        // Newest first is the right order, but there are tasks that it would never come to.
        let rarely = self.offers.get().is_multiple_of(16);
        !self.local.borrow().is_empty()
            || !self.shared().injector.is_empty()
            || rarely && (!self.deque.is_empty() || self.remote.front.len() > 1)
    }

    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty() || !self.remote.inbox.is_empty()
    }

    /// Whether others have sent something that has not been taken in.
    pub(crate) fn has_ready_besides_queue(&self) -> bool {
        !self.remote.inbox.is_empty() || self.remote.cut.load(Ordering::Relaxed)
    }

    /// Takes in what others have sent: woken tasks, and the order to cut waits short.
    #[inline]
    pub(crate) fn collect(&self) {
        if !self.remote.inbox.is_empty() {
            self.remote.inbox.take_all(|record| self.make_ready(record));
        }
        if self.remote.cut.load(Ordering::Relaxed) {
            self.cut_waits();
        }
    }

    /// Queues a task of this worker whose PARKED bit has been cleared. On its thread.
    pub(crate) fn make_ready(&self, record: NonNull<Record>) {
        // SAFETY: a task that waited has not ended.
        let task = unsafe { record.as_ref() };
        let place = ptr::with_exposed_provenance::<Strand>(task.place.load(Ordering::Relaxed));
        if task.traits.migratable && !ptr::eq(place, self.current.get()) {
            // Its context is saved: only the running coroutine's is not.
            // SAFETY: the coroutine of a suspended task is alive.
            self.disown(unsafe { &*place });
            let shared = self.shared();
            if self.deque.len() < BATCH {
                self.deque.push(Item::started(record));
            } else {
                shared.injector.push(Item::started(record));
            }
            shared.idle.notify(shared, false);
        } else {
            self.ready.push(record);
        }
    }

    #[cold]
    fn cut_waits(&self) {
        if !self.remote.cut.swap(false, Ordering::AcqRel) {
            return;
        }
        let mut woken = Vec::new();
        let mut cut = |task: &Record| {
            if task.phase() == Phase::Parked && task.wait.cut() {
                woken.push(NonNull::from(task));
            }
        };
        self.for_each_strand(|strand| {
            if ptr::eq(strand, self.current.get()) {
                return;
            }
            // SAFETY: the task of a suspended coroutine has not ended.
            if let Some(task) = unsafe { strand.task.get().as_ref() } {
                cut(task);
            }
        });
        // The running one may be on its way out: its wait is published, its context not yet saved.
        if let Some(task) = self.task() {
            // SAFETY: the running task.
            cut(unsafe { task.as_ref() });
        }
        for record in woken {
            self.make_ready(record);
        }
    }

    /// A new coroutine; none if there is no stack to be had.
    pub(crate) fn new_strand(
        &self,
        class: StackClass,
        first: *const Record,
    ) -> Option<*const Strand> {
        if class == self.class
            // SAFETY: null, or a coroutine that is suspended in `stand_by`.
            && let Some(spare) = unsafe { self.spare.replace(ptr::null()).as_ref() }
        {
            spare.first.set(first);
            self.adopt(spare);
            if self.exhausted.get() {
                shortage::end(self);
            }
            return Some(spare);
        }
        let taken = self.stacks.borrow_mut().take(class, &self.shared().stacks);
        match taken {
            Ok(stack) => {
                // SAFETY: the stack is ours and unused.
                let strand = unsafe { Coroutine::create(stack, ptr::from_ref(self), first, enter) };
                // SAFETY: made above.
                self.adopt(unsafe { strand.as_ref() });
                if self.exhausted.get() {
                    shortage::end(self);
                }
                Some(strand.as_ptr())
            }
            Err(_) => {
                shortage::begin(self);
                None
            }
        }
    }

    /// Moves a ready task of this worker before the others; false if it is not ready here.
    pub(crate) fn bring_forward(&self, record: NonNull<Record>) -> bool {
        self.collect();
        let found = self.ready.remove(record);
        if found {
            self.ready.push_front(record);
        }
        found
    }

    /// Makes a fresh task the next one to run here; false if it is not to be had, or no stack is.
    pub(crate) fn start_next(&self, record: NonNull<Record>) -> bool {
        // SAFETY: the caller holds the handle.
        let task = unsafe { record.as_ref() };
        let class = self.class_for(task);
        if !self.remote.front.take(record) {
            // In a queue of this runtime's, not of another's: known by addresses that are compared and
            // not followed.
            let parent = task.node.parent;
            let root = &raw const self.shared().root.node;
            let ours = ptr::eq(parent, self.node.get()) || ptr::eq(parent, root);
            if !ours || task.phase() != Phase::Ready || !task.claim() {
                return false;
            }
            // The queue's entry goes stale and keeps its reference.
            task.add_reference();
            task.unclaim_privately();
        }
        let Some(strand) = self.new_strand(class, record.as_ptr()) else {
            self.requeue(record);
            return false;
        };
        task.place.store(strand.expose_provenance(), Ordering::Relaxed);
        self.ready.push_front(record);
        true
    }

    /// From the main coroutine: runs until there is nothing left to do without searching. False if
    /// there was nothing.
    pub(crate) fn run_until_idle(&self) -> bool {
        if !self.dedicated.get().is_null() {
            return shortage::retry_dedicated(self);
        }
        if self.shared().pressure.load(Ordering::Relaxed) && shortage::relieve(self) {
            return true;
        }
        let next = self.pick();
        if ptr::eq(next, self.main.get()) {
            return false;
        }
        self.leave_main(next);
        true
    }

    /// From the main coroutine: runs another until somebody comes back.
    pub(crate) fn leave_main(&self, next: *const Strand) {
        self.current.set(next);
        // SAFETY: the main coroutine runs; `next` is suspended or new and in our hand alone.
        unsafe { self.main().context.switch(&(*next).context) };
        self.bury();
        if !self.vacated.get().is_null() {
            shortage::see_off(self);
        }
        // What the coroutine that came here has set is not ours.
        self.node.set(ptr::null());
    }

    /// What is due from time to time.
    #[cold]
    #[inline(never)]
    pub(crate) fn housekeeping(&self) {
        // SAFETY: the queue lives as long as the worker.
        let retired = unsafe { self.retired().as_ref() };
        if !retired.is_empty() {
            // SAFETY: we are the owner.
            unsafe { retired.drain(&self.records) };
        }
    }

    /// Hands tasks over if somebody has asked.
    #[cold]
    #[inline(never)]
    pub(crate) fn attend(&self) {
        if !self.remote.front.attend() {
            return;
        }
        let shared = self.shared();
        // A single item is most likely joined by its spawner in a moment; who wants it all the same
        // takes it by force after a while.
        // A full public deque needs no more; and its growth would cost kilobytes of the stack that we
        // happen to stand on.
        let room = BATCH.saturating_sub(self.deque.len());
        self.remote.front.hand_over(2, room, |record| self.publish(record));
        // With its fence also if nothing was handed over: the request that we have just taken back may
        // be one that a second worker found and relied on, which lies down at this moment.
        shared.idle.notify(shared, false);
    }

    /// Puts a fresh task that has left a front into the public deque.
    pub(crate) fn publish(&self, record: NonNull<Record>) {
        // SAFETY: the run reference is in our hand.
        unsafe { record.as_ref() }.set_phase(Phase::Ready);
        self.deque.push(Item::fresh(record));
    }

    /// The loop: runs fresh tasks until a coroutine is ready or there is nothing.
    fn run_loop(&self) {
        loop {
            self.collect();
            if !self.ready.is_empty() && !self.tick() {
                return;
            }
            if self.remote.front.wants_attention() {
                self.attend();
            }
            let Some(record) = self.next_fresh() else { return };
            // SAFETY: we hold the run reference.
            let traits = unsafe { record.as_ref() }.traits;
            if traits.needs_own_stack() {
                self.dedicated.set(record.as_ptr());
                return;
            }
            start(self, record);
        }
    }

    /// A fresh task, claimed.
    pub(crate) fn next_fresh(&self) -> Option<NonNull<Record>> {
        if let Some(record) = NonNull::new(self.dedicated.replace(ptr::null()).cast_mut()) {
            return Some(record);
        }
        if self.tick() {
            self.serve_owed();
            let last_first = self.next_neglected();
            if last_first.is_some() {
                return last_first;
            }
        }
        self.remote
            .front
            .pop()
            .or_else(|| self.next_public())
            .or_else(|| self.next_local())
            .or_else(|| self.next_injected())
    }

    /// A fresh task of those that the usual order may never reach: each kind has its turn.
    fn next_neglected(&self) -> Option<NonNull<Record>> {
        let turn = self.turn.get();
        self.turn.set(turn.wrapping_add(1));
        (0..4).find_map(|i| match turn.wrapping_add(i) % 4 {
            0 => self.next_local(),
            1 => self.next_injected(),
            2 => self.next_oldest_public(),
            _ => self.next_oldest(),
        })
    }

    /// The oldest task of the front, which is otherwise served last in first out.
    fn next_oldest(&self) -> Option<NonNull<Record>> {
        let mut oldest = None;
        self.remote.front.hand_over(1, 1, |record| oldest = Some(record));
        oldest
    }

    /// The oldest task of the deque, likewise.
    fn next_oldest_public(&self) -> Option<NonNull<Record>> {
        use crossbeam_deque::Steal;
        loop {
            match self.remote.stealer.steal() {
                Steal::Success(item) => {
                    if let Some(record) = self.open(item) {
                        return Some(record);
                    }
                }
                Steal::Retry => std::hint::spin_loop(),
                Steal::Empty => return None,
            }
        }
    }

    fn next_public(&self) -> Option<NonNull<Record>> {
        while let Some(item) = self.deque.pop() {
            if let Some(record) = self.open(item) {
                return Some(record);
            }
        }
        None
    }

    /// A fresh task out of an item. A started one is made ready here; a stale one is released.
    pub(crate) fn open(&self, item: Item) -> Option<NonNull<Record>> {
        match item.open() {
            Runnable::Fresh(record) => {
                // SAFETY: the item holds a reference.
                if unsafe { record.as_ref() }.claim() {
                    return Some(record);
                }
                // SAFETY: the item's reference, given up.
                unsafe { release(record, 1) };
            }
            Runnable::Started(record) => {
                // SAFETY: a started task has not ended, and its coroutine is suspended.
                let task = unsafe { record.as_ref() };
                let place = task.place.load(Ordering::Relaxed);
                // SAFETY: as above; the item makes it ours.
                self.adopt(unsafe { &*ptr::with_exposed_provenance::<Strand>(place) });
                self.ready.push(record);
            }
        }
        None
    }

    pub(crate) fn next_local(&self) -> Option<NonNull<Record>> {
        loop {
            let record = self.local.borrow_mut().pop_front()?;
            // SAFETY: the queue holds a reference.
            if unsafe { record.as_ref() }.claim() {
                return Some(record);
            }
            // SAFETY: a joiner has claimed it and left the queue's reference.
            unsafe { release(record, 1) };
        }
    }

    fn next_injected(&self) -> Option<NonNull<Record>> {
        use crossbeam_deque::Steal;
        let injector = &self.shared().injector;
        while !injector.is_empty() {
            match injector.steal_batch_with_limit_and_pop(&self.deque, 16) {
                Steal::Success(item) => {
                    if let Some(record) = self.open(item) {
                        return Some(record);
                    }
                }
                Steal::Retry => std::hint::spin_loop(),
                Steal::Empty => break,
            }
        }
        None
    }

    /// Keeps the running coroutine, whose loop has nothing to do, for the next task that needs one, and
    /// leaves for another meanwhile: to end it and to make a new one would cost more.
    ///
    /// Inlined, so that a coroutine that stands by again after one task has returned from no more
    /// functions than it has called: the processor predicts returns by calls, and the coroutine that is
    /// continued next is predicted right.
    #[inline(always)]
    fn stand_by(&self) -> StoodBy {
        if !self.spare.get().is_null() || self.shared().pressure.load(Ordering::Relaxed) {
            return StoodBy::Superfluous;
        }
        let me = self.strand();
        self.disown(me);
        me.task.set(ptr::null());
        self.spare.set(me);
        let next = self.pick_after_end();
        if !ptr::eq(next, me) {
            self.current.set(next);
            // SAFETY: `me` runs; `next` is suspended or new, and in our hand alone.
            unsafe { me.context.switch(&(*next).context) };
            self.bury();
            self.node.set(ptr::null());
        }
        if self.dismissing.replace(false) { StoodBy::Dismissed } else { StoodBy::Needed }
    }

    /// Ends the spare coroutine, if there is one. On the main coroutine.
    pub(crate) fn dismiss_spare(&self) {
        // SAFETY: null, or a coroutine that is suspended in `stand_by`.
        if let Some(spare) = unsafe { self.spare.replace(ptr::null()).as_ref() } {
            self.adopt(spare);
            self.dismissing.set(true);
            self.leave_main(spare);
        }
    }

    /// Ends the running coroutine and leaves for the next one.
    fn retire_strand(&self, dismissed: bool) -> ! {
        let me = self.strand();
        self.disown(me);
        let Some(stack) = me.take_stack() else {
            // A guest: nothing may happen on its host's stack before main has seen to both.
            self.vacated.set(me);
            self.current.set(self.main.get());
            // SAFETY: nothing on this part of the stack is used again; main is suspended.
            unsafe { me.context.leave(&self.main().context) }
        };
        let next = if dismissed { self.main.get() } else { self.pick_after_end() };
        self.current.set(next);
        #[cfg(cygnet_tsan)]
        self.departed.set(me);
        // We still stand on it. The pool is ours, and nobody takes from it before the switch.
        self.stacks.borrow_mut().put(stack);
        // SAFETY: nothing on this stack is used again: `enter` has no locals left; `next` is in our
        // hand alone.
        unsafe { me.context.leave(&(*next).context) }
    }

    /// Forgets the coroutine that has ended and left for the present one: it could not do so itself,
    /// standing on what was to be forgotten. Only a sanitizer keeps anything of it.
    #[inline(always)]
    fn bury(&self) {
        #[cfg(cygnet_tsan)]
        // SAFETY: its stack lies in our pool, from which nothing has been taken since.
        if let Some(strand) = unsafe { self.departed.replace(ptr::null()).as_ref() } {
            strand.context.end();
        }
    }

    fn pick_after_end(&self) -> *const Strand {
        if let Some(record) = NonNull::new(self.dedicated.replace(ptr::null()).cast_mut()) {
            // SAFETY: we hold the run reference.
            let class = self.class_for(unsafe { record.as_ref() });
            match self.new_strand(class, record.as_ptr()) {
                Some(strand) => return strand,
                None => self.dedicated.set(record.as_ptr()),
            }
        }
        if self.shared().pressure.load(Ordering::Relaxed) {
            // Somebody may need the stack that comes free.
            return self.main.get();
        }
        if let Some(strand) = self.next_ready() { strand } else { self.main.get() }
    }
}

/// Where every coroutine of a worker begins.
pub(crate) unsafe extern "C" fn enter(data: *mut u8, message: usize) {
    let strand: *const Strand = data.cast();
    // SAFETY: `data` is the coroutine that has just begun; it lives until it retires.
    let strand_ref = unsafe { &*strand };
    // SAFETY: this is the first thing it does.
    unsafe { strand_ref.context.arrive(message) };
    // A task's own panic does not come here; this would be a bug of the scheduler, and there is no
    // frame below to unwind into.
    let Ok(dismissed) = catch_unwind(AssertUnwindSafe(|| {
        let worker = Worker::current().expect("coroutines run on workers");
        worker.bury();
        // What the coroutine that was left has set is not ours, and may be gone when we use it.
        worker.node.set(ptr::null());
        loop {
            let first = NonNull::new(strand_ref.first.replace(ptr::null()).cast_mut());
            if let Some(first) = first
                && !start_first(worker, strand_ref, first)
            {
                return false;
            }
            worker.run_loop();
            match worker.stand_by() {
                StoodBy::Needed => {}
                StoodBy::Superfluous => return false,
                StoodBy::Dismissed => return true,
            }
        }
    })) else {
        std::process::abort();
    };
    Worker::current().expect("coroutines run on workers").retire_strand(dismissed)
}

/// Runs the task that a coroutine was made for; false if no loop may run on it afterwards.
fn start_first(worker: &Worker, strand: &Strand, first: NonNull<Record>) -> bool {
    if strand.is_guest() {
        call(worker, first);
        return false;
    }
    // SAFETY: its run reference came with it.
    let task = unsafe { first.as_ref() };
    // Else it may have changed workers by its end, or the stack is a rare one.
    let usual = !task.traits.migratable && worker.class_for(task) == worker.class;
    start(worker, first);
    usual
}

/// Runs a claimed task on the present stack, to its end, and completes it.
pub(crate) fn start(worker: &Worker, record: NonNull<Record>) {
    worker.counters().tasks.add(1);
    call(worker, record);
}

/// As `start`, without counting it.
pub(crate) fn call(worker: &Worker, record: NonNull<Record>) {
    run_in_place(worker, record);
    // SAFETY: the task has just ended here; its run reference is in our hand.
    unsafe { complete(Worker::current().expect("tasks run on workers"), record) };
}

/// Calls a child that the running task has claimed and has the handle of, without completing it. Neither
/// is migratable where it matters: the child stays, and so does the frame below it.
#[inline(always)]
pub(crate) fn call_child(worker: &Worker, record: NonNull<Record>) {
    // SAFETY: the run reference is in our hand.
    let task = unsafe { record.as_ref() };
    worker.counters().in_place.add(1);
    task.at_home.set(JoinedAtHome::Called);
    let outer = enter_node(worker, task, worker.number());
    execute(worker, record);
    if let Some(extras) = task.extras() {
        drop_locals(extras);
    }
    worker.node.set(outer);
}

/// Makes a claimed task the one that runs here; returns the node that was.
#[inline(always)]
fn enter_node(worker: &Worker, task: &Record, home: WorkerNumber) -> *const Node {
    if task.phase() != Phase::Running {
        task.set_phase(Phase::Running);
    }
    task.node.set_home(home);
    worker.node.replace(&raw const task.node)
}

/// Runs the closure of a claimed task, or drops it if it is too late for a start.
#[inline(always)]
fn execute(worker: &Worker, record: NonNull<Record>) {
    // SAFETY: the run reference is in our hand.
    let task = unsafe { record.as_ref() };
    if task.wait.is_cancelled() || worker.shared().is_closing() {
        // SAFETY: claimed by the caller.
        unsafe { Record::abandon(record, Failure::NotStarted) };
    } else {
        // SAFETY: claimed by the caller.
        unsafe { Record::run(record) };
    }
}

/// Runs a claimed task on the present stack without completing it.
fn run_in_place(worker: &Worker, record: NonNull<Record>) {
    // SAFETY: the run reference is in our hand.
    let task = unsafe { record.as_ref() };
    let home = if task.traits.migratable { NOBODY } else { worker.number() };
    let outer = enter_node(worker, task, home);
    execute(worker, record);
    task.stored.set(true);
    if let Some(extras) = task.extras() {
        drop_locals(extras);
    }
    if task.join.is_detached() {
        // As long as the task is still the current one: its result's destructor may use it.
        // SAFETY: the handle is gone, so the outcome is ours.
        unsafe { dispose(record) };
    }
    let worker = Worker::current().expect("tasks run on workers");
    worker.node.set(outer);
}

/// Drops a task's own bindings of task-locals while it is still the current one: the record may live
/// on, and these are a user's types.
#[cold]
fn drop_locals(extras: &Extras) {
    // SAFETY: the chain belongs to whoever runs the task, and no reference into it is out: `scope` has
    // put back what the task began with.
    let locals = unsafe { std::mem::take(&mut *extras.locals.get()) };
    if let Some(payload) = quietly(|| drop(locals)) {
        drop_payload(payload);
    }
}
