//! Which processors are near each other: those that share a last-level cache, and those of the same
//! socket.
//!
//! Linux tells it in files below /sys/devices/system/cpu. Each processor has a folder there, with
//! the list of the processors that are in a group with it, such as `0-7,64-71`. One list is read
//! for each group, so a machine with two sockets and 128 processors costs a dozen small files. Only
//! processors that the calling thread may run on count: the system leaves out those that are
//! offline, and those that a control group excludes. A limit on the time of a control group leaves
//! the processors as they are.
//!
//! A machine that does not tell this, or tells nonsense, has no groups. Its workers then search as
//! if all processors were equally far from each other.

use crate::scheduler::blocking::Cores;
use crate::scheduler::steal::idle::FEW;
use crate::shim::{simulated_processors, simulated_sockets};
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

/// Groups with fewer processors than this on average are of no use. Such groups are the two
/// hyperthreads of a core, or a socket for each processor, as some virtual machines have it.
const LEAST: usize = 4;

/// A division of processors into groups.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Division {
    pub(super) groups: usize,
    /// The group of each processor, if it has one.
    of: Vec<Option<usize>>,
}

impl Division {
    /// The group of a processor. One that has come online later has none.
    pub(super) fn group(&self, processor: usize) -> Option<usize> {
        self.of.get(processor).copied().flatten()
    }

    /// Divides `processors` processors into blocks of `size`.
    #[cfg(all(test, not(loom)))]
    pub(super) fn of_blocks(processors: usize, size: usize) -> Division {
        let of = (0..processors).map(|processor| Some(processor / size)).collect();
        Division { groups: processors / size, of }
    }

    /// Divides the `allowed` processors. `together` lists the group of a processor. Returns `None`
    /// if a list is missing or contradicts another one, or if the groups are of no use.
    fn by(allowed: &[usize], together: impl Fn(usize) -> Option<List>) -> Option<Division> {
        let (mut of, mut groups) = (vec![None; allowed.iter().max()? + 1], 0);
        for &processor in allowed {
            if of[processor].is_some() {
                continue;
            }
            let list = together(processor).filter(|list| list.contains(processor))?;
            for &member in allowed.iter().filter(|member| list.contains(**member)) {
                if of[member].replace(groups).is_some() {
                    return None;
                }
            }
            groups += 1;
        }
        (groups > 1 && groups * LEAST <= allowed.len()).then_some(Division { groups, of })
    }
}

/// The divisions of the processors of this machine, the one with the smallest groups first. They
/// are read once in a process. A simulated machine has its own.
pub(super) fn divisions() -> Vec<Division> {
    static READ: OnceLock<Vec<Division>> = OnceLock::new();
    if let (Some(processors), Some(sockets)) = (simulated_processors(), simulated_sockets()) {
        let of = (0..processors).map(|processor| Some(processor * sockets / processors)).collect();
        return Vec::from_iter((sockets > 1).then_some(Division { groups: sockets, of }));
    }
    let read = || {
        let allowed = Cores::of_this_thread().map_or(Vec::new(), |cores| cores.list());
        divisions_below(Path::new("/sys/devices/system/cpu"), &allowed)
    };
    READ.get_or_init(read).clone()
}

/// As [`divisions`], from the files below `root`, for the processors `allowed`.
fn divisions_below(root: &Path, allowed: &[usize]) -> Vec<Division> {
    // All workers of so small a machine look at each other.
    if allowed.len() <= FEW {
        return Vec::new();
    }
    let read = |processor: usize, file: &str| {
        fs::read_to_string(root.join(format!("cpu{processor}")).join(file)).ok()
    };
    // The usual case, at the price of one file: a cache that all processors share.
    let third =
        read(allowed[0], "cache/index3/shared_cpu_list").and_then(|list| List::parse(&list));
    if third.is_some_and(|list| allowed.iter().all(|processor| list.contains(*processor))) {
        return Vec::new();
    }
    let caches = Division::by(allowed, |processor| {
        let level = |index: &usize| {
            read(processor, &format!("cache/index{index}/level"))?.trim().parse::<u8>().ok()
        };
        // The first-level caches for code and data are two of them.
        let last = (0..8).filter(|index| level(index).is_some()).max_by_key(level)?;
        List::parse(&read(processor, &format!("cache/index{last}/shared_cpu_list"))?)
    });
    let sockets = Division::by(allowed, |processor| {
        // Kernels before 5.8 know only the second name.
        let list = read(processor, "topology/package_cpus_list")
            .or_else(|| read(processor, "topology/core_siblings_list"));
        List::parse(&list?)
    });
    let sockets = sockets.filter(|sockets| caches.as_ref() != Some(sockets));
    let mut divisions: Vec<_> = caches.into_iter().chain(sockets).collect();
    divisions.sort_by_key(|division| std::cmp::Reverse(division.groups));
    divisions
}

