//! Whatever geometry `PostGIS` accepts, the writer goes on, and box and route point say where it is.

use expect_test::{Expect, expect};
use sqlx::Row;

use crate::world::World;

/// Inserts rows into a table whose geometry is of type `column`, then shows box and route point of each.
async fn check(column: &str, geometries: &[&str], places: Expect) {
    let world = World::new(&format!("CREATE TABLE t (id serial PRIMARY KEY, geom {column});")).await;
    let typmod = column.contains(',');
    if !typmod {
        world.run("INSERT INTO t (geom) VALUES ('SRID=4326;POINT(1 1)');").await;
    }
    world.add("t").await;
    for geometry in geometries {
        world.run(&format!("INSERT INTO t (geom) VALUES ({geometry});")).await;
    }
    let rows = sqlx::query(
        "SELECT coalesce((SELECT string_agg(round(c::numeric, 3)::text, ' ') FROM unnest(ARRAY[
                    (after_box[1])[0], (after_box[1])[1], (after_box[0])[0], (after_box[0])[1]]) c
                    WHERE after_box IS NOT NULL), 'nowhere') AS box,
                coalesce((SELECT string_agg(round(c::numeric, 3)::text, ' ') FROM unnest(ARRAY[
                    route_point[0], route_point[1]]) c WHERE route_point IS NOT NULL), 'no point') AS point
         FROM tilewake.outbox WHERE feature_version > 0 ORDER BY id",
    )
    .fetch_all(&world.pool)
    .await
    .unwrap();
    assert_eq!(rows.len(), geometries.len());
    let lines = rows
        .iter()
        .map(|row| format!("{} | {}\n", row.get::<String, _>("box"), row.get::<String, _>("point")));
    places.assert_eq(&lines.collect::<String>());
}

