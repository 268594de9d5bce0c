//! Edits by every kind of statement.

use expect_test::{Expect, expect};

use crate::world::World;

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

#[tokio::test]
async fn a_statement_that_changes_nothing_makes_no_edit() {
    check(
        "UPDATE t SET name = name, geom = geom;
         UPDATE t SET name = 'q' WHERE id = 99;
         DELETE FROM t WHERE id = 99;
         INSERT INTO t VALUES (1, 'q', NULL) ON CONFLICT DO NOTHING;",
        expect![[""]],
    )
    .await;
}

#[tokio::test]
async fn many_rows_of_one_statement_are_told_one_by_one() {
    check(
        "UPDATE t SET geom = ST_Translate(geom, id, 0), name = CASE id WHEN 2 THEN 'z' ELSE name END WHERE id < 3;
         DELETE FROM t;",
        expect![[r"
            1 v1→2 moved g 1 1 → 2 1
            1 v1→3 retired b 2 1 → nothing
            2 v1→2 moved b 2 2 → 4 2
            2 v1→3 retired b 4 2 → nothing
            3 v1→2 retired b 3 3 → nothing
        "]],
    )
    .await;
}

#[tokio::test]
async fn a_deleted_feature_that_comes_back_goes_on_counting() {
    check(
        "DELETE FROM t WHERE id = 1;
         INSERT INTO t VALUES (1, 'a', 'SRID=4326;POINT(9 9)');
         DELETE FROM t WHERE id = 1;",
        expect![[r"
            1 v1→2 retired b 1 1 → nothing
            1 v1→3 created b nothing → 9 9
            1 v1→4 retired b 9 9 → nothing
        "]],
    )
    .await;
}

#[tokio::test]
async fn copy_is_captured() {
    check(
        "COPY t FROM PROGRAM 'printf \"4\\td\\t0101000020E610000000000000000010400000000000001040\\n\"';",
        expect![[r"
            4 v0→1 created b nothing → 4 4
        "]],
    )
    .await;
}

#[tokio::test]
async fn an_upsert_is_captured_on_both_of_its_ways() {
    check(
        "INSERT INTO t VALUES (1, 'a', 'SRID=4326;POINT(5 5)'), (4, 'd', 'SRID=4326;POINT(4 4)')
         ON CONFLICT (id) DO UPDATE SET geom = excluded.geom;",
        expect![[r"
            1 v1→2 moved g 1 1 → 5 5
            4 v0→1 created b nothing → 4 4
        "]],
    )
    .await;
}

#[tokio::test]
async fn merge_is_captured_on_all_of_its_ways() {
    check(
        "MERGE INTO t USING (VALUES (1), (2), (4)) AS s (id) ON t.id = s.id
         WHEN MATCHED AND s.id = 1 THEN DELETE
         WHEN MATCHED THEN UPDATE SET name = 'm'
         WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'm', 'SRID=4326;POINT(4 4)');",
        expect![[r"
            1 v1→2 retired b 1 1 → nothing
            2 v1→2 updated a 2 2 → 2 2
            4 v0→1 created b nothing → 4 4
        "]],
    )
    .await;
}

#[tokio::test]
async fn update_from_is_captured_once_a_row() {
    check(
        "UPDATE t SET name = 'x' FROM generate_series(1, 3) s WHERE t.id = 1;",
        expect![[r"
            1 v1→2 updated a 1 1 → 1 1
        "]],
    )
    .await;
}

/// The two parts' triggers run in some order, and only the table knows that the row is there again.
#[tokio::test]
async fn a_statement_that_deletes_and_inserts_a_row_leaves_it_standing() {
    check(
        "WITH gone AS (DELETE FROM t WHERE id = 1 RETURNING *)
         INSERT INTO t SELECT id, 'back', ST_Translate(geom, 4, 4) FROM gone;",
        expect![[r"
            1 v1→2 retired b 1 1 → nothing
            1 v1→3 created b nothing → 5 5
        "]],
    )
    .await;
}

#[tokio::test]
async fn a_change_of_the_key_is_a_delete_and_an_insert() {
    check(
        "UPDATE t SET id = 4 WHERE id = 1;",
        expect![[r"
            1 v1→2 retired b 1 1 → nothing
            4 v0→1 created b nothing → 1 1
        "]],
    )
    .await;
}

#[tokio::test]
async fn keys_may_be_swapped() {
    check(
        "ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (id) DEFERRABLE;
         UPDATE t SET id = 3 - id WHERE id < 3;",
        expect![[r"
            1 v1→2 moved b 1 1 → 2 2
            2 v1→2 moved b 2 2 → 1 1
        "]],
    )
    .await;
}

/// Two rows have the key 1 for a moment, and the one that leaves must not take the feature with it.
#[tokio::test]
async fn a_key_may_stand_twice_until_the_commit() {
    check(
        "ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (id) DEFERRABLE INITIALLY DEFERRED;
         BEGIN;
         UPDATE t SET id = 1 WHERE id = 2;
         UPDATE t SET id = 2 WHERE name = 'a';
         COMMIT;",
        expect![[r"
            1 v0→1 created b nothing → 2 2
            1 v0→2 moved b 1 1 → 2 2
            2 v1→2 retired b 2 2 → nothing
            2 v1→3 created b nothing → 1 1
        "]],
    )
    .await;
}

/// The nested statement's trigger runs first, and the outer one's images are outdated when it runs.
#[tokio::test]
async fn a_row_trigger_that_edits_the_same_row_does_not_confuse_its_versions() {
    check(
        "CREATE FUNCTION again() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN
             UPDATE t SET geom = ST_Translate(geom, 10, 0) WHERE id = NEW.id;
             RETURN NULL;
         END $$;
         CREATE TRIGGER again AFTER INSERT OR UPDATE ON t FOR EACH ROW WHEN (pg_trigger_depth() = 0)
         EXECUTE FUNCTION again();
         UPDATE t SET name = 'x', geom = ST_Translate(geom, 0, 10) WHERE id = 1;
         INSERT INTO t VALUES (4, 'd', 'SRID=4326;POINT(4 4)');",
        expect![[r"
            1 v1→2 moved g 1 11 → 11 11
            1 v1→3 moved b 1 1 → 11 11
            4 v1→2 moved g 4 4 → 14 4
            4 v1→3 created b nothing → 14 4
        "]],
    )
    .await;
}

#[tokio::test]
async fn a_row_that_a_trigger_deletes_at_once_is_gone() {
    let world = World::with_points("").await;
    world
        .run(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN
                 DELETE FROM t WHERE id = NEW.id;
                 RETURN NULL;
             END $$;
             CREATE TRIGGER refuse AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION refuse();
             INSERT INTO t VALUES (4, 'd', 'SRID=4326;POINT(4 4)');",
        )
        .await;
    assert!(
        world
            .value::<bool>("SELECT deleted FROM tilewake.feature WHERE feature_id = '4'")
            .await
    );
    expect![[r"
        4 v1→2 retired b 4 4 → nothing
        4 v1→3 retired b nothing → nothing
    "]]
    .assert_eq(&world.edits().await);
}

#[tokio::test]
async fn cascades_are_captured() {
    check(
        "ALTER TABLE t ADD parent integer REFERENCES t ON UPDATE CASCADE ON DELETE CASCADE;
         UPDATE t SET parent = 1 WHERE id = 2;
         UPDATE t SET id = 10 WHERE id = 1;
         DELETE FROM t WHERE id = 10;",
        expect![[r"
            1 v1→2 retired b 1 1 → nothing
            10 v0→1 created b nothing → 1 1
            10 v0→2 retired b 1 1 → nothing
            2 v1→2 retired b 2 2 → nothing
        "]],
    )
    .await;
}

#[tokio::test]
async fn a_session_in_the_role_of_a_replica_is_captured() {
    check(
        "SET session_replication_role = replica;
         DELETE FROM t WHERE id = 1;",
        expect![[r"
            1 v1→2 retired b 1 1 → nothing
        "]],
    )
    .await;
}

#[tokio::test]
async fn the_application_may_say_what_its_edits_mean() {
    check(
        "BEGIN;
         SELECT tilewake.intent('surveyed');
         UPDATE t SET geom = 'SRID=4326;POINT(5 5)' WHERE id = 1;
         UPDATE t SET name = 'x' WHERE id = 2;
         COMMIT;
         UPDATE t SET name = 'x' WHERE id = 3;",
        expect![[r"
            1 v1→2 surveyed g 1 1 → 5 5
            2 v1→2 surveyed a 2 2 → 2 2
            3 v1→2 updated a 3 3 → 3 3
        "]],
    )
    .await;
}

/// I4.
#[tokio::test]
async fn what_is_rolled_back_leaves_no_trace() {
    check(
        "BEGIN;
         UPDATE t SET geom = 'SRID=4326;POINT(5 5)' WHERE id = 1;
         TRUNCATE t;
         ROLLBACK;
         BEGIN;
         SAVEPOINT s;
         DELETE FROM t;
         ROLLBACK TO s;
         UPDATE t SET name = 'x' WHERE id = 2;
         COMMIT;",
        expect![[r"
            2 v1→2 updated a 2 2 → 2 2
        "]],
    )
    .await;
}
