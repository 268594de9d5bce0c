//! I1 where the two halves of the core meet: whatever tile the renderer draws a shape in, the shape's footprint holds it.

use std::sync::Arc;

use geo_types::{Coord, Geometry, LineString, MultiPoint, Polygon};
use proptest::{collection::vec, prelude::*, sample::select};
use tilewake_core::{
    cover::CoverLimits,
    feature::{FeatureId, Shape},
    layer::{Beyond180, Buffer, LayerSettings, Policy, Zooms},
    picture::{FeatureToDraw, draw},
    staleness::footprint,
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
        (vec(coordinate(), 3..5), vec(coordinate(), 3..5)).prop_map(|(shell, hole)| Polygon::new(
            LineString(shell),
            vec![LineString(hole)]
        )
        .into()),
    ]
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
            let feature = FeatureToDraw { id: FeatureId::new("1"), geometry: geometry.clone(), attributes: vec![] };
            let picture = draw(tile, buffer, [feature]);
            prop_assert!(picture.is_empty() || footprint.contains(tile), "{} shows {:?}", tile, picture);
        }
    }
}
