//! Which tables cannot be layers, and that the answer says what to do.

use expect_test::{Expect, expect};
use tilewake::postgres::{self, layers};
use tilewake_testbed::postgres::Server;

use crate::world::{World, layer};

/// Makes tables, and shows why `t` cannot be a layer.
async fn refuse(sql: &str, message: Expect) {
    let world = World::new(sql).await;
    refuse_in(&world, "t", message).await;
}

async fn refuse_in(world: &World, table: &str, message: Expect) {
    let refused = layers::add(&world.pool, &layer("l", table)).await.unwrap_err();
    message.assert_eq(&refused.to_string());
    let n: i64 = world
        .value("SELECT count(*) FROM pg_trigger WHERE tgname LIKE 'tilewake%'")
        .await;
    assert_eq!(n, 0, "something was left behind");
}

#[tokio::test]
async fn no_such_table() {
    for table in ["nowhere", "no.such.data.base", "a b", "\"", ""] {
        let world = World::new("").await;
        let refused = layers::add(&world.pool, &layer("l", table)).await.unwrap_err();
        assert!(
            matches!(refused, layers::LayerError::NoSuchTable(_)),
            "{table}: {refused}"
        );
    }
}

#[tokio::test]
async fn a_table_without_a_usable_key() {
    refuse(
        "CREATE TABLE t (id integer, geom geometry(Point, 4326));",
        expect![[
            r#""public"."t" has no primary key of one column: name a column that is unique and not null with --id"#
        ]],
    )
    .await;
    refuse(
        "CREATE TABLE t (id integer, part integer, geom geometry(Point, 4326), PRIMARY KEY (id, part));",
        expect![[
            r#""public"."t" has no primary key of one column: name a column that is unique and not null with --id"#
        ]],
    )
    .await;
    refuse(
        "CREATE TABLE t (id numeric PRIMARY KEY, geom geometry(Point, 4326));",
        expect![[r#"id cannot be the key of "public"."t": a key is an integer, a uuid or text"#]],
    )
    .await;
    refuse(
        "CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
         CREATE TABLE t (id text COLLATE loose PRIMARY KEY, geom geometry(Point, 4326));",
        expect![[r#"id cannot be the key of "public"."t": its collation is not deterministic, so two different texts may be the same key: change the collation"#]],
    )
    .await;
    for (column, message) in [
        (
            "id integer UNIQUE",
            expect![[
                r#"id cannot be the key of "public"."t": it may be null: run ALTER TABLE … ALTER … SET NOT NULL"#
            ]],
        ),
        (
            "id integer NOT NULL",
            expect![[
                r#"id cannot be the key of "public"."t": nothing makes it unique: create a unique index or constraint on this column alone"#
            ]],
        ),
    ] {
        let world = World::new(&format!("CREATE TABLE t ({column}, geom geometry(Point, 4326));")).await;
        let mut new = layer("l", "t");
        new.id = Some("id".to_owned());
        message.assert_eq(&layers::add(&world.pool, &new).await.unwrap_err().to_string());
    }
}

#[tokio::test]
async fn a_child_without_the_key_of_its_parent() {
    refuse(
        "CREATE TABLE t (id integer PRIMARY KEY, geom geometry(Point, 4326));
         CREATE TABLE child () INHERITS (t);",
        expect![[r#"id cannot be the key of "public"."child": nothing makes it unique: create a unique index or constraint on this column alone"#]],
    )
    .await;
}

#[tokio::test]
async fn a_column_that_is_no_geometry_or_none_at_all() {
    refuse(
        "CREATE TABLE t (id integer PRIMARY KEY);",
        expect![[r#""public"."t" has 0 geometry columns: name the one that is drawn with --geometry"#]],
    )
    .await;
    refuse(
        "CREATE TABLE t (id integer PRIMARY KEY, a geometry(Point, 4326), b geometry(Point, 4326));",
        expect![[r#""public"."t" has 2 geometry columns: name the one that is drawn with --geometry"#]],
    )
    .await;
    let world = World::new("CREATE TABLE t (id integer PRIMARY KEY, g geography(Point, 4326), name text);").await;
    for (column, message) in [
        (
            "g",
            expect![[
                r#"g of "public"."t" is of type geography, not geometry: name a geometry column with --geometry, or change its type with ALTER TABLE … TYPE geometry(Geometry, 4326) USING …::geometry"#
            ]],
        ),
        (
            "name",
            expect![[r#"name of "public"."t" is of type text, not geometry: name a geometry column with --geometry"#]],
        ),
        (
            "nothing",
            expect![[r#""public"."t" has no column nothing: it has id, g, name"#]],
        ),
    ] {
        let mut new = layer("l", "t");
        new.geometry = Some(column.to_owned());
        message.assert_eq(&layers::add(&world.pool, &new).await.unwrap_err().to_string());
    }
}

#[tokio::test]
async fn an_srid_that_is_missing_or_unknown() {
    refuse("CREATE TABLE t (id integer PRIMARY KEY, geom geometry);", expect![[r#"geom of "public"."t" has no SRID: say which one it is with ALTER TABLE "public"."t" ALTER geom TYPE geometry(Geometry, 4326) USING ST_SetSRID(geom, 4326)"#]]).await;
    refuse(
        "CREATE TABLE t (id integer PRIMARY KEY, geom geometry);
         INSERT INTO t VALUES (1, 'SRID=4326;POINT(1 1)'), (2, 'POINT(1 1)');",
        expect![[r#"geom of "public"."t" has no SRID: say which one it is with ALTER TABLE "public"."t" ALTER geom TYPE geometry(Geometry, 4326) USING ST_SetSRID(geom, 4326)"#]],
    )
    .await;
    refuse(
        "CREATE TABLE t (id integer PRIMARY KEY, geom geometry(Point, 990001));",
        expect![[r#"geom of "public"."t" has SRID 990001, which spatial_ref_sys does not know: insert its definition there, or correct the SRID with UpdateGeometrySRID"#]],
    )
    .await;
}

#[tokio::test]
async fn what_is_no_table() {
    let table = "CREATE TABLE base (id integer PRIMARY KEY, geom geometry(Point, 4326));\n";
    refuse(
        &format!("{table}CREATE VIEW t AS SELECT * FROM base;"),
        expect![[
            r#""public"."t" is a view: only tables have rows of their own to capture, so add the table behind it"#
        ]],
    )
    .await;
    refuse(
        &format!("{table}CREATE MATERIALIZED VIEW t AS SELECT * FROM base;"),
        expect![[r#""public"."t" is a materialized view: only tables have rows of their own to capture, so add the table behind it"#]],
    )
    .await;
    refuse(
        "CREATE SEQUENCE t;",
        expect![[
            r#""public"."t" is not a table: only tables have rows of their own to capture, so add the table behind it"#
        ]],
    )
    .await;
    refuse(
        "CREATE UNLOGGED TABLE t (id integer PRIMARY KEY, geom geometry(Point, 4326));",
        expect![[r#""public"."t" is temporary or unlogged, and its rows vanish without an edit: run ALTER TABLE "public"."t" SET LOGGED"#]],
    )
    .await;
}

#[tokio::test]
async fn foreign_tables_and_parts() {
    let server = "CREATE EXTENSION postgres_fdw;\nCREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw;\n";
    refuse(
        &format!("{server}CREATE FOREIGN TABLE t (id integer NOT NULL, geom geometry(Point, 4326)) SERVER far;"),
        expect![[r#""public"."t" is a foreign table: only tables have rows of their own to capture, so add the table behind it"#]],
    )
    .await;
    // Postgres itself refuses a foreign partition of a table with a unique key; a child by inheritance it does not.
    refuse(
        &format!(
            "{server}CREATE TABLE t (id integer PRIMARY KEY, geom geometry(Point, 4326));
             CREATE FOREIGN TABLE far_child () INHERITS (t) SERVER far;"
        ),
        expect![[r#""public"."far_child", a part of "public"."t", is a foreign table, and edits made on its own server cannot be captured: detach it"#]],
    )
    .await;
}

#[tokio::test]
async fn a_part_of_another_table() {
    let world = World::new(
        "CREATE TABLE t (id integer PRIMARY KEY, geom geometry(Point, 4326)) PARTITION BY RANGE (id);
         CREATE TABLE t1 PARTITION OF t FOR VALUES FROM (0) TO (100);",
    )
    .await;
    refuse_in(
        &world,
        "t1",
        expect![[r#""public"."t1" is a part of t, whose statements its own triggers do not see: add t instead"#]],
    )
    .await;
}

#[tokio::test]
async fn a_target_of_a_subscription() {
    let world = World::new("CREATE TABLE t (id integer PRIMARY KEY, geom geometry(Point, 4326));").await;
    world
        .run(
            "CREATE SUBSCRIPTION s CONNECTION 'dbname=nowhere' PUBLICATION p WITH (connect = false);
             INSERT INTO pg_subscription_rel SELECT oid, 't'::regclass, 'r', NULL FROM pg_subscription WHERE subname = 's';",
        )
        .await;
    refuse_in(&world, "t", expect![[r#""public"."t" is the target of a subscription, whose changes fire no statement triggers: add the layer where they are made"#]]).await;
    world
        .run("DELETE FROM pg_subscription_rel;\nALTER SUBSCRIPTION s SET (slot_name = NONE);\nDROP SUBSCRIPTION s;")
        .await;
}

#[tokio::test]
async fn a_role_that_does_not_see_all_rows_or_does_not_own_the_table() {
    let role = format!("mapper_{}", std::process::id());
    let database = Server::shared().database().await.unwrap();
    let pool = sqlx::PgPool::connect_with(database.options()).await.unwrap();
    let run = |sql: String| {
        let pool = pool.clone();
        async move { sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(&pool).await.unwrap() }
    };
    run(format!(
        "CREATE ROLE {role} LOGIN; GRANT ALL ON DATABASE {name} TO {role}; GRANT ALL ON SCHEMA public TO {role};
         CREATE TABLE t (id integer PRIMARY KEY, geom geometry(Point, 4326)); GRANT ALL ON t TO {role};
         CREATE TABLE mine (id integer PRIMARY KEY, geom geometry(Point, 4326)); ALTER TABLE mine OWNER TO {role};
         ALTER TABLE mine ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;",
        name = database.options().get_database().unwrap(),
    ))
    .await;
    let theirs = sqlx::PgPool::connect_with(database.options().username(&role))
        .await
        .unwrap();
    postgres::migrate(&theirs).await.unwrap();
    let message = |error: layers::LayerError| error.to_string().replace(&role, "ROLE");
    let refused = layers::add(&theirs, &layer("l", "t")).await.unwrap_err();
    expect![[r#""public"."t" belongs to postgres, and only its owner may make triggers that always fire: run GRANT postgres TO ROLE"#]].assert_eq(&message(refused));
    let refused = layers::add(&theirs, &layer("l", "mine")).await.unwrap_err();
    expect![[r#"row-level security hides rows of "public"."mine" from ROLE, so their edits would be taken for deletions: run ALTER ROLE ROLE BYPASSRLS, or connect as the owner of the table"#]].assert_eq(&message(refused));

    // Seen to be so when the relay starts, too.
    run("ALTER TABLE mine NO FORCE ROW LEVEL SECURITY".to_owned()).await;
    layers::add(&theirs, &layer("l", "mine")).await.unwrap();
    postgres::check(&theirs).await.unwrap();
    run("ALTER TABLE mine FORCE ROW LEVEL SECURITY".to_owned()).await;
    let refused = postgres::check(&theirs).await.unwrap_err();
    expect![
        "row-level security hides rows of layer l from ROLE: run ALTER ROLE ROLE BYPASSRLS, or connect as another role"
    ]
    .assert_eq(&refused.to_string().replace(&role, "ROLE"));
    theirs.close().await;
    run(format!("DROP OWNED BY {role} CASCADE; DROP ROLE {role}")).await;
}

#[tokio::test]
async fn a_name_that_is_taken() {
    let world = World::with_points("").await;
    let refused = layers::add(&world.pool, &layer("t", "t")).await.unwrap_err();
    expect!["there is a layer t already: choose another name, or remove it with tilewake layer remove t"]
        .assert_eq(&refused.to_string());
    let refused = layers::remove(&world.pool, &layer("u", "t").name).await.unwrap_err();
    expect!["there is no layer u: tilewake layer list shows those that there are"].assert_eq(&refused.to_string());
}

#[tokio::test]
async fn a_database_without_postgis_or_without_our_tables() {
    let bare = Server::shared().bare_database().await.unwrap();
    let pool = sqlx::PgPool::connect_with(bare.options()).await.unwrap();
    expect!["this database has no PostGIS: run CREATE EXTENSION postgis in it, as a superuser or its owner"]
        .assert_eq(&postgres::migrate(&pool).await.unwrap_err().to_string());
    expect!["this database has no PostGIS: run CREATE EXTENSION postgis and then tilewake migrate"]
        .assert_eq(&layers::add(&pool, &layer("l", "t")).await.unwrap_err().to_string());
    // The ledger needs none.
    postgres::migrate_ledger(&pool).await.unwrap();
    pool.close().await;

    let database = Server::shared().database().await.unwrap();
    let pool = sqlx::PgPool::connect_with(database.options()).await.unwrap();
    expect!["this database has no tables of tilewake: run tilewake migrate first"]
        .assert_eq(&layers::add(&pool, &layer("l", "t")).await.unwrap_err().to_string());
    expect!["this database has no tables of tilewake: run tilewake migrate"]
        .assert_eq(&postgres::check(&pool).await.unwrap_err().to_string());
    pool.close().await;
}

#[tokio::test]
async fn migrating_twice_or_at_the_same_time_changes_nothing() {
    let database = Server::shared().database().await.unwrap();
    let pool = sqlx::PgPool::connect_with(database.options()).await.unwrap();
    let (a, b) = tokio::join!(postgres::migrate(&pool), postgres::migrate(&pool));
    a.unwrap();
    b.unwrap();
    postgres::migrate(&pool).await.unwrap();
    postgres::check(&pool).await.unwrap();
    let in_public: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p')
             AND c.relname <> 'spatial_ref_sys'",
    )
    .fetch_one(&pool)
    .await
    .unwrap();
    assert_eq!(in_public, 0);
    pool.close().await;
}

/// A long transaction on the table must not make all writers queue behind us.
#[tokio::test]
async fn a_table_in_use_is_waited_for_briefly() {
    let world = World::new("CREATE TABLE t (id integer PRIMARY KEY, geom geometry(Point, 4326));").await;
    let mut long = world.pool.begin().await.unwrap();
    sqlx::query("INSERT INTO t VALUES (1)")
        .execute(&mut *long)
        .await
        .unwrap();
    refuse_in(
        &world,
        "t",
        expect![[r#""public"."t" was in use for too long: try again when no long transaction runs on it"#]],
    )
    .await;
    long.commit().await.unwrap();
    world.add("t").await;
}
