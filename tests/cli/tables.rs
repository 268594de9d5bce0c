//! Tables that cannot be layers, and roles that must not capture or relay them.

use expect_test::expect;
use tilewake_testbed::postgres::Server;

use crate::said::{Terminal, as_role, sql};

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_cannot_be_a_layer() {
    let database = Server::shared().database().await.unwrap();
    sql(
        &database,
        "CREATE TABLE keyless (id bigint, geom geometry(Point, 4326));
         CREATE TABLE two_keys (a int, b int, geom geometry(Point, 4326), PRIMARY KEY (a, b));
         CREATE TABLE floating (id float8 PRIMARY KEY, geom geometry(Point, 4326));
         CREATE TABLE nowhere (id bigint PRIMARY KEY, geom geometry);
         CREATE TABLE elsewhere (id bigint PRIMARY KEY, geom geometry);
         INSERT INTO elsewhere VALUES (1, ST_SetSRID(ST_Point(1, 1), 990000));
         CREATE TABLE round (id bigint PRIMARY KEY, geog geography(Point, 4326), name text);
         CREATE TABLE twice (id bigint PRIMARY KEY, a geometry(Point, 4326), b geometry(Point, 4326));
         CREATE VIEW looked_at AS SELECT * FROM twice;
         CREATE TABLE good (id bigint PRIMARY KEY, name text, geom geometry(Point, 4326));",
    )
    .await;
    Terminal::on(&database)
        .check(
            &[
                "migrate",
                "layer add roads --table missing",
                "layer add roads --table keyless",
                "layer add roads --table keyless --id id",
                "layer add roads --table two_keys",
                "layer add roads --table floating",
                "layer add roads --table nowhere",
                "layer add roads --table elsewhere",
                "layer add roads --table round",
                "layer add roads --table round --geometry geog",
                "layer add roads --table round --geometry name",
                "layer add roads --table twice",
                "layer add roads --table looked_at",
                "layer add roads --table good --columns nmae",
                "layer add roads --table good",
                "layer add roads --table twice --geometry a",
                "layer remove rivers",
                "layer remove roads",
            ],
            expect![[r#"
                $ tilewake migrate
                the schema tilewake is at this version
                = 0
                $ tilewake layer add roads --table missing
                error: there is no table missing: write it as in SQL, with its schema if that is not on the search path
                = 1
                $ tilewake layer add roads --table keyless
                error: "public"."keyless" has no primary key of one column: name a column that is unique and not null with --id
                = 1
                $ tilewake layer add roads --table keyless --id id
                error: id cannot be the key of "public"."keyless": nothing makes it unique: create a unique index or constraint on this column alone
                = 1
                $ tilewake layer add roads --table two_keys
                error: "public"."two_keys" has no primary key of one column: name a column that is unique and not null with --id
                = 1
                $ tilewake layer add roads --table floating
                error: id cannot be the key of "public"."floating": a key is an integer, a uuid or text
                = 1
                $ tilewake layer add roads --table nowhere
                error: geom of "public"."nowhere" has no SRID: say which one it is with ALTER TABLE "public"."nowhere" ALTER geom TYPE geometry(Geometry, 4326) USING ST_SetSRID(geom, 4326)
                = 1
                $ tilewake layer add roads --table elsewhere
                error: geom of "public"."elsewhere" has SRID 990000, which spatial_ref_sys does not know: insert its definition there, or correct the SRID with UpdateGeometrySRID
                = 1
                $ tilewake layer add roads --table round
                error: "public"."round" has 0 geometry columns: name the one that is drawn with --geometry
                = 1
                $ tilewake layer add roads --table round --geometry geog
                error: geog of "public"."round" is of type geography, not geometry: name a geometry column with --geometry, or change its type with ALTER TABLE … TYPE geometry(Geometry, 4326) USING …::geometry
                = 1
                $ tilewake layer add roads --table round --geometry name
                error: name of "public"."round" is of type text, not geometry: name a geometry column with --geometry
                = 1
                $ tilewake layer add roads --table twice
                error: "public"."twice" has 2 geometry columns: name the one that is drawn with --geometry
                = 1
                $ tilewake layer add roads --table looked_at
                error: "public"."looked_at" is a view: only tables have rows of their own to capture, so add the table behind it
                = 1
                $ tilewake layer add roads --table good --columns nmae
                error: "public"."good" has no column nmae: it has id, name, geom
                = 1
                $ tilewake layer add roads --table good
                layer roads captures "public"."good"
                = 0
                $ tilewake layer add roads --table twice --geometry a
                error: there is a layer roads already: choose another name, or remove it with tilewake layer remove roads
                = 1
                $ tilewake layer remove rivers
                error: there is no layer rivers: tilewake layer list shows those that there are
                = 1
                $ tilewake layer remove roads
                layer roads is no longer captured
                = 0
            "#]],
        )
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_from_which_rows_are_hidden() {
    // Of its own: roles are the server's, and may need a password on one that is given.
    let server = Server::private(&[]).unwrap();
    let database = server.database().await.unwrap();
    let terminal = Terminal::on(&database);
    sql(
        &database,
        "CREATE ROLE mapper LOGIN;
         CREATE TABLE secret (id bigint PRIMARY KEY, geom geometry(Point, 4326));
         CREATE TABLE open (id bigint PRIMARY KEY, geom geometry(Point, 4326));
         ALTER TABLE secret OWNER TO mapper;
         ALTER TABLE secret ENABLE ROW LEVEL SECURITY;
         ALTER TABLE secret FORCE ROW LEVEL SECURITY;",
    )
    .await;
    let mapper = Terminal::on(&database).with("DATABASE_URL", &as_role(&database, "mapper"));
    mapper
        .check(
            &["migrate"],
            expect![[r#"
        $ tilewake migrate
        error: role mapper may not create the schema tilewake: run GRANT CREATE ON DATABASE DATABASE TO mapper
        = 1
    "#]],
        )
        .await;
    terminal
        .check(
            &["migrate"],
            expect![[r#"
        $ tilewake migrate
        the schema tilewake is at this version
        = 0
    "#]],
        )
        .await;
    sql(
        &database,
        "GRANT ALL ON SCHEMA tilewake TO mapper; GRANT ALL ON ALL TABLES IN SCHEMA tilewake TO mapper",
    )
    .await;
    mapper
        .check(
            &["layer add secret --table secret", "layer add open --table open"],
            expect![[r#"
                $ tilewake layer add secret --table secret
                error: row-level security hides rows of "public"."secret" from mapper, so their edits would be taken for deletions: run ALTER ROLE mapper BYPASSRLS, or connect as the owner of the table
                = 1
                $ tilewake layer add open --table open
                error: "public"."open" belongs to postgres, and only its owner may make triggers that always fire: run GRANT postgres TO mapper
                = 1
            "#]],
        )
        .await;
    terminal
        .check(
            &["layer add secret --table secret"],
            expect![[r#"
            $ tilewake layer add secret --table secret
            layer secret captures "public"."secret"
            = 0
        "#]],
        )
        .await;
    mapper.check(&["run"], expect![[r#"
        $ tilewake run
        error: the features' database cannot be used: row-level security hides rows of layer secret from mapper: run ALTER ROLE mapper BYPASSRLS, or connect as another role
        = 1
    "#]]).await;
}
