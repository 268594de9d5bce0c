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
