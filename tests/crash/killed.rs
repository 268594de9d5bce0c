//! `tilewake run` ended by SIGKILL at random points, and by SIGTERM.

use std::time::Duration;

use crate::{
    program::Program,
    traffic::{Traffic, judge_and_stop, random},
    world::World,
};

/// Batches under way: claims that hold rows.
const CLAIMS: &str = "
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'tilewake relay' AND backend_xid IS NOT NULL";
const UNPUBLISHED: &str = "SELECT count(*) FROM tilewake.outbox WHERE published_at IS NULL";

#[tokio::test(flavor = "multi_thread")]
async fn twenty_kills_at_random_points_lose_nothing_and_leave_nothing_stale() {
    let world = World::new().await;
    let mut random = random();
    let mut program = Program::new(world.database.url(), "consumer = 'test'\npoll = '100ms'", &[]);
    let mut traffic = Traffic::new();
    traffic.write(&world.database, 3, &mut random).await;
    traffic.read(2, &mut random);
    let (mut n_claims, mut n_rows) = (0, 0);
    for _ in 0..20 {
        traffic.ask(program.start().await);
        tokio::time::sleep(Duration::from_millis(random.u64(0..200))).await;
        // What it is killed in the midst of can only be counted while nothing moves.
        program.freeze();
        n_claims += world.count(CLAIMS).await;
        n_rows += world.count(UNPUBLISHED).await;
        program.kill().await;
    }
    println!("killed over {n_claims} batches and {n_rows} unpublished rows");
    assert!(n_claims > 0 && n_rows > 0, "no kill hit work in flight");
    traffic.ask(program.start().await);
    traffic.flows(100).await;
    traffic.rest().await;
    judge_and_stop(&world, traffic, &mut program).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_finishes_what_is_under_way_and_an_undisturbed_run_has_nothing_to_complain_about() {
    let world = World::new().await;
    let mut random = random();
    let mut program = Program::new(world.database.url(), "consumer = 'test'", &["--relays", "2"]);
    let mut traffic = Traffic::new();
    traffic.ask(program.start().await);
    traffic.write(&world.database, 2, &mut random).await;
    traffic.read(2, &mut random);
    traffic.flows(100).await;
    let status = program.stop().await;
    traffic.stop().await;
    assert_eq!(status.code(), Some(0), "{status}");
    // Whatever the ledger has, is marked: no batch was cut off between the two.
    let cut_off = "SELECT count(*) FROM tilewake.outbox JOIN tilewake.consumed
                   ON (consumed.layer, consumed.feature_id, consumed.epoch, consumed.version)
                      = (outbox.layer, outbox.feature_id, outbox.epoch, outbox.feature_version)
                   WHERE published_at IS NULL";
    assert_eq!(world.count(cut_off).await, 0);
    let log = program.log();
    let complaints: Vec<_> = log
        .lines()
        .filter(|line| line.contains("ERROR") || line.contains("WARN"))
        .collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
    assert!(log.contains("serving tiles"), "{log}");
}
