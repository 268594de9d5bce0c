//! The whole pipeline as a small world, in which everything that can go wrong does.
//!
//! Random histories of writers, relays, a transport, consumers, purgers and caches: each dies, freezes, repeats and
//! overtakes; the database crashes. The decisions are those of the core, by the very functions that the shell calls.
//! Once a world is at rest, the invariants must hold. And where one thing is done wrong on purpose, they must not.

#![expect(unreachable_pub, reason = "a test exports nothing; `pub` is for its own modules")]
#![expect(clippy::unwrap_used, reason = "a world that cannot be made fails its test")]

mod simulation {
    pub mod cache;
    pub mod capture;
    pub mod consumer;
    pub mod controls;
    pub mod database;
    pub mod gaps;
    pub mod laws;
    pub mod places;
    pub mod relay;
    pub mod step;
    pub mod transport;
    pub mod world;
}

use std::{
    cell::Cell,
    hash::{BuildHasher, Hasher, RandomState},
};

use proptest::test_runner::{Config, RngSeed, TestCaseError, TestError, TestRunner};
use simulation::{
    controls::{CONTROLS, Invariant, Weakness},
    laws,
    step::{History, history},
    world::World,
};

/// How many histories a run lives through, and how many a control has to be caught in.
const N_HISTORIES: u32 = 4_000;
const N_STEPS: usize = 90;

/// I1 to I4, watermarks, gaps, the ledger, and no purge beyond what was called for.
#[test]
fn a_world_at_rest_has_lost_nothing_invented_nothing_and_shows_nothing_stale() {
    let seed = seed();
    let failure = first_failure(seed, 20_000, |history| laws::broken(&mut World::live(history, None)));
    if let Some((history, why)) = failure {
        panic!("{why}\nin {history:?}\ndrawn again with PROPTEST_RNG_SEED={seed}");
    }
}

#[test]
fn every_weakness_breaks_its_invariant() {
    let is_missed = |(weakness, invariant): &(Weakness, Invariant)| !is_caught(*weakness, *invariant);
    let missed: Vec<_> = CONTROLS.into_iter().filter(is_missed).collect();
    assert!(
        missed.is_empty(),
        "these break their invariant, and no law has noticed: {missed:?}"
    );
}

fn is_caught(weakness: Weakness, invariant: Invariant) -> bool {
    let breaks = |history: &History| {
        let mut broken = laws::broken(&mut World::live(history, Some(weakness)));
        broken.retain(|(which, _)| *which == invariant);
        broken
    };
    let n_histories = Cell::new(0);
    let is_caught = first_failure(1, 0, |history| {
        n_histories.set(n_histories.get() + 1);
        breaks(history)
    })
    .is_some();
    println!("{weakness:?} breaks {invariant:?}: {} histories", n_histories.get());
    is_caught
}

/// The smallest history found in which something is broken.
fn first_failure(
    seed: u64,
    max_shrink_iters: u32,
    broken: impl Fn(&History) -> Vec<laws::Violation>,
) -> Option<(History, String)> {
    let config = Config {
        cases: N_HISTORIES,
        max_shrink_iters,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(seed),
        ..Config::default()
    };
    let holds = |history: History| match &broken(&history)[..] {
        [] => Ok(()),
        broken => Err(TestCaseError::fail(format!("{broken:#?}"))),
    };
    match TestRunner::new(config).run(&history(N_STEPS), holds) {
        Ok(()) => None,
        Err(TestError::Fail(why, history)) => Some((history, why.to_string())),
        Err(TestError::Abort(why)) => panic!("no histories: {why}"),
    }
}

/// Another one every time, unless the environment names one.
fn seed() -> u64 {
    match Config::default().rng_seed {
        RngSeed::Fixed(seed) => seed,
        RngSeed::Random => RandomState::new().build_hasher().finish(),
    }
}
