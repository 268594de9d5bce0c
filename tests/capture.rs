//! Every edit of a layer, however it is made, stands in the outbox exactly once, and no writer fails or waits for it.
#![expect(clippy::unwrap_used, reason = "a failed test may panic anywhere")]

#[path = "capture/world.rs"]
mod world;

use expect_test::{Expect, expect};

use self::world::World;

/// Rows 1 to 3 at (1 1), (2 2), (3 3), older than the layer; then `sql`; then what the outbox holds.
async fn check(sql: &str, edits: Expect) {
    let world = World::with_points(
        "(1, 'a', 'SRID=4326;POINT(1 1)'), (2, 'b', 'SRID=4326;POINT(2 2)'), (3, 'c', 'SRID=4326;POINT(3 3)')",
    )
    .await;
    world.run(sql).await;
    edits.assert_eq(&world.edits().await);
}

#[tokio::test]
async fn edits_of_every_kind_are_told_apart() {
    check(
        "INSERT INTO t VALUES (4, 'd', 'SRID=4326;POINT(4 4)');
         UPDATE t SET geom = 'SRID=4326;POINT(5 5)' WHERE id = 1;
         UPDATE t SET name = 'z' WHERE id = 2;
         UPDATE t SET name = 'z', geom = 'SRID=4326;POINT(6 6)' WHERE id = 4;
         DELETE FROM t WHERE id = 3;",
        expect![[r"
            1 v1→2 moved g 1 1 → 5 5
            2 v1→2 updated a 2 2 → 2 2
            3 v1→2 retired b 3 3 → nothing
            4 v0→1 created b nothing → 4 4
            4 v0→2 moved b 4 4 → 6 6
        "]],
    )
    .await;
}
