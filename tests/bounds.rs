//! I5 for geometry: where a shape is too large, too deep or wrong, the answer is rounded outwards, and never misses a
//! tile.

#![expect(clippy::unwrap_used, reason = "the settings are known to be right")]

mod shapes;

use std::mem;

use geo_types::{Coord, Geometry, GeometryCollection, LineString, Point, coord};
use tilewake_core::{
    cover::CoverLimits,
    edges::{InvalidGeometry, check},
    event::Changed,
    layer::{Policy, Zooms},
    staleness::{footprint, footprints, stale_tiles},
    tile::first_id,
    tile_set::TileSet,
};

use shapes::large::{POLICIES, globe_line, half_the_world, settings, shape, tile_at};

#[test]
fn an_answer_within_limits_holds_the_exact_one() {
    let settings = settings("0-12", Policy::Footprint);
    for shape in [shape(half_the_world()), shape(globe_line())] {
        let exact = footprint(&shape, &settings, CoverLimits::UNLIMITED);
        for max_ranges in [0, 1, 13, 50, 400, 5000] {
            let rounded = footprints([&shape], &settings, CoverLimits { max_ranges });
            // At worst one range a zoom.
            assert!(rounded.tiles.ranges().len() <= max_ranges.max(13));
            assert!(exact.difference(&rounded.tiles).is_empty());
            let from = rounded.rounded_from.map_or(first_id(13), first_id);
            let below = |tiles: &TileSet| tiles.intersection(&TileSet::from_ranges([0..from]));
            assert_eq!(
                below(&exact),
                below(&rounded.tiles),
                "exact above the first rounded zoom"
            );
        }
    }
}

#[test]
fn what_cannot_be_drawn_may_be_anywhere() {
    let at = |x, y| Geometry::Point(Point::new(x, y));
    assert!(matches!(check(&at(f64::NAN, 0.0)), Err(InvalidGeometry::NotFinite(..))));
    for geometry in [
        at(f64::NAN, 0.0),
        at(0.0, f64::INFINITY),
        at(1e300, 0.0),
        at(0.0, -1e9),
        nested(40),
    ] {
        assert!(check(&geometry).is_err(), "{geometry:?}");
        for policy in POLICIES {
            let settings = settings("0-22", policy);
            let tiles = stale_tiles(
                &shape(at(1.0, 1.0)),
                &shape(geometry.clone()),
                Changed::Geometry,
                &settings,
                CoverLimits::default(),
            );
            assert_eq!(tiles, TileSet::everything(Zooms::new(0, 22).unwrap()));
        }
    }
    assert!(check(&nested(20)).is_ok());
}

#[test]
fn nesting_without_end_is_refused_without_recursion() {
    let geometry = nested(200_000);
    assert_eq!(check(&geometry), Err(InvalidGeometry::Nested));
    // Dropping it would recurse.
    mem::forget(geometry);
}

fn nested(depth: usize) -> Geometry<f64> {
    let point = Geometry::Point(Point(Coord::zero()));
    (0..depth).fold(point, |inner, _| {
        Geometry::GeometryCollection(GeometryCollection(vec![inner]))
    })
}

#[test]
fn a_dense_tangle_is_rounded_rather_than_followed() {
    let n = 3000;
    let tangle: LineString<f64> = (0..n)
        .map(|i| coord! { x: if i % 2 == 0 { -170.0 } else { 170.0 }, y: f64::from(i) * 0.05 - 75.0 })
        .collect();
    let limits = CoverLimits { max_ranges: 1000 };
    let tiles = footprint(&shape(tangle), &settings("0-22", Policy::Footprint), limits);
    assert!(tiles.ranges().len() <= 1000);
    assert!(tiles.contains(tile_at(0.0, 0.0, 22)));
}
