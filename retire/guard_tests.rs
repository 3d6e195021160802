//! Tests of guards, and of memory that is given back.

use super::*;

/// Returns whether the page at `at` faults. Other modules' tests use this too.
pub(crate) fn faults(at: *mut u8) -> bool {
    // SAFETY: the tests ask this only about guards and about stacks that they own, and they do not
    // need what is written there.
    unsafe { Pages::<Guard>::new(at, GUARD) }.faults()
}

fn guarded_map(kind: GuardKind) -> (memmap2::MmapRaw, *mut u8, *mut u8) {
    let map = memmap2::MmapOptions::new().len(3 * GUARD).map_anon().unwrap();
    let map = memmap2::MmapRaw::from(map);
    let guard = map.as_mut_ptr().wrapping_add(GUARD);
    // SAFETY: the range lies in the mapping made above, which holds no data.
    unsafe { Pages::new(guard, GUARD) }.install(kind).unwrap();
    let above = guard.wrapping_add(GUARD);
    (map, guard, above)
}

#[test]
fn a_guard_faults_on_all_its_pages_and_its_neighbours_do_not() {
    for kind in [GuardKind::of_this_kernel(), GuardKind::Protection] {
        let (_map, guard, above) = guarded_map(kind);
        assert!(faults(guard));
        assert!(faults(above.wrapping_sub(page_size())));
        assert!(!faults(guard.wrapping_sub(page_size())));
        assert!(!faults(above));
    }
}

#[test]
fn a_guard_survives_a_discard_of_the_memory_around_it() {
    for kind in [GuardKind::of_this_kernel(), GuardKind::Protection] {
        let (map, guard, above) = guarded_map(kind);
        // SAFETY: the page above the guard belongs to the mapping made above.
        unsafe { above.write(7) };
        // SAFETY: the test owns the whole mapping, and does not need the 7.
        unsafe { Pages::new(map.as_mut_ptr(), map.len()) }.discard();
        assert!(faults(guard));
        // SAFETY: the page above the guard belongs to the mapping made above.
        assert_eq!(unsafe { above.read() }, 0);
    }
}

#[test]
fn markers_installed_by_one_call_fault_and_their_neighbours_do_not() {
    if GuardKind::of_this_kernel() != GuardKind::Marker {
        return;
    }
    let map = memmap2::MmapOptions::new().len(8 * GUARD).map_anon().unwrap();
    let map = memmap2::MmapRaw::from(map);
    let place = |index: usize| map.as_mut_ptr().wrapping_add(index * GUARD);
    // SAFETY: the places lie in the mapping made above, which holds no data.
    let places = [1, 3, 6].map(|index| unsafe { Pages::new(place(index), GUARD) });
    let installed = Pages::install_markers(&places);
    // Kernels before 6.14 install none.
    assert!(installed == 0 || installed == places.len());
    for index in 0..8 {
        let guarded = installed > 0 && [1, 3, 6].contains(&index);
        assert_eq!(faults(place(index)), guarded, "{index}");
    }
}

#[test]
fn ranges_discarded_together_are_all_discarded() {
    let page = page_size();
    let many = 2 * MOST + 10;
    let map = memmap2::MmapOptions::new().len(2 * many * page).map_anon().unwrap();
    let map = memmap2::MmapRaw::from(map);
    let place = |index: usize| map.as_mut_ptr().wrapping_add(index * page);
    // SAFETY: the page lies in the mapping made above.
    (0..2 * many).for_each(|index| unsafe { place(index).write(7) });
    // SAFETY: every second page of the mapping made above, with contents that the test does not
    // need.
    let pages = |index: usize| unsafe { Pages::new(place(2 * index), page) };
    Pages::discard_all(&(0..many).map(pages).collect::<Vec<_>>());
    for index in 0..2 * many {
        // SAFETY: the page lies in the mapping made above.
        let found = unsafe { place(index).read() };
        assert_eq!(found, if index % 2 == 0 { 0 } else { 7 }, "{index}");
    }
}

#[test]
fn a_guard_is_a_whole_number_of_pages() {
    assert_eq!(GUARD % page_size(), 0);
}
