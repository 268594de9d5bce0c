//! Small shapes and what they draw.
#![expect(
    clippy::needless_raw_string_hashes,
    reason = "the drawings are written by expect-test (UPDATE_EXPECT=1)"
)]

use expect_test::{Expect, expect};
use geo_types::{GeometryCollection, MultiLineString, MultiPoint, Point};

use super::*;

#[expect(clippy::needless_pass_by_value, reason = "reads better at every call")]
fn check(geometry: impl Into<Geometry<f64>>, expected: Expect) {
    expected.assert_eq(&drawing(geometry));
}

#[test]
fn a_triangle_inside_keeps_its_points() {
    check(
        polygon(&[(100, 100), (300, 100), (200, 300)], &[]),
        expect![[r#"
        area 100,100 300,100 200,300
    "#]],
    );
}

#[test]
fn an_area_is_cut_at_the_border() {
    check(
        polygon(&square(-500, 1000, 1000), &[]),
        expect![[r#"
        area 0,1000 500,1000 500,2000 0,2000
    "#]],
    );
}

#[test]
fn an_area_around_the_tile_fills_it() {
    check(
        polygon(&square(-5000, -5000, 20_000), &[]),
        expect![[r#"
        area 0,0 4096,0 4096,4096 0,4096
    "#]],
    );
}

#[test]
fn an_area_around_the_tile_fills_its_buffer() {
    let around = feature("1", polygon(&square(-5000, -5000, 20_000), &[]));
    let picture = draw(here(), Buffer::DEFAULT, [around]);
    expect![[r#"
        area -64,-64 4160,-64 4160,4160 -64,4160
    "#]]
    .assert_eq(&write_down(&picture));
}

#[test]
fn a_hole_around_the_tile_leaves_nothing() {
    check(
        polygon(&square(-9000, -9000, 30_000), &[&square(-5000, -5000, 20_000)]),
        expect![""],
    );
}

#[test]
fn an_area_with_the_border_as_an_edge_is_drawn_from_inside_only() {
    check(
        polygon(&square(0, 0, 500), &[]),
        expect![[r#"
        area 0,0 500,0 500,500 0,500
    "#]],
    );
    check(polygon(&square(-500, 0, 500), &[]), expect![""]);
    check(
        polygon(&square(0, 0, 4096), &[]),
        expect![[r#"
        area 0,0 4096,0 4096,4096 0,4096
    "#]],
    );
    check(polygon(&square(-500, -500, 500), &[]), expect![""]);
}

#[test]
fn a_corner_is_cut_off_and_kept() {
    check(polygon(&[(-100, 100), (100, -100), (-100, -100)], &[]), expect![""]);
    check(
        polygon(&[(-100, 100), (100, -100), (5000, 5000)], &[]),
        expect![[r#"
        area 0,0 196,0 4096,4059 4096,4096 4059,4096 0,196
    "#]],
    );
}

#[test]
fn an_edge_that_leaves_within_half_a_unit_of_a_corner_draws_along_the_border() {
    check(polygon(&[(-2, 3000), (1, -750), (-1000, -2)], &[]), expect![""]);
    check(
        polygon(&[(-2, 3000), (1, -750), (3000, 3000)], &[]),
        expect![[r#"
            area 0,0 601,0 3000,3000 0,3000
        "#]],
    );
}

#[test]
fn spikes_and_flat_rings_are_not_drawn() {
    check(
        polygon(
            &[(100, 100), (300, 100), (900, 100), (300, 100), (300, 300), (100, 300)],
            &[],
        ),
        expect![[r#"
            area 100,100 300,100 300,300 100,300
        "#]],
    );
    check(polygon(&[(100, 100), (300, 100), (200, 100)], &[]), expect![""]);
    check(polygon(&[], &[]), expect![""]);
}

#[test]
fn parts_that_share_an_edge_are_merged() {
    check(
        MultiPolygon(vec![
            polygon(&square(100, 100, 100), &[]),
            polygon(&square(200, 100, 100), &[]),
        ]),
        expect![[r#"
            area 100,100 200,100 300,100 300,200 200,200 100,200
        "#]],
    );
}

#[test]
fn parts_that_meet_in_a_point_stay_apart() {
    check(
        MultiPolygon(vec![
            polygon(&square(100, 100, 100), &[]),
            polygon(&square(200, 200, 100), &[]),
        ]),
        expect![[r#"
            area 100,100 200,100 200,200 100,200
            area 200,200 300,200 300,300 200,300
        "#]],
    );
}

#[test]
fn a_ring_that_touches_itself_becomes_a_shell_and_a_hole() {
    check(
        polygon(
            &[
                (0, 0),
                (1000, 0),
                (500, 200),
                (300, 400),
                (700, 400),
                (500, 200),
                (1000, 0),
                (1000, 1000),
                (0, 1000),
            ],
            &[],
        ),
        expect![[r#"
            area 0,0 1000,0 1000,1000 0,1000
              hole 300,400 700,400 500,200
        "#]],
    );
}

#[test]
fn holes_that_meet_in_a_point_stay_apart() {
    check(
        polygon(
            &square(100, 100, 1000),
            &[&square(200, 200, 100), &square(300, 300, 100)],
        ),
        expect![[r#"
            area 100,100 1100,100 1100,1100 100,1100
              hole 200,200 200,300 300,300 300,200
              hole 300,300 300,400 400,400 400,300
        "#]],
    );
}

#[test]
fn a_hole_that_touches_the_border_stays_a_hole() {
    check(
        polygon(&square(-100, -100, 9000), &[&[(0, 500), (300, 400), (300, 600)]]),
        expect![[r#"
            area 0,0 4096,0 4096,4096 0,4096 0,500
              hole 0,500 300,600 300,400
        "#]],
    );
}

#[test]
fn a_shell_pinched_at_the_border_falls_apart() {
    check(
        polygon(&[(-100, 100), (500, 100), (0, 500), (500, 900), (-100, 900)], &[]),
        expect![[r#"
            area 0,100 500,100 0,500
            area 0,500 500,900 0,900
        "#]],
    );
}

#[test]
fn a_hole_outside_its_shell_is_an_area_of_its_own() {
    check(
        polygon(&square(100, 100, 100), &[&square(500, 500, 100)]),
        expect![[r#"
        area 100,100 200,100 200,200 100,200
        area 500,500 600,500 600,600 500,600
    "#]],
    );
}

#[test]
fn an_island_in_a_hole_is_an_area_with_its_own_hole() {
    check(
        MultiPolygon(vec![
            polygon(&square(0, 0, 1000), &[&square(100, 100, 800)]),
            polygon(&square(200, 200, 600), &[&square(300, 300, 100)]),
        ]),
        expect![[r#"
            area 0,0 1000,0 1000,1000 0,1000
              hole 100,100 100,900 900,900 900,100
            area 200,200 800,200 800,800 200,800
              hole 300,300 300,400 400,400 400,300
        "#]],
    );
}

#[test]
fn overlapping_parts_cover_the_tile_as_often_as_there_are_parts() {
    check(
        MultiPolygon(vec![
            polygon(&square(-100, -100, 9000), &[]),
            polygon(&square(-200, -200, 9000), &[]),
            polygon(&square(2000, -200, 9000), &[]),
        ]),
        expect![[r#"
            area 0,0 2000,0 4096,0 4096,4096 0,4096
            area 0,0 4096,0 4096,4096 2000,4096 0,4096
            area 2000,0 4096,0 4096,4096 2000,4096
        "#]],
    );
}

#[test]
fn a_line_ends_where_it_leaves_and_starts_where_it_comes_back() {
    check(
        line(&[(1000, 1000), (5000, 1000), (5000, 2000), (1000, 2000), (1000, 2100)]),
        expect![[r#"
            line 1000,1000 4096,1000
            line 4096,2000 1000,2000 1000,2100
        "#]],
    );
}

#[test]
fn a_line_along_the_border_or_through_a_vertex_on_it_is_one_path() {
    check(
        line(&[(100, 0), (200, 0), (300, 100)]),
        expect![[r#"
        line 100,0 200,0 300,100
    "#]],
    );
    check(
        line(&[(100, 100), (200, 0), (300, 100)]),
        expect![[r#"
        line 100,100 200,0 300,100
    "#]],
    );
}

#[test]
fn a_line_keeps_its_direction_and_its_spikes() {
    check(
        line(&[(300, 100), (100, 100)]),
        expect![[r#"
        line 300,100 100,100
    "#]],
    );
    check(
        line(&[(100, 100), (300, 100), (100, 100)]),
        expect![[r#"
        line 100,100 300,100 100,100
    "#]],
    );
}

#[test]
fn a_line_that_only_touches_a_corner_or_is_one_point_is_not_drawn() {
    check(line(&[(-100, 100), (100, -100)]), expect![""]);
    check(line(&[(100, 100), (100, 100)]), expect![""]);
    check(line(&[(100, 100)]), expect![""]);
}

#[test]
fn points_on_the_closed_border_are_drawn_in_order_and_once() {
    let points = [(4096, 0), (0, 0), (0, 4096), (4097, 0), (-1, 7), (7, 7), (7, 7)];
    let points: Vec<Point<f64>> = points.iter().map(|p| lonlat(here(), *p).into()).collect();
    check(
        MultiPoint(points),
        expect![[r#"
        point 0,0
        point 0,4096
        point 7,7
        point 4096,0
    "#]],
    );
}

#[test]
fn a_collection_draws_all_its_kinds() {
    let inner = Geometry::GeometryCollection(GeometryCollection(vec![
        Geometry::MultiLineString(MultiLineString(vec![line(&[(5, 5), (9, 9)]), line(&[(1, 1), (5, 5)])])),
        Point(lonlat(here(), (3, 3))).into(),
    ]));
    check(
        Geometry::GeometryCollection(GeometryCollection(vec![polygon(&square(0, 0, 10), &[]).into(), inner])),
        expect![[r#"
            area 0,0 10,0 10,10 0,10
            line 1,1 5,5
            line 5,5 9,9
            point 3,3
        "#]],
    );
}

fn lonlats(points: &[(f64, f64)]) -> LineString<f64> {
    points.iter().map(|&(x, y)| Coord { x, y }).collect()
}

fn at(z: u8, x: u32, y: u32, geometry: impl Into<Geometry<f64>>) -> String {
    let tile = TileId::new(z, x, y).unwrap();
    write_down(&draw(tile, Buffer::DEFAULT, [feature("1", geometry)]))
}

#[test]
fn the_buffer_of_the_outermost_columns_wraps() {
    let unit = 360.0 / 16_384.0;
    let (west, east) = (
        Point::new(-180.0 + 10.0 * unit, 0.0),
        Point::new(180.0 - 10.0 * unit, 0.0),
    );
    expect![[r#"
        point 10,4096
    "#]]
    .assert_eq(&at(2, 0, 1, west));
    expect![[r#"
        point 4106,4096
    "#]]
    .assert_eq(&at(2, 3, 1, west));
    expect![[r#"
        point -10,4096
    "#]]
    .assert_eq(&at(2, 0, 1, east));
    expect![[r#"
        point 4086,4096
    "#]]
    .assert_eq(&at(2, 3, 1, east));
    expect![""].assert_eq(&at(2, 1, 1, east));
}

#[test]
fn the_antimeridian_is_a_border_of_both_sides() {
    let on_it = Point::new(180.0, 0.0);
    expect![[r#"
        point 0,4096
    "#]]
    .assert_eq(&at(1, 0, 0, on_it));
    expect![[r#"
        point 4096,4096
    "#]]
    .assert_eq(&at(1, 1, 0, on_it));
    expect![[r#"
        point 0,2048
        point 4096,2048
    "#]]
    .assert_eq(&at(0, 0, 0, on_it));
}

#[test]
fn a_shape_beyond_180_is_drawn_on_both_sides() {
    let across = lonlats(&[(170.0, 10.0), (190.0, 10.0)]);
    expect![[r#"
        line 3868,3867 4160,3867
    "#]]
    .assert_eq(&at(1, 1, 0, across.clone()));
    expect![[r#"
        line -64,3867 228,3867
    "#]]
    .assert_eq(&at(1, 0, 0, across));
    let a_world_away = Point::new(-180.0 + 360.0 + 90.0, 0.0);
    expect![[r#"
        point 2048,4096
    "#]]
    .assert_eq(&at(1, 0, 0, a_world_away));
    expect![""].assert_eq(&at(1, 1, 0, a_world_away));
}

#[test]
fn an_area_up_to_the_poles_fills_the_last_row_and_its_buffer() {
    let cap = LonLatPolygon::new(
        lonlats(&[(-180.0, 0.0), (180.0, 0.0), (180.0, 90.0), (-180.0, 90.0)]),
        vec![],
    );
    expect![[r#"
        area -64,-64 4160,-64 4160,4160 -64,4160
    "#]]
    .assert_eq(&at(3, 2, 0, cap.clone()));
    expect![[r#"
        area -64,-64 4160,-64 4160,0 -64,0
    "#]]
    .assert_eq(&at(3, 2, 4, cap));
}

#[test]
fn the_deepest_zoom_draws_an_edge_across_the_world() {
    let across = lonlats(&[(-180.0, -90.0), (180.0, 90.0)]);
    let middle = 1 << 27;
    expect![[r#"
        line -64,775 5,-64
    "#]]
    .assert_eq(&at(28, middle, middle, across));
}

#[test]
fn a_feature_that_does_not_pass_the_door_is_left_out() {
    for wrong in [f64::NAN, f64::INFINITY, 2000.0] {
        let geometry: Geometry<f64> = lonlats(&[(0.0, 0.0), (wrong, 0.0)]).into();
        assert!(crate::edges::check(&geometry).is_err());
        let dot: Geometry<f64> = Point::new(0.0, 0.0).into();
        let world = TileId::new(0, 0, 0).unwrap();
        let picture = draw(world, Buffer::DEFAULT, [feature("1", geometry), feature("2", dot)]);
        assert_eq!(picture.features().len(), 1);
    }
}

#[test]
fn the_farthest_coordinates_are_drawn_without_harm() {
    let far = [-1800.0, -181.0, -180.0, -90.0, 0.0, 90.0, 180.0, 1800.0];
    for (i, x) in far.iter().enumerate() {
        for (j, y) in far[1..7].iter().enumerate() {
            let corners = [(*x, *y), (far[(i + 3) % 8], far[1 + (j + 2) % 6]), (-x, -y), (0.0, 1.0)];
            for z in [0, 14, 28] {
                let shapes = [
                    feature("1", LonLatPolygon::new(lonlats(&corners), vec![])),
                    feature("2", lonlats(&corners)),
                ];
                let tile = TileId::new(z, 0, 0).unwrap();
                let _ = draw(tile, Buffer::new(1.0).unwrap(), shapes);
            }
        }
    }
}

#[test]
fn a_point_five_worlds_away_is_drawn_where_it_is_in_this_one() {
    expect![[r#"
        point 2048,4096
    "#]]
    .assert_eq(&at(1, 1, 0, Point::new(-1800.0 + 90.0, 0.0)));
    expect![[r#"
        point 4096,4096
    "#]]
    .assert_eq(&at(1, 0, 0, Point::new(1800.0, 0.0)));
}

#[test]
fn features_are_drawn_in_the_order_of_their_ids_numbers_first() {
    let dot = |id: &str| feature(id, Point(lonlat(here(), (3, 3))));
    let picture = draw(here(), no_buffer(), ["b", "10", "a", "9", "007", "-1"].map(dot));
    let ids: Vec<&str> = picture.features().iter().map(|f| f.id.as_str()).collect();
    assert_eq!(ids, ["9", "10", "-1", "007", "a", "b"]);
}

#[test]
fn an_attribute_told_twice_is_drawn_once() {
    let mut dot = feature("1", Point(lonlat(here(), (3, 3))));
    let said = |value| (Arc::from("name"), Value::Int(value));
    dot.attributes = vec![said(1), (Arc::from("other"), Value::Bool(true)), said(2)];
    let picture = draw(here(), no_buffer(), [dot]);
    assert_eq!(
        picture.features()[0].attributes,
        [said(1), (Arc::from("other"), Value::Bool(true))]
    );
}

/// A comb of many teeth through the border, over many areas that cover the tile: what closes it along the border must
/// not grow with the product of the two.
#[test]
fn many_covers_and_many_crossings_stay_bounded() {
    let n = 2000;
    let mut comb = vec![];
    for tooth in 0..n {
        comb.extend([(2 * tooth, -10), (2 * tooth + 1, 10)]);
    }
    comb.extend([(2 * n, -10), (2 * n, -20), (0, -20)]);
    let mut parts = vec![polygon(&comb, &[])];
    parts.extend((0..n).map(|i| polygon(&square(-100 - i, -100 - i, 20_000), &[])));
    let picture = draw(here(), no_buffer(), [feature("1", MultiPolygon(parts))]);
    let drawn = &picture.features()[0].areas;
    let n_points: usize = drawn
        .iter()
        .map(|p| p.exterior.len() + p.holes.iter().map(Vec::len).sum::<usize>())
        .sum();
    assert!(n_points < 20 * usize::try_from(n).unwrap(), "{n_points}");
}
