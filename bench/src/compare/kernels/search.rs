//! Recursions with many tiny forks.

use super::{Fork, splitmix};

/// The Fibonacci number `n` by its definition, with a fork in every call and no cut-off.
pub fn fib<F: Fork>(scope: &mut F::Scope<'_>, n: u32) -> u64 {
    if n < 2 {
        return n.into();
    }
    let (a, b) = F::join(scope, |s| fib::<F>(s, n - 1), |s| fib::<F>(s, n - 2));
    a + b
}

/// The number of ways to place `n` queens on a board of `n` by `n`, none attacking another.
pub fn queens<F: Fork>(scope: &mut F::Scope<'_>, n: u32) -> u64 {
    row::<F>(scope, Board { all: (1 << n) - 1, columns: 0, left: 0, right: 0 })
}

/// The columns of this row that the queens in the rows above attack, one bit per column.
#[derive(Clone, Copy)]
struct Board {
    all: u32,
    columns: u32,
    left: u32,
    right: u32,
}

/// The number of ways to fill this row and all rows below it.
fn row<F: Fork>(scope: &mut F::Scope<'_>, board: Board) -> u64 {
    if board.columns == board.all {
        return 1;
    }
    let free = board.all & !(board.columns | board.left | board.right);
    if free == 0 { 0 } else { candidates::<F>(scope, board, free) }
}

/// The number of ways with a queen on one of the columns in `free`: on the first one, plus on one
/// of the rest. There is a fork for each candidate but one, with the larger half as the second
/// closure.
fn candidates<F: Fork>(scope: &mut F::Scope<'_>, board: Board, free: u32) -> u64 {
    let first = free & free.wrapping_neg();
    let rest = free ^ first;
    let Board { all, columns, left, right } = board;
    let next = Board {
        all,
        columns: columns | first,
        left: (left | first) << 1,
        right: (right | first) >> 1,
    };
    if rest == 0 {
        return row::<F>(scope, next);
    }
    let (a, b) = F::join(scope, |s| row::<F>(s, next), |s| candidates::<F>(s, board, rest));
    a.wrapping_add(b)
}

/// Walks an unbalanced binary tree of `nodes` nodes and adds up their hashes.
///
/// The hash of a node divides the nodes below it among its children. The left child gets the part
/// f * f, where f is the top byte of the hash over 256. That is a third on average, and anything
/// from none to almost all.
pub fn tree<F: Fork>(scope: &mut F::Scope<'_>, seed: u64, nodes: u64) -> u64 {
    let hash = splitmix(seed);
    let below = nodes - 1;
    let top = hash >> 56;
    let left = (below * (top * top)) >> 16;
    let right = below - left;
    let (left_seed, right_seed) = (hash ^ 1, hash ^ 2);
    let sum = match (left, right) {
        (0, 0) => 0,
        (0, _) => tree::<F>(scope, right_seed, right),
        (_, 0) => tree::<F>(scope, left_seed, left),
        _ => {
            let (a, b) = F::join(
                scope,
                |s| tree::<F>(s, left_seed, left),
                |s| tree::<F>(s, right_seed, right),
            );
            a.wrapping_add(b)
        }
    };
    sum.wrapping_add(hash)
}

#[cfg(test)]
mod tests {
    use super::super::Serial;
    use super::*;

    #[test]
    fn the_numbers_of_fibonacci() {
        let numbers: Vec<u64> = (0..10).map(|n| fib::<Serial>(&mut (), n)).collect();
        assert_eq!(numbers, [0, 1, 1, 2, 3, 5, 8, 13, 21, 34]);
    }

    #[test]
    fn the_known_numbers_of_queens() {
        let numbers: Vec<u64> = (1..9).map(|n| queens::<Serial>(&mut (), n)).collect();
        assert_eq!(numbers, [1, 0, 0, 2, 10, 4, 40, 92]);
    }

    #[test]
    fn a_tree_has_the_given_number_of_nodes() {
        fn count(seed: u64, nodes: u64) -> (u64, u64) {
            let hash = splitmix(seed);
            let (below, top) = (nodes - 1, hash >> 56);
            let left = (below * (top * top)) >> 16;
            let children = [(hash ^ 1, left), (hash ^ 2, below - left)];
            let below = children.iter().filter(|(_, nodes)| *nodes > 0);
            below.fold((1, hash), |(nodes, sum), &(seed, size)| {
                let (more, hashes) = count(seed, size);
                (nodes + more, sum.wrapping_add(hashes))
            })
        }
        let (nodes, sum) = count(1, 1000);
        assert_eq!(nodes, 1000);
        assert_eq!(tree::<Serial>(&mut (), 1, 1000), sum);
    }
}
