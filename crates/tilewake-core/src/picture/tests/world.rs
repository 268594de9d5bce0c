//! Shapes at the edges of the world, and beyond them.
#![expect(
    clippy::needless_raw_string_hashes,
    reason = "the drawings are written by expect-test (UPDATE_EXPECT=1)"
)]

use expect_test::expect;
use geo_types::Point;

use super::*;

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
