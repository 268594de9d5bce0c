//! Footprints against brute force: every tile near a shape is tested alone, by plain clipping.
//!
//! The judge shares no idea with the descent it judges: it clips segments to a tile's box by parameters (Liang and
//! Barsky), asks whether a tile's centre is inside a ring by counting crossings of one ray, and goes through all tiles of a
//! zoom around the shape.

#![expect(clippy::unwrap_used, reason = "the settings are known to be right")]
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers of tiles are whole and small enough"
)]

mod shapes;

use std::{collections::BTreeSet, sync::Arc};

use geo_types::{Coord, Geometry, GeometryCollection, MultiLineString, MultiPoint, MultiPolygon, Point, Polygon};
use proptest::{collection::vec, prelude::*};
use shapes::{Segment, clip, is_inside, place, segments, star, stars, view};
use tilewake_core::{
    cover::CoverLimits,
    feature::Shape,
    layer::{Beyond180, Buffer, LayerSettings, Policy, Zooms},
    staleness::footprint,
};

/// A grid unit, as a fraction of a tile.
const UNIT: f64 = 1.0 / 4096.0;

/// How surely a tile's box is touched is left open within this fraction of a tile: the eight steps of the plane by which
/// every box grows are most of it at zoom 28.
const TOUCH: f64 = 1e-5;

type Tiles = BTreeSet<(u8, u32, u32)>;

/// Segments to be met, and areas to be inside of: each a shell and its holes.
#[derive(Default)]
struct Drawn {
    segments: Vec<Segment>,
    areas: Vec<Vec<Vec<Segment>>>,
}

impl Drawn {
    fn of(geometry: &Geometry<f64>) -> Self {
        let mut drawn = Self::default();
        drawn.add(geometry);
        drawn
    }

    fn add(&mut self, geometry: &Geometry<f64>) {
        match geometry {
            Geometry::Point(p) => self.segments.extend(segments(&[p.0])),
            Geometry::MultiPoint(points) => points.iter().for_each(|p| self.add(&(*p).into())),
            Geometry::LineString(line) => self.segments.extend(segments(&line.0)),
            Geometry::MultiLineString(lines) => lines.iter().for_each(|line| self.add(&line.clone().into())),
            Geometry::Polygon(polygon) => {
                let rings = std::iter::once(polygon.exterior()).chain(polygon.interiors());
                let area: Vec<_> = rings.map(|ring| segments(&ring.0)).collect();
                self.segments.extend(area.iter().flatten());
                self.areas.push(area);
            }
            Geometry::MultiPolygon(polygons) => polygons.iter().for_each(|p| self.add(&p.clone().into())),
            Geometry::GeometryCollection(parts) => parts.iter().for_each(|part| self.add(part)),
            other => panic!("not used here: {other:?}"),
        }
    }

    /// Whether something is drawn in the box of this half width around a centre: an outline meets it, or it lies within
    /// a shell and in none of its holes.
    fn meets(&self, centre: Coord<f64>, half: f64) -> bool {
        let is_in = |ring: &Vec<Segment>| is_inside(ring, centre);
        self.segments
            .iter()
            .any(|segment| clip(*segment, centre, half).is_some())
            || self
                .areas
                .iter()
                .any(|area| is_in(&area[0]) && !area[1..].iter().any(is_in))
    }
}

/// The tiles of a zoom whose boxes, grown by a fraction of a tile, the shape meets. The world repeats to both sides.
fn brute_force(drawn: &Drawn, zoom: u8, grow: f64) -> Tiles {
    let n = f64::from(1u32 << zoom);
    let ends = || drawn.segments.iter().flat_map(|(a, b)| [a, b]);
    let (west, east) = ends().fold((9.0f64, -9.0f64), |(w, e), c| (w.min(c.x), e.max(c.x)));
    let (north, south) = ends().fold((9.0f64, -9.0f64), |(n, s), c| (n.min(c.y), s.max(c.y)));
    let columns = ((west * n - grow).floor() as i64)..=((east * n + grow).floor() as i64);
    let rows = ((north * n - grow).floor().max(0.0) as i64)..=((south * n + grow).floor().min(n - 1.0) as i64);
    let mut tiles = Tiles::new();
    for (x, y) in columns.flat_map(|x| rows.clone().map(move |y| (x, y))) {
        let centre = Coord {
            x: (x as f64 + 0.5) / n,
            y: (y as f64 + 0.5) / n,
        };
        if drawn.meets(centre, (0.5 + grow) / n) {
            tiles.insert((zoom, x.rem_euclid(1 << zoom) as u32, y as u32));
        }
    }
    tiles
}

