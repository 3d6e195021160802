//! Sets of virtual threads.

/// A set of thread numbers, with one bit for each.
#[derive(Default)]
pub(super) struct Set {
    words: Vec<u64>,
    len: usize,
}

impl Set {
    pub(super) fn insert(&mut self, thread: usize) {
        let (word, bit) = (thread / 64, 1 << (thread % 64));
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        self.len += usize::from(self.words[word] & bit == 0);
        self.words[word] |= bit;
    }

    pub(super) fn remove(&mut self, thread: usize) {
        if self.contains(thread) {
            self.words[thread / 64] &= !(1 << (thread % 64));
            self.len -= 1;
        }
    }

    pub(super) fn contains(&self, thread: usize) -> bool {
        self.words.get(thread / 64).is_some_and(|word| word >> (thread % 64) & 1 != 0)
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Iterates over the threads in ascending order.
    pub(super) fn iter(&self) -> impl Iterator<Item = usize> {
        self.words.iter().enumerate().flat_map(|(at, &word)| {
            // Each word is the one before without its lowest bit.
            let rest = std::iter::successors(Some(word), |word| Some(word & word.wrapping_sub(1)));
            let rest = rest.take_while(|&word| word != 0);
            rest.map(move |word| at * 64 + word.trailing_zeros() as usize)
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Set;

    #[test]
    fn a_set_has_the_threads_inserted_and_not_removed_in_order() {
        let mut set = Set::default();
        assert!(set.is_empty() && !set.contains(0) && !set.contains(1000));
        for thread in [130, 0, 63, 64, 7, 64] {
            set.insert(thread);
        }
        assert_eq!((set.len(), set.iter().collect::<Vec<_>>()), (5, vec![0, 7, 63, 64, 130]));
        for thread in [63, 63, 500] {
            set.remove(thread);
        }
        assert_eq!((set.len(), set.iter().collect::<Vec<_>>()), (4, vec![0, 7, 64, 130]));
        assert!(set.contains(64) && !set.contains(63) && !set.is_empty());
    }
}
