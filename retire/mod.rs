//! The memory of coroutines: stacks, records, the retire queue.
