//! A process that stands still for longer than it may.

use std::time::Duration;

use crate::{
    program::Program,
    traffic::{Traffic, judge, random},
    world::{World, eventually},
};

const SETTINGS: &str = "consumer = 'test'\npoll = '100ms'";

/// Sessions in the midst of a ledger transaction that has written something, which only they can end.
const LEDGERS: &str = "
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'tilewake' AND state = 'idle in transaction'
      AND backend_xid IS NOT NULL";
const CLAIMS: &str = "
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'tilewake relay' AND state = 'idle in transaction'
      AND backend_xid IS NOT NULL";

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_process_holds_up_nobody_and_marks_nothing_when_it_goes_on() {
    for held in [CLAIMS, LEDGERS] {
        let world = World::new().await;
        let mut random = random();
        let mut frozen = Program::new(world.database.url(), SETTINGS, &["--publish-bound", "500ms"]);
        let mut traffic = Traffic::new();
        traffic.ask(frozen.start().await);
        traffic.write(&world.database, 2, &mut random).await;
        traffic.read(2, &mut random);
        freeze_while(&world, &frozen, held, &mut random).await;

        let mut other = Program::new(world.database.url(), SETTINGS, &[]);
        traffic.ask(other.start().await);
        traffic.flows(20).await;
        traffic.stop().await;
        // The server itself ends what the frozen process holds.
        world.drained().await;
        eventually("it holds nothing any more", || async { world.count(held).await == 0 }).await;
        let marks =
            "SELECT sum(extract(epoch FROM published_at))::bigint FROM tilewake.outbox WHERE feature_version > 0";
        let before = world.count(marks).await;

        frozen.thaw();
        judge(&world, &[&other, &frozen]).await;
        assert_eq!(world.count(marks).await, before, "marked once more");
        let mut traffic = Traffic::new();
        traffic.write(&world.database, 2, &mut random).await;
        traffic.flows(20).await;
        traffic.stop().await;
        judge(&world, &[&other, &frozen]).await;
        assert!(frozen.stop().await.success());
        assert!(other.stop().await.success());
    }
}

/// Freezes the process at random points until it holds what it shall hold.
async fn freeze_while(world: &World, program: &Program, held: &str, random: &mut fastrand::Rng) {
    for _ in 0..500 {
        tokio::time::sleep(Duration::from_millis(random.u64(0..20))).await;
        program.freeze();
        // A statement that the server is still busy with ends by itself.
        let busy = "SELECT count(*) FROM pg_stat_activity
                    WHERE datname = current_database() AND application_name LIKE 'tilewake%' AND state = 'active'
                      AND pid <> pg_backend_pid()";
        eventually("the server has answered", || async { world.count(busy).await == 0 }).await;
        if world.count(held).await > 0 {
            return;
        }
        program.thaw();
    }
    panic!("the process was never frozen with anything in its hands");
}