/// A list of processors: ranges with both ends.
struct List(Vec<(usize, usize)>);

impl List {
    /// Reads a list such as `0-7,64-71`. Returns `None` if it is none.
    fn parse(text: &str) -> Option<List> {
        let range = |range: &str| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            Some((first.parse().ok()?, last.parse().ok()?))
        };
        text.trim().split(',').map(range).collect::<Option<_>>().map(List)
    }

    fn contains(&self, processor: usize) -> bool {
        self.0.iter().any(|(first, last)| (first..=last).contains(&&processor))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A folder like /sys/devices/system/cpu, which is removed at the end.
    struct Tree(std::path::PathBuf);

    impl Tree {
        fn new() -> Tree {
            static NEXT: AtomicUsize = AtomicUsize::new(0);
            let name =
                format!("cygnet-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
            Tree(std::env::temp_dir().join(name))
        }

        /// A machine with processors 0 to `processors`. `cache` and `socket` list the processors
        /// that share the last-level cache and the socket with one.
        fn of(
            processors: usize,
            cache: impl Fn(usize) -> String,
            socket: impl Fn(usize) -> String,
        ) -> Tree {
            let tree = Tree::new();
            for processor in 0..processors {
                let alone = processor.to_string();
                for (index, level) in [(0, 1), (1, 1), (2, 2)] {
                    tree.cache(processor, index, level, &alone);
                }
                tree.cache(processor, 3, 3, &cache(processor));
                tree.write(processor, "topology/package_cpus_list", &socket(processor));
            }
            tree
        }

        fn write(&self, processor: usize, file: &str, text: &str) {
            let path = self.0.join(format!("cpu{processor}")).join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }

        fn cache(&self, processor: usize, index: usize, level: usize, list: &str) {
            self.write(processor, &format!("cache/index{index}/level"), &level.to_string());
            self.write(processor, &format!("cache/index{index}/shared_cpu_list"), list);
        }

        fn divisions(&self, allowed: impl IntoIterator<Item = usize>) -> Vec<Division> {
            divisions_below(&self.0, &Vec::from_iter(allowed))
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// The list of the block of `size` processors that one is in.
    fn block(size: usize) -> impl Fn(usize) -> String + Copy {
        move |processor| {
            let first = processor / size * size;
            format!("{first}-{}", first + size - 1)
        }
    }

    /// Divisions into blocks of these sizes.
    fn blocks<const N: usize>(processors: usize, sizes: [usize; N]) -> Vec<Division> {
        sizes.map(|size| Division::of_blocks(processors, size)).into()
    }

    #[test]
    fn a_machine_with_one_core_or_few_has_no_divisions() {
        assert_eq!(Tree::of(1, block(1), block(1)).divisions([0]), []);
        assert_eq!(Tree::of(8, block(4), block(4)).divisions(0..8), []);
    }

    #[test]
    fn one_shared_cache_is_no_division_and_costs_one_file() {
        let tree = Tree::new();
        tree.cache(0, 3, 3, "0-63");
        assert_eq!(tree.divisions(0..64), []);
    }

    #[test]
    fn sockets_that_are_caches_count_once() {
        assert_eq!(Tree::of(48, block(16), block(16)).divisions(0..48), blocks(48, [16]));
    }

    #[test]
    fn two_sockets_with_caches_of_eight_processors_are_two_divisions() {
        let tree = Tree::of(128, block(8), block(64));
        assert_eq!(tree.divisions(0..128), blocks(128, [8, 64]));
    }

    #[test]
    fn hyperthreads_are_together_with_their_cores() {
        let pair = |processor| {
            let first = processor % 16 / 8 * 8;
            format!("{first}-{},{}-{}", first + 7, first + 16, first + 23)
        };
        let [division] = &Tree::of(32, pair, pair).divisions(0..32)[..] else { panic!("not one") };
        assert_eq!(division.groups, 2);
        assert_eq!(
            [0, 7, 8, 16, 24, 31].map(|at| division.group(at)),
            [0, 0, 1, 0, 1, 1].map(Some)
        );
    }

    #[test]
    fn three_sockets_of_different_sizes_are_three_groups() {
        let socket = |processor| {
            let list = match processor {
                0..4 => "0-3",
                4..10 => "4-9",
                _ => "10-15",
            };
            list.into()
        };
        let [division] = &Tree::of(16, socket, socket).divisions(0..16)[..] else {
            panic!("not one")
        };
        assert_eq!(division.groups, 3);
        assert_eq!([0, 4, 9, 10].map(|at| division.group(at)), [0, 1, 1, 2].map(Some));
    }

    #[test]
    fn offline_processors_are_left_out() {
        // The lists leave them out, and so does the mask. Their folders have no caches.
        let list = |processor| String::from(if processor < 8 { "0-2,4-7" } else { "8-14" });
        let tree = Tree::of(16, list, list);
        for offline in [3, 15] {
            fs::remove_dir_all(tree.0.join(format!("cpu{offline}"))).unwrap();
        }
        let [division] = &tree.divisions((0..15).filter(|at| *at != 3))[..] else {
            panic!("not one")
        };
        assert_eq!(division.groups, 2);
        assert_eq!(
            [2, 3, 4, 14, 15, 99].map(|at| division.group(at)),
            [Some(0), None, Some(0), Some(1), None, None]
        );
    }

    #[test]
    fn a_mask_within_one_socket_is_one_neighbourhood() {
        let tree = Tree::of(64, block(32), block(32));
        assert_eq!(tree.divisions(32..64), []);
        assert_eq!(tree.divisions(16..64).len(), 1);
    }

    #[test]
    fn groups_that_are_too_small_are_no_division() {
        // As a virtual machine shows them that has a socket for each processor.
        assert_eq!(Tree::of(16, block(1), block(1)).divisions(0..16), []);
        assert_eq!(Tree::of(16, block(2), block(8)).divisions(0..16), blocks(16, [8]));
    }

    #[test]
    fn processors_of_two_kinds_share_caches_of_two_sizes() {
        // Six large cores, and two clusters of four small ones.
        let cache = |processor| match processor {
            0..6 => "0-5".into(),
            6..10 => "6-9".into(),
            _ => String::from("10-13"),
        };
        let [division] = &Tree::of(14, cache, |_| "0-13".into()).divisions(0..14)[..] else {
            panic!("not one")
        };
        assert_eq!(division.groups, 3);
    }

    #[test]
    fn without_caches_sockets_are_left() {
        let tree = Tree::new();
        for processor in 0..16 {
            tree.write(processor, "topology/core_siblings_list", &block(8)(processor));
        }
        assert_eq!(tree.divisions(0..16), blocks(16, [8]));
    }

    #[test]
    fn nothing_to_read_is_no_division() {
        assert_eq!(Tree::new().divisions(0..16), []);
        assert_eq!(Tree::new().divisions([]), []);
    }

    #[test]
    fn nonsense_is_no_division() {
        for nonsense in
            ["", "\0\u{1}", "zero", "-1", "7-0", "1,,2", "99999999999999999999", "100-200"]
        {
            let tree = Tree::of(16, |_| nonsense.into(), |_| nonsense.into());
            assert_eq!(tree.divisions(0..16), [], "{nonsense:?}");
        }
        // A list that contradicts another one, and a range that is too large to be written down.
        let contradicts = |processor| String::from(if processor < 8 { "0-8" } else { "8-15" });
        assert_eq!(Tree::of(16, contradicts, contradicts).divisions(0..16), []);
        let all = |_| format!("0-{}", usize::MAX);
        assert_eq!(Tree::of(16, all, all).divisions(0..16), []);
        let tree = Tree::of(16, block(8), block(8));
        tree.write(8, "cache/index3/level", "256");
        assert_eq!(tree.divisions(0..16), blocks(16, [8]), "the sockets are left");
    }

    #[test]
    fn this_machine_can_be_read() {
        for division in divisions() {
            assert!(division.groups > 1);
        }
    }
}
