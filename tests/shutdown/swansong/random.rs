//! Random operations on random trees, compared with the plain model after each.

use super::model::{Part, World};
use crate::common::prelude::*;

fn any_of(random: &mut Random, of: &[usize]) -> Option<usize> {
    (!of.is_empty()).then(|| of[random.below(of.len() as u64) as usize])
}

/// One operation, if there is something to do it with.
fn operate(world: &mut World, random: &mut Random) -> Option<()> {
    let eager = random.below(3) > 0;
    let named = world.named();
    let is_full = named.len() > 30;
    let one = any_of(random, &named);
    let part_of = |world: &World, random: &mut Random, part| {
        let n = any_of(random, &world.with(part))?;
        Some((n, random.below(world.count(n, part) as u64) as usize))
    };
    match random.below(100) {
        0..14 if !is_full => drop(world.child(one?)),
        0..22 => world.clone_handle(one?),
        22..36 => {
            // The last handle of a root is mostly left alone: else most rounds would be short.
            let (n, at) = part_of(world, random, Part::Handle)?;
            if world.count(n, Part::Handle) > 1 || random.below(3) == 0 {
                world.drop_part(n, Part::Handle, at);
            }
        }
        36..48 => world.guard(one?),
        48..54 => world.clone_guard(part_of(world, random, Part::Guard)?.0),
        54..68 => {
            let (n, at) = part_of(world, random, Part::Guard)?;
            world.drop_part(n, Part::Guard, at);
        }
        68..71 => world.shut_down(one?, eager),
        71..75 => world.completion(one?, eager),
        75..82 => world.interrupt(one?, eager),
        82..85 => {
            let (n, at) = part_of(world, random, Part::Interrupt)?;
            world.guard_interrupt(n, at);
        }
        85..90 => {
            let (n, at) = part_of(world, random, Part::Interrupt)?;
            world.drop_part(n, Part::Interrupt, at);
        }
        90..92 => world.signal(one?, eager),
        92..96 => {
            let part = if eager { Part::Completion } else { Part::Signal };
            let (n, at) = part_of(world, random, part)?;
            world.drop_part(n, part, at);
        }
        _ => world.move_on(one?),
    }
    Some(())
}

#[test]
fn a_thousand_random_operations_do_what_the_plain_model_does() {
    let seeds = scaled_in_debug(50) as u64;
    within_each(1..=seeds, |seed| {
        let (mut world, mut random) =
            (World::default(), Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15)));
        for _ in 0..1000 {
            let named = world.named();
            if named.iter().all(|&n| world.is_stopped(n)) {
                world.root();
            }
            operate(&mut world, &mut random);
            world.check();
        }
        // Everything is dropped in some order.
        let parts = [Part::Handle, Part::Guard, Part::Completion, Part::Signal];
        while let Some(part) = parts.iter().copied().find(|&part| !world.with(part).is_empty()) {
            let n = any_of(&mut random, &world.with(part)).unwrap();
            world.drop_part(n, part, 0);
            world.check();
        }
    });
}