/// Recall is 1, and there is no tile beyond the box that is grown by half a unit.
fn judge(geometry: &Geometry<f64>, zooms: Zooms, buffer: f64) -> Result<(), TestCaseError> {
    let settings = LayerSettings {
        zooms,
        buffer: Buffer::new(buffer).unwrap(),
        policy: Policy::Footprint,
        beyond_180: Beyond180::Shifted,
    };
    let shape = Shape::Geometry(Arc::new(geometry.clone()));
    let found: Tiles = footprint(&shape, &settings, CoverLimits::UNLIMITED)
        .iter()
        .map(|tile| (tile.z(), tile.x(), tile.y()))
        .collect();
    let drawn = Drawn::of(geometry);
    let all = |grow: f64| {
        zooms
            .iter()
            .flat_map(|zoom| brute_force(&drawn, zoom, grow))
            .collect::<Tiles>()
    };
    let (required, allowed) = (all(buffer + UNIT / 2.0 - TOUCH), all(buffer + UNIT / 2.0 + TOUCH));
    prop_assert!(
        required.is_subset(&found),
        "missed {:?}",
        required.difference(&found).take(4).collect::<Vec<_>>()
    );
    prop_assert!(
        found.is_subset(&allowed),
        "too many {:?}",
        found.difference(&allowed).take(4).collect::<Vec<_>>()
    );
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn of_points_are_exact(view in view(), places in vec(place(), 1..5)) {
        let points: MultiPoint = places.iter().map(|place| Point(view.at(*place))).collect();
        judge(&points.into(), view.zooms, view.buffer)?;
    }

    #[test]
    fn of_lines_are_exact(view in view(), lines in vec(vec(place(), 1..6), 1..4)) {
        let lines = MultiLineString::new(lines.iter().map(|line| view.line(line)).collect());
        judge(&lines.into(), view.zooms, view.buffer)?;
    }

    #[test]
    fn of_polygons_with_holes_are_exact(view in view(), star in star()) {
        judge(&view.star(&star).into(), view.zooms, view.buffer)?;
    }

    #[test]
    fn of_polygons_whose_parts_overlap_are_exact(view in view(), parts in vec(star(), 1..4)) {
        judge(&stars(&view, &parts).into(), view.zooms, view.buffer)?;
    }

    #[test]
    fn of_collections_are_exact(view in view(), parts in vec(star(), 1..3), line in vec(place(), 1..5), p in place()) {
        let within = GeometryCollection::from(vec![Geometry::from(view.line(&line)), Point(view.at(p)).into()]);
        let all = GeometryCollection::from(vec![stars(&view, &parts).into(), Geometry::GeometryCollection(within)]);
        judge(&Geometry::GeometryCollection(all), view.zooms, view.buffer)?;
    }

    /// A hole that reaches out of its own shell takes nothing away from another part: only recall is asked for, because
    /// what such a hole draws is anybody's guess.
    #[test]
    fn of_parts_under_the_hole_of_another_part_miss_nothing(view in view(), part in star(), other in star(), hole in star()) {
        let hole = view.star(&hole).exterior().clone();
        let torn = Polygon::new(view.star(&other).exterior().clone(), vec![hole]);
        let geometry = Geometry::from(MultiPolygon::new(vec![view.star(&part), torn]));
        let settings = LayerSettings {
            zooms: view.zooms,
            buffer: Buffer::new(view.buffer).unwrap(),
            policy: Policy::Footprint,
            beyond_180: Beyond180::Shifted,
        };
        let drawn = Drawn::of(&geometry);
        let found = footprint(&Shape::Geometry(Arc::new(geometry)), &settings, CoverLimits::UNLIMITED);
        let found: Tiles = found.iter().map(|tile| (tile.z(), tile.x(), tile.y())).collect();
        for zoom in view.zooms.iter() {
            let missed: Vec<_> = brute_force(&drawn, zoom, view.buffer).difference(&found).copied().collect();
            prop_assert!(missed.is_empty(), "missed {missed:?}");
        }
    }
}
