//! A table that is altered under its layer: writers go on, and nothing stays stale.

use expect_test::expect;
use tilewake::postgres::{
    Identifier,
    layers::{self, Alteration},
};

use crate::world::World;

async fn alterations(world: &World) -> Vec<String> {
    let found = layers::alterations(&world.pool).await.unwrap();
    found.iter().map(Alteration::to_string).collect()
}

const ADAPTED: &str = "layer t: its table was altered, and is captured as it is now";

#[tokio::test]
async fn an_unaltered_table_is_left_alone() {
    let world = World::with_points("(1, 'a', NULL)").await;
    world.run("UPDATE t SET name = 'b';\nCREATE INDEX ON t (name);").await;
    assert!(alterations(&world).await.is_empty());
    assert_eq!(world.n_epochs().await, 1);
}

#[tokio::test]
async fn writers_go_on_whatever_is_renamed_or_dropped() {
    for alteration in [
        "ALTER TABLE t RENAME COLUMN name TO title",
        "ALTER TABLE t DROP COLUMN name",
        "ALTER TABLE t RENAME COLUMN id TO key",
        "ALTER TABLE t RENAME COLUMN geom TO shape",
        "ALTER TABLE t ALTER geom TYPE text",
        "ALTER TABLE t ALTER name TYPE integer USING 7",
        "ALTER TABLE t RENAME TO u; ALTER TABLE u RENAME TO t",
    ] {
        let world = World::with_points("(1, 'a', 'SRID=4326;POINT(1 1)')").await;
        // Plans of an earlier statement must not stand in the way, nor those of another session.
        world
            .run(
                &format!(
                    "INSERT INTO t VALUES (2);
                 {alteration};
                 INSERT INTO t VALUES (3);
                 UPDATE t SET geom = NULL;
                 DELETE FROM t WHERE false;"
                )
                .replace(
                    "SET geom",
                    if alteration.contains("TO shape") {
                        "SET shape"
                    } else {
                        "SET geom"
                    },
                ),
            )
            .await;
        let n: i64 = world
            .value("SELECT count(*) FROM tilewake.outbox WHERE feature_version > 0 OR event_type = 'epoch'")
            .await;
        assert!(n > 2, "{alteration}: the edits left no trace");
    }
}

#[tokio::test]
async fn a_renamed_column_is_shown_under_its_new_name() {
    let world = World::with_points("(1, 'a', 'SRID=4326;POINT(1 1)')").await;
    world
        .run("ALTER TABLE t RENAME name TO title;\nUPDATE t SET title = 'b';")
        .await;
    assert_eq!(
        world.n_epochs().await,
        2,
        "the edit cannot be told, so the layer is purged"
    );
    assert_eq!(alterations(&world).await, [ADAPTED]);
    assert!(alterations(&world).await.is_empty());
    world.run("UPDATE t SET title = 'c';").await;
    assert_eq!(world.n_epochs().await, 3);
    expect![[r"
        1 v1→2 updated a 1 1 → 1 1 epoch+2
    "]]
    .assert_eq(&world.edits().await);
    let columns = &layers::all(&world.pool).await.unwrap()[0].columns;
    assert_eq!(columns.iter().map(Identifier::as_str).collect::<Vec<_>>(), ["title"]);
}

#[tokio::test]
async fn an_attached_partition_is_captured_and_a_detached_one_is_not() {
    let world = World::new(
        "CREATE TABLE t (id integer PRIMARY KEY, geom geometry(Point, 4326)) PARTITION BY RANGE (id);
         CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (100);",
    )
    .await;
    world.add("t").await;
    world
        .run("CREATE TABLE t2 PARTITION OF t FOR VALUES FROM (100) TO (200);")
        .await;
    assert_eq!(alterations(&world).await, [ADAPTED]);
    world
        .run(
            "INSERT INTO t2 VALUES (101, 'SRID=4326;POINT(1 1)');
             INSERT INTO t1 VALUES (1, 'SRID=4326;POINT(2 2)');
             ALTER TABLE t DETACH PARTITION t1;",
        )
        .await;
    assert_eq!(alterations(&world).await, [ADAPTED]);
    world.run("DELETE FROM t1;\nDELETE FROM t;").await;
    expect![[r"
        1 v0→1 created b nothing → 2 2 epoch+1
        101 v0→1 created b nothing → 1 1 epoch+1
        101 v1→2 retired b 1 1 → nothing epoch+2
    "]]
    .assert_eq(&world.edits().await);
}

#[tokio::test]
async fn a_renamed_table_is_found_again() {
    let world = World::with_points("(1, 'a', 'SRID=4326;POINT(1 1)')").await;
    world
        .run(
            "ALTER TABLE t RENAME TO u;
             BEGIN;
             UPDATE u SET name = 'b';
             UPDATE u SET name = 'c';
             COMMIT;",
        )
        .await;
    assert_eq!(alterations(&world).await, [ADAPTED]);
    world
        .run("BEGIN;\nUPDATE u SET name = 'd';\nUPDATE u SET name = 'e';\nCOMMIT;")
        .await;
    assert_eq!(
        layers::all(&world.pool).await.unwrap()[0].table.to_string(),
        r#""public"."u""#
    );
    let n: i64 = world
        .value("SELECT count(*) FROM tilewake.outbox WHERE feature_version > 0")
        .await;
    assert_eq!(n, 4);
}

#[tokio::test]
async fn what_cannot_be_captured_any_more_is_said_once() {
    let world = World::with_points("(1, 'a', NULL)").await;
    world.run("ALTER TABLE t DROP COLUMN geom;").await;
    assert_eq!(
        alterations(&world).await,
        ["layer t: column geom of its table is gone, and every statement purges the layer; add it anew"]
    );
    world.run("UPDATE t SET name = 'b';").await;
    assert_eq!(world.n_epochs().await, 3);
    world.run("DROP TABLE t;").await;
    assert_eq!(
        alterations(&world).await,
        ["layer t: its table was dropped; remove the layer or add it anew"]
    );
    assert!(alterations(&world).await.is_empty());
    layers::remove(&world.pool, &crate::world::layer("t", "t").name)
        .await
        .unwrap();
    world
        .run("CREATE TABLE t (id integer PRIMARY KEY, geom geometry(Point, 4326));")
        .await;
    world.add("t").await;
}