#[tokio::test]
async fn what_is_nowhere_has_no_box() {
    check(
        "geometry(Geometry, 4326)",
        &[
            "NULL",
            "'SRID=4326;POINT EMPTY'",
            "'SRID=4326;GEOMETRYCOLLECTION(POINT EMPTY, LINESTRING EMPTY)'",
        ],
        expect![[r"
            nowhere | no point
            nowhere | no point
            nowhere | no point
        "]],
    )
    .await;
}

#[tokio::test]
async fn coordinates_off_the_globe_are_everywhere() {
    check(
        "geometry(Geometry, 4326)",
        &[
            "'SRID=4326;POINT(5 90.5)'",
            "'SRID=4326;POINT(1e30 5)'",
            "ST_SetSRID(ST_MakePoint('NaN', 5), 4326)",
            "ST_SetSRID(ST_MakePoint('Infinity', 5), 4326)",
            "ST_SetSRID(ST_MakeLine(ST_MakePoint(1, 1), ST_MakePoint(2, 'Infinity')), 4326)",
            // These are on it.
            "'SRID=4326;POINT(5 90)'",
            "'SRID=4326;LINESTRING(179 1, 181 2)'",
        ],
        expect![[r"
            -180.000 -90.000 180.000 90.000 | no point
            -180.000 -90.000 180.000 90.000 | no point
            -180.000 -90.000 180.000 90.000 | no point
            -180.000 -90.000 180.000 90.000 | no point
            -180.000 -90.000 180.000 90.000 | 1.000 1.000
            5.000 90.000 5.000 90.000 | 5.000 90.000
            179.000 1.000 181.000 2.000 | 179.000 1.000
        "]],
    )
    .await;
}

#[tokio::test]
async fn every_kind_of_geometry_has_a_box() {
    check(
        "geometry(GeometryZM, 4326)",
        &[
            "'SRID=4326;CIRCULARSTRING ZM(0 0 0 0, 1 1 0 0, 2 0 0 0)'",
            "'SRID=4326;CURVEPOLYGON ZM(CIRCULARSTRING ZM(0 0 0 0, 1 1 0 0, 2 0 0 0, 1 -1 0 0, 0 0 0 0))'",
            "'SRID=4326;COMPOUNDCURVE ZM((0 0 0 0, 1 0 0 0), CIRCULARSTRING ZM(1 0 0 0, 2 1 0 0, 3 0 0 0))'",
            "'SRID=4326;TIN ZM(((0 0 0 0, 0 1 0 0, 1 1 0 0, 0 0 0 0)))'",
            "'SRID=4326;POLYHEDRALSURFACE ZM(((0 0 0 0, 0 1 0 0, 1 1 0 0, 0 0 0 0)))'",
            "'SRID=4326;TRIANGLE ZM((0 0 0 0, 0 1 0 0, 1 1 0 0, 0 0 0 0))'",
            "'SRID=4326;MULTIPOINT ZM(1 1 5 5, 3 3 5 5)'",
            "'SRID=4326;GEOMETRYCOLLECTION ZM(POINT ZM(1 1 0 0), GEOMETRYCOLLECTION ZM(LINESTRING ZM(2 2 0 0, 3 3 0 0)))'",
            // A bow tie, and a polygon of no area.
            "ST_Force4D('SRID=4326;POLYGON((0 0, 2 2, 2 0, 0 2, 0 0))'::geometry)",
            "ST_Force4D('SRID=4326;POLYGON((0 0, 2 2, 0 0, 0 0))'::geometry)",
        ],
        expect![[r"
            0.000 0.000 2.000 1.000 | 1.000 1.000
            0.000 -1.000 2.000 1.000 | 1.000 0.025
            0.000 0.000 3.000 1.000 | 1.404 0.803
            0.000 0.000 1.000 1.000 | 0.250 0.500
            0.000 0.000 1.000 1.000 | no point
            0.000 0.000 1.000 1.000 | 0.250 0.500
            1.000 1.000 3.000 3.000 | 1.000 1.000
            1.000 1.000 3.000 3.000 | 2.000 2.000
            0.000 0.000 2.000 2.000 | 0.500 1.000
            0.000 0.000 2.000 2.000 | 0.000 0.000
        "]],
    )
    .await;
}

#[tokio::test]
async fn mercator_tables_are_unprojected() {
    check(
        "geometry(Geometry, 3857)",
        &[
            "ST_Transform('SRID=4326;POINT(24.94 60.17)'::geometry, 3857)",
            "'SRID=3857;LINESTRING(-20037508.342789244 -20037508.342789244, 20037508.342789244 20037508.342789244)'",
            "'SRID=3857;POINT(0 1e8)'",
            "'SRID=3857;POINT(1e12 0)'",
            "'SRID=3857;POINT(0 1e300)'",
            "ST_SetSRID(ST_MakePoint('NaN', 5), 3857)",
            "'SRID=3857;POINT EMPTY'",
        ],
        expect![[r"
            24.940 60.170 24.940 60.170 | 24.940 60.170
            -180.000 -85.051 180.000 85.051 | -180.000 -85.051
            0.000 90.000 0.000 90.000 | 0.000 90.000
            -180.000 -90.000 180.000 90.000 | no point
            -180.000 -90.000 180.000 90.000 | no point
            -180.000 -90.000 180.000 90.000 | no point
            nowhere | no point
        "]],
    )
    .await;
}

#[tokio::test]
async fn other_systems_are_transformed_or_everywhere() {
    check(
        "geometry(Geometry, 3067)",
        &[
            "ST_Transform('SRID=4326;POLYGON((24 60, 25 60, 25 61, 24 61, 24 60))'::geometry, 3067)",
            // Beyond the projection's domain.
            "'SRID=3067;POINT(1e15 1e15)'",
            "ST_SetSRID(ST_MakePoint('NaN', 5), 3067)",
        ],
        expect![[r"
            24.000 60.000 25.000 61.000 | 24.500 60.501
            -180.000 -90.000 180.000 90.000 | no point
            -180.000 -90.000 180.000 90.000 | no point
        "]],
    )
    .await;
}

#[tokio::test]
async fn a_column_without_an_srid_may_hold_any() {
    check(
        "geometry",
        &[
            "'SRID=4326;POINT(2 2)'",
            "ST_Transform('SRID=4326;POINT(24.94 60.17)'::geometry, 3067)",
            "'POINT(3 3)'",
            "'SRID=999888;POINT(3 3)'",
        ],
        expect![[r"
            2.000 2.000 2.000 2.000 | 2.000 2.000
            24.940 60.170 24.940 60.170 | 24.940 60.170
            -180.000 -90.000 180.000 90.000 | no point
            -180.000 -90.000 180.000 90.000 | no point
        "]],
    )
    .await;
}

/// Not the centre of the box, which may be far from the feature, in a cell whose consumer has nothing to do with it.
#[tokio::test]
async fn the_route_point_lies_on_the_geometry() {
    let world = World::new("CREATE TABLE t (id serial PRIMARY KEY, geom geometry(Geometry, 4326));").await;
    world.add("t").await;
    world
        .run(
            "INSERT INTO t (geom) VALUES
                 -- a crescent
                 (ST_Difference(ST_Buffer('SRID=4326;POINT(20 60)', 5), ST_Buffer('SRID=4326;POINT(22 60)', 5))),
                 ('SRID=4326;MULTIPOLYGON(((0 0, 1 0, 1 1, 0 0)), ((50 50, 51 50, 51 51, 50 50)))'),
                 ('SRID=4326;LINESTRING(0 0, 0 10, 10 10)'),
                 ('SRID=4326;MULTIPOINT(0 0, 10 10)'),
                 ('SRID=4326;GEOMETRYCOLLECTION(POINT(1 1), POLYGON((20 20, 21 20, 21 21, 20 20)))'),
                 ('SRID=4326;POLYGON((0 0, 10 0, 10 10, 0 10, 0 0), (1 1, 9 1, 9 9, 1 9, 1 1))');",
        )
        .await;
    let n_off: i64 = world
        .value(
            "SELECT count(*) FROM tilewake.outbox o JOIN t ON t.id::text = o.feature_id
             WHERE ST_Distance(t.geom, ST_SetSRID(ST_Point(o.route_point[0], o.route_point[1]), 4326)) > 1e-9
                 OR o.route_point IS NULL",
        )
        .await;
    assert_eq!(n_off, 0);
    let n_centres_off: i64 = world
        .value("SELECT count(*) FROM t WHERE NOT ST_Intersects(geom, ST_Centroid(ST_Envelope(geom)))")
        .await;
    assert!(
        n_centres_off >= 4,
        "these geometries would not tell a point on the surface from a centre"
    );
}

#[tokio::test]
async fn the_point_that_was_left_stands_only_where_one_was_left() {
    let world = World::with_points("(1, 'a', 'SRID=4326;POINT(1 1)')").await;
    world
        .run(
            "UPDATE t SET name = 'b';
             UPDATE t SET geom = 'SRID=4326;POINT(1.0000000001 1)';
             UPDATE t SET geom = NULL;
             UPDATE t SET geom = 'SRID=4326;POINT(2 2)';
             DELETE FROM t;",
        )
        .await;
    let points: Vec<String> = sqlx::query_scalar(
        "SELECT format('%s from %s', route_point, previous_route_point) FROM tilewake.outbox
         WHERE feature_version > 0 ORDER BY id",
    )
    .fetch_all(&world.pool)
    .await
    .unwrap();
    assert_eq!(
        points,
        [
            "(1,1) from ",
            "(1.0000000001,1) from (1,1)",
            "(1.0000000001,1) from ",
            "(2,2) from ",
            "(2,2) from "
        ]
    );
}

/// I1 rests on it: what the geometry draws lies in its box, in every system.
#[tokio::test]
async fn a_box_holds_what_the_transformed_geometry_draws() {
    for srid in [4326, 3857, 3067, 32635, 3035] {
        let world = World::new(&format!(
            "CREATE TABLE t (id serial PRIMARY KEY, geom geometry(Polygon, {srid}));"
        ))
        .await;
        world.add("t").await;
        world
            .run(&format!(
                "SELECT setseed(0.5);
                 INSERT INTO t (geom) SELECT ST_Transform(ST_SetSRID(ST_Buffer(ST_Point(20 + 10 * random(), 58 + 10 * random()),
                     random()), 4326), {srid}) FROM generate_series(1, 200);"
            ))
            .await;
        let n_outside: i64 = world
            .value(
                "SELECT count(*) FROM t JOIN tilewake.outbox o ON t.id::text = o.feature_id,
                    LATERAL ST_DumpPoints(ST_Transform(t.geom, 4326)) p
                 WHERE ST_X(p.geom) NOT BETWEEN (after_box[1])[0] AND (after_box[0])[0]
                    OR ST_Y(p.geom) NOT BETWEEN (after_box[1])[1] AND (after_box[0])[1]",
            )
            .await;
        assert_eq!(n_outside, 0, "SRID {srid}");
        let n: i64 = world
            .value("SELECT count(*) FROM tilewake.outbox WHERE after_box <@ box '(32,70),(18,56)'")
            .await;
        assert_eq!(n, 200, "SRID {srid}");
    }
}
