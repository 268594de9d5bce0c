//! Edits of tables of every kind, by writers of every kind.

use expect_test::expect;
use tilewake::postgres::layers;

use crate::world::{World, layer};

#[tokio::test]
async fn only_shown_columns_count_as_attributes() {
    let world = World::new(
        "CREATE TABLE t (id integer PRIMARY KEY, name text, touched_at timestamptz, geom geometry(Point, 4326));
         INSERT INTO t VALUES (1, 'a', now(), 'SRID=4326;POINT(1 1)');",
    )
    .await;
    let mut new = layer("t", "t");
    new.columns = Some(vec!["name".to_owned()]);
    layers::add(&world.pool, &new).await.unwrap();
    world
        .run(
            "UPDATE t SET touched_at = '2000-01-01';
             UPDATE t SET touched_at = '2001-01-01', name = 'b';",
        )
        .await;
    expect![[r"
        1 v1→2 updated a 1 1 → 1 1
    "]]
    .assert_eq(&world.edits().await);
}

/// `json` has no equality, `citext` calls two spellings equal, and so does `numeric`: tiles show all three as they are.
#[tokio::test]
async fn attributes_are_compared_as_they_are_shown() {
    let world = World::new(
        r#"CREATE EXTENSION citext;
         CREATE TABLE t (id integer PRIMARY KEY, j json, c citext, n numeric, geom geometry(Point, 4326));
         INSERT INTO t VALUES (1, '{"a": 1}', 'Ring', 1.0, 'SRID=4326;POINT(1 1)');"#,
    )
    .await;
    world.add("t").await;
    world
        .run(
            r#"UPDATE t SET j = '{"a": 1}', c = 'Ring', n = 1.0;
             UPDATE t SET j = '{"a":1}';
             UPDATE t SET c = 'ring';
             UPDATE t SET n = 1.00;"#,
        )
        .await;
    expect![[r"
        1 v1→2 updated a 1 1 → 1 1
        1 v1→3 updated a 1 1 → 1 1
        1 v1→4 updated a 1 1 → 1 1
    "]]
    .assert_eq(&world.edits().await);
}

/// A digest that depended on the session would find every feature changed.
#[tokio::test]
async fn digests_do_not_depend_on_the_session() {
    let world = World::new(
        "CREATE TYPE pair AS (x float8, at timestamptz);
         CREATE TABLE t (id integer PRIMARY KEY, a float8, b float4, c timestamptz, d interval, e bytea, f money, g date[],
                         h pair, i jsonb, j text, k numrange, geom geometry(Point, 4326));",
    )
    .await;
    world.add("t").await;
    let values = "0.1 + 0.2, 1.1, '2020-01-01 12:00+02', '1 day 2 hours', '\\x00ff', 12.34::numeric, '{2020-05-01}',
                  (0.1 + 0.2, '2020-01-01 12:00+02'), '{\"a\": 1.50}', 'ü', '[1,2)', 'SRID=4326;POINT(1 1)'";
    world.run(&format!("INSERT INTO t VALUES (1, {values});")).await;
    world
        .run(&format!(
            "SET datestyle = 'SQL, DMY';
             SET intervalstyle = iso_8601;
             SET timezone = 'Asia/Tokyo';
             SET extra_float_digits = -5;
             SET bytea_output = escape;
             SET client_encoding = 'LATIN1';
             INSERT INTO t SELECT 2, t.a, t.b, t.c, t.d, t.e, t.f, t.g, t.h, t.i, t.j, t.k, t.geom FROM t;
             INSERT INTO t VALUES (3, 0.25, {});",
            &values[values.find(',').unwrap() + 1..].replace('ü', "u")
        ))
        .await;
    let n: i64 = world.value("SELECT count(DISTINCT digest) FROM tilewake.feature").await;
    assert_eq!(n, 2, "features 1 and 2 are the same, feature 3 is not");
}

#[tokio::test]
async fn names_may_be_odd() {
    let world = World::new(
        r#"CREATE SCHEMA "My; ""Schema""";
         CREATE TABLE "My; ""Schema"""."Odd $capture$ 'name'" (
             "key" integer, "here" integer, "digest" text, "edits" text, "feature_id" text, "a\b'c" text, "image" text,
             "Id {edits}" uuid PRIMARY KEY, "The Geom" geometry(Point, 4326));"#,
    )
    .await;
    let table = r#""My; ""Schema"""."Odd $capture$ 'name'""#;
    let mut new = layer("odd", table);
    new.id = Some("Id {edits}".to_owned());
    layers::add(&world.pool, &new).await.unwrap();
    let id = "5d0c4f3e-9a43-4d55-a7a3-0f6a7a6f4c11";
    world
        .run(&format!(
            r#"INSERT INTO {table} VALUES (1, 2, 'd', 'e', 'f', 'a', 'i', '{id}', 'SRID=4326;POINT(1 1)');
             UPDATE {table} SET "a\b'c" = 'z';
             BEGIN;
             DELETE FROM {table};
             INSERT INTO {table} VALUES (1, 2, 'd', 'e', 'f', 'a', 'i', '{id}', 'SRID=4326;POINT(2 2)');
             COMMIT;
             TRUNCATE {table};"#
        ))
        .await;
    expect![[r"
        5d0c4f3e-9a43-4d55-a7a3-0f6a7a6f4c11 v0→1 created b nothing → 1 1
        5d0c4f3e-9a43-4d55-a7a3-0f6a7a6f4c11 v0→2 updated a 1 1 → 1 1
        5d0c4f3e-9a43-4d55-a7a3-0f6a7a6f4c11 v0→3 retired b 1 1 → nothing
        5d0c4f3e-9a43-4d55-a7a3-0f6a7a6f4c11 v0→4 created b nothing → 2 2
    "]]
    .assert_eq(&world.edits().await);
    assert_eq!(world.n_epochs().await, 2);
}

#[tokio::test]
async fn keys_may_be_of_any_allowed_type() {
    for (type_, a, b) in [
        ("smallint", "1", "2"),
        ("bigint", "1", "9007199254740993"),
        ("text", "'a b/ü'", "''"),
        ("varchar(3)", "'abc'", "'d'"),
        ("char(4)", "'abc'", "'d'"),
        ("code", "7", "8"),
    ] {
        let world = World::new(&format!(
            "CREATE DOMAIN code AS integer CHECK (VALUE > 0);
             CREATE TABLE t (id {type_} PRIMARY KEY, geom geometry(Point, 4326));"
        ))
        .await;
        world.add("t").await;
        world
            .run(&format!(
                "BEGIN;
                 INSERT INTO t VALUES ({a}, 'SRID=4326;POINT(1 1)'), ({b}, 'SRID=4326;POINT(2 2)');
                 UPDATE t SET geom = 'SRID=4326;POINT(3 3)' WHERE id = {b};
                 COMMIT;"
            ))
            .await;
        let standing: Vec<String> =
            sqlx::query_scalar("SELECT f.feature_id FROM tilewake.feature f WHERE NOT f.deleted ORDER BY f.version")
                .fetch_all(&world.pool)
                .await
                .unwrap();
        let unquoted = |text: &str| text.trim_matches('\'').to_owned();
        assert_eq!(standing, [unquoted(a), unquoted(b)], "{type_}");
    }
}

#[tokio::test]
async fn partitions_are_captured_however_they_are_addressed() {
    let world = World::new(
        "CREATE TABLE t (id integer PRIMARY KEY, name text, geom geometry(Point, 4326)) PARTITION BY RANGE (id);
         CREATE TABLE t_low PARTITION OF t FOR VALUES FROM (0) TO (100);
         CREATE TABLE t_high (geom geometry(Point, 4326), id integer NOT NULL, name text);
         ALTER TABLE t ATTACH PARTITION t_high FOR VALUES FROM (100) TO (200);",
    )
    .await;
    world.add("t").await;
    world
        .run(
            "INSERT INTO t VALUES (1, 'a', 'SRID=4326;POINT(1 1)'), (101, 'b', 'SRID=4326;POINT(2 2)');
             INSERT INTO t_high (id, name, geom) VALUES (102, 'c', 'SRID=4326;POINT(3 3)');
             UPDATE t SET name = 'z';
             UPDATE t_low SET geom = 'SRID=4326;POINT(5 5)';
             UPDATE t SET id = 103 WHERE id = 1;
             DELETE FROM t WHERE id > 101;",
        )
        .await;
    expect![[r"
        1 v0→1 created b nothing → 1 1
        1 v0→2 updated a 1 1 → 1 1
        1 v0→3 moved g 1 1 → 5 5
        1 v0→4 retired b 5 5 → nothing
        101 v0→1 created b nothing → 2 2
        101 v0→2 updated a 2 2 → 2 2
        102 v0→1 created b nothing → 3 3
        102 v0→2 updated a 3 3 → 3 3
        102 v0→3 retired b 3 3 → nothing
        103 v0→1 created b nothing → 5 5
        103 v0→2 retired b 5 5 → nothing
    "]]
    .assert_eq(&world.edits().await);
}

#[tokio::test]
async fn children_are_captured_however_they_are_addressed() {
    let world = World::new(
        "CREATE TABLE t (id integer PRIMARY KEY, name text, geom geometry(Point, 4326));
         CREATE TABLE child (more text, PRIMARY KEY (id)) INHERITS (t);",
    )
    .await;
    world.add("t").await;
    world
        .run(
            "INSERT INTO t VALUES (1, 'a', 'SRID=4326;POINT(1 1)');
             INSERT INTO child VALUES (2, 'b', 'SRID=4326;POINT(2 2)', 'more');
             UPDATE t SET name = 'z';
             UPDATE child SET more = 'less';
             DELETE FROM ONLY t;
             DELETE FROM t;",
        )
        .await;
    expect![[r"
        1 v0→1 created b nothing → 1 1
        1 v0→2 updated a 1 1 → 1 1
        1 v0→3 retired b 1 1 → nothing
        2 v0→1 created b nothing → 2 2
        2 v0→2 updated a 2 2 → 2 2
        2 v0→3 retired b 2 2 → nothing
    "]]
    .assert_eq(&world.edits().await);
}

#[tokio::test]
async fn a_table_may_be_two_layers() {
    let world = World::with_points("(1, 'a', 'SRID=4326;POINT(1 1)')").await;
    layers::add(&world.pool, &layer("t2", "t")).await.unwrap();
    world.run("UPDATE t SET name = 'b';").await;
    let layers: Vec<String> =
        sqlx::query_scalar("SELECT layer FROM tilewake.outbox WHERE feature_version > 0 ORDER BY 1")
            .fetch_all(&world.pool)
            .await
            .unwrap();
    assert_eq!(layers, ["t", "t2"]);
}

/// Neither rights in our schema nor a search path is asked of a writer, also when it sets every trap there is.
#[tokio::test]
async fn a_writer_needs_no_rights_and_cannot_lead_capture_astray() {
    let world = World::with_points("(1, 'a', 'SRID=4326;POINT(1 1)')").await;
    let role = format!("writer_{}", std::process::id());
    world
        .run(&format!(
            "CREATE ROLE {role};
             GRANT SELECT, INSERT, UPDATE, DELETE ON t TO {role};
             SET ROLE {role};
             CREATE FUNCTION pg_temp.box_of(public.geometry) RETURNS box LANGUAGE sql AS 'SELECT 1/0; SELECT NULL::box';
             CREATE TEMPORARY TABLE outbox (id integer);
             CREATE TEMPORARY TABLE feature (id integer);
             SET search_path = '';
             INSERT INTO public.t VALUES (2, 'b', 'SRID=4326;POINT(2 2)');
             UPDATE public.t SET name = 'z' WHERE id = 1;
             SELECT tilewake.intent('retired');
             DELETE FROM public.t WHERE id = 1;"
        ))
        .await;
    expect![[r"
        1 v1→2 updated a 1 1 → 1 1
        1 v1→3 retired b 1 1 → nothing
        2 v0→1 created b nothing → 2 2
    "]]
    .assert_eq(&world.edits().await);
    for forbidden in ["SELECT FROM tilewake.outbox", "SELECT tilewake.raise_epoch('t')"] {
        let refused = world.try_run(&format!("SET ROLE {role};\n{forbidden};")).await;
        assert!(refused.is_err(), "{forbidden}");
    }
    world.run(&format!("DROP OWNED BY {role};\nDROP ROLE {role};")).await;
}

#[tokio::test]
async fn a_removed_layer_is_captured_no_more_and_its_name_goes_on_counting() {
    let world = World::with_points("(1, 'a', 'SRID=4326;POINT(1 1)')").await;
    let name = layer("t", "t").name;
    world.run("UPDATE t SET name = 'b';").await;
    let before = layers::find(&world.pool, &name).await.unwrap().unwrap().epoch;
    layers::remove(&world.pool, &name).await.unwrap();
    world.run("UPDATE t SET name = 'c';\nTRUNCATE t;").await;
    assert!(layers::find(&world.pool, &name).await.unwrap().is_none());
    world
        .run("INSERT INTO t VALUES (1, 'd', 'SRID=4326;POINT(2 2)');")
        .await;
    world.add("t").await;
    world.run("UPDATE t SET name = 'e';").await;
    assert!(layers::find(&world.pool, &name).await.unwrap().unwrap().epoch > before);
    expect![[r"
        1 v1→2 updated a 1 1 → 1 1
        1 v2→3 updated a 2 2 → 2 2 epoch+1
    "]]
    .assert_eq(&world.edits().await);
}
