//! I1 where the two halves of the core meet: whatever tile the renderer draws a shape in, the shape's footprint holds it,
//! and whatever tile it draws differently after an edit, the policy calls stale.

use std::sync::Arc;

use geo_types::{Coord, Geometry, LineString, MultiPoint, MultiPolygon, Polygon};
use proptest::{collection::vec, prelude::*, sample::select};
use tilewake_core::{
    cover::CoverLimits,
    event::Changed,
    feature::{FeatureId, Shape},
    layer::{Beyond180, Buffer, LayerSettings, Policy, Zooms},
    picture::{FeatureToDraw, Picture, draw},
    staleness::{footprint, stale_tiles},
    tile::{TileId, first_id},
};

const DEEPEST: u8 = 4;

fn coordinate() -> impl Strategy<Value = Coord<f64>> {
    // Corners of tiles, half a unit beside them, the ends of the world and what lies beyond, anything.
    let unit = 360.0 / f64::from(4096u32 << DEEPEST);
    let edges = vec![-181.0, -180.0, -90.0, -22.5, 0.0, 45.0, 180.0, 200.0, 541.0];
    let beside = select(vec![-66.0, -64.5, -1.0, -0.5, 0.0, 0.49, 0.5, 64.0, 64.49, 64.51]);
    let lon = prop_oneof![
        (select(edges), beside).prop_map(move |(edge, n)| edge + n * unit),
        -200.0..200.0f64
    ];
    let lat = prop_oneof![
        select(vec![
            -90.0,
            -85.051_128_779_806_6,
            0.0,
            66.513_260_443_111_86,
            85.051_128_779_806_6,
            90.0
        ]),
        -90.0..90.0f64
    ];
    (lon, lat).prop_map(|(x, y)| Coord { x, y })
}

fn shape() -> impl Strategy<Value = Geometry<f64>> {
    prop_oneof![
        coordinate().prop_map(|c| Geometry::Point(c.into())),
        vec(coordinate(), 1..5).prop_map(|c| MultiPoint(c.into_iter().map(Into::into).collect()).into()),
        vec(coordinate(), 2..6).prop_map(|c| LineString(c).into()),
        vec(coordinate(), 3..7).prop_map(|c| Polygon::new(LineString(c), vec![]).into()),
        vec(vec(coordinate(), 3..5), 2..4).prop_map(|parts| {
            let part = |c| Polygon::new(LineString(c), vec![]);
            MultiPolygon(parts.into_iter().map(part).collect()).into()
        }),
        (vec(coordinate(), 3..5), vec(coordinate(), 3..5)).prop_map(|(shell, hole)| Polygon::new(
            LineString(shell),
            vec![LineString(hole)]
        )
        .into()),
    ]
}

/// The shape with one corner moved a little, or far, or with everything told in another order.
fn edited(geometry: &Geometry<f64>, nth: usize, by: (f64, f64), turn: bool) -> Geometry<f64> {
    let line = |line: &LineString<f64>| {
        let mut coords = line.0.clone();
        let n_coords = coords.len();
        if let Some(c) = coords.get_mut(nth % n_coords.max(1)) {
            *c = Coord {
                x: c.x + by.0,
                y: (c.y + by.1).clamp(-90.0, 90.0),
            };
        }
        if turn {
            coords.reverse();
        }
        LineString(coords)
    };
    match geometry {
        Geometry::LineString(l) => line(l).into(),
        Geometry::Polygon(p) if nth % 2 == 1 && !p.interiors().is_empty() => {
            Polygon::new(p.exterior().clone(), p.interiors().iter().map(line).collect()).into()
        }
        Geometry::Polygon(p) => Polygon::new(line(p.exterior()), p.interiors().to_vec()).into(),
        Geometry::MultiPolygon(parts) => {
            let mut parts = parts.clone();
            let n_parts = parts.0.len();
            let part = &mut parts.0[nth % n_parts];
            *part = Polygon::new(line(part.exterior()), part.interiors().to_vec());
            if turn {
                parts.0.reverse();
            }
            parts.into()
        }
        other => other.clone(),
    }
}

fn picture(tile: TileId, buffer: Buffer, geometry: &Arc<Geometry<f64>>) -> Picture {
    let feature = FeatureToDraw {
        id: FeatureId::new("1"),
        geometry: geometry.clone(),
        attributes: vec![],
    };
    draw(tile, buffer, [feature])
}

proptest! {
    #[test]
    fn a_tile_that_shows_a_shape_is_in_its_footprint(
        geometry in shape(), buffer in select(vec![0.0, 64.0 / 4096.0, 0.3, 1.0]),
        beyond_180 in select(vec![Beyond180::Both, Beyond180::Shifted]),
    ) {
        let geometry = Arc::new(geometry);
        let buffer = Buffer::new(buffer).unwrap();
        let zooms = Zooms::new(0, DEEPEST).unwrap();
        let settings = LayerSettings { zooms, buffer, policy: Policy::Footprint, beyond_180 };
        let footprint = footprint(&Shape::Geometry(geometry.clone()), &settings, CoverLimits::default());
        for tile in (0..first_id(DEEPEST + 1)).filter_map(TileId::from_pmtiles_id) {
            let picture = picture(tile, buffer, &geometry);
            prop_assert!(picture.is_empty() || footprint.contains(tile), "{} shows {:?}", tile, picture);
        }
    }

    #[test]
    fn a_tile_that_looks_different_after_an_edit_is_stale_by_every_policy(
        before in shape(), other in shape(), nth in 0..9usize, turn in any::<bool>(), is_replaced in prop::bool::weighted(0.2),
        by in (select(vec![-0.01, 0.0, 0.001, 0.003, 1.0, 180.0, 360.0]), select(vec![-30.0, -0.002, 0.0, 0.001, 1.0])),
        buffer in select(vec![0.0, 64.0 / 4096.0, 0.3]), policy in select(vec![Policy::Footprint, Policy::Change, Policy::Pixel]),
    ) {
        let after = if is_replaced { other } else { edited(&before, nth, by, turn) };
        let (before, after) = (Arc::new(before), Arc::new(after));
        let buffer = Buffer::new(buffer).unwrap();
        let settings = LayerSettings {
            zooms: Zooms::new(0, DEEPEST).unwrap(), buffer, policy, beyond_180: Beyond180::Shifted,
        };
        let shapes = (Shape::Geometry(before.clone()), Shape::Geometry(after.clone()));
        let stale = stale_tiles(&shapes.0, &shapes.1, Changed::Geometry, &settings, CoverLimits::default());
        for tile in (0..first_id(DEEPEST + 1)).filter_map(TileId::from_pmtiles_id) {
            let (was, is) = (picture(tile, buffer, &before), picture(tile, buffer, &after));
            prop_assert!(was == is || stale.contains(tile), "{}: {:?}\nbecame {:?}\nafter {:?}", tile, was, is, after);
        }
    }
}
