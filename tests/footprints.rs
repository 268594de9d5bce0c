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

use std::{collections::BTreeSet, sync::Arc};

use geo_types::{
    Coord, Geometry, GeometryCollection, LineString, MultiLineString, MultiPoint, MultiPolygon, Point, Polygon,
};
use proptest::{collection::vec, prelude::*};
use tilewake_core::{
    cover::CoverLimits,
    feature::Shape,
    layer::{Beyond180, Buffer, LayerSettings, Policy, Zooms},
    mercator::project,
    staleness::footprint,
};

/// A grid unit, as a fraction of a tile.
const UNIT: f64 = 1.0 / 4096.0;

/// How surely a tile's box is touched is left open within this fraction of a tile.
const TOUCH: f64 = 1e-6;

type Segment = (Coord<f64>, Coord<f64>);
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
        self.segments.iter().any(|segment| clips(*segment, centre, half))
            || self
                .areas
                .iter()
                .any(|area| is_in(&area[0]) && !area[1..].iter().any(is_in))
    }
}

fn segments(coords: &[Coord<f64>]) -> Vec<Segment> {
    let projected: Vec<_> = coords.iter().map(|c| Coord::from(project(c.x, c.y))).collect();
    match projected[..] {
        [alone] => vec![(alone, alone)],
        _ => projected.windows(2).map(|ends| (ends[0], ends[1])).collect(),
    }
}

/// Whether anything is left of a segment after clipping it to the box.
fn clips((a, b): Segment, centre: Coord<f64>, half: f64) -> bool {
    let (mut from, mut to) = (0.0f64, 1.0f64);
    for (start, way, middle) in [(a.x, b.x - a.x, centre.x), (a.y, b.y - a.y, centre.y)] {
        let (low, high) = (middle - half - start, middle + half - start);
        if way == 0.0 {
            if low > 0.0 || high < 0.0 {
                return false;
            }
        } else {
            let (enter, leave) = if way > 0.0 {
                (low / way, high / way)
            } else {
                (high / way, low / way)
            };
            (from, to) = (from.max(enter), to.min(leave));
        }
    }
    from <= to
}

/// Whether a ray to the west crosses the ring an odd number of times.
fn is_inside(ring: &[Segment], p: Coord<f64>) -> bool {
    let crosses = |(a, b): &&Segment| (a.y > p.y) != (b.y > p.y) && p.x > a.x + (p.y - a.y) / (b.y - a.y) * (b.x - a.x);
    ring.iter().filter(crosses).count() % 2 == 1
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

/// Where shapes are, how large, and at which zooms and with which buffer they are looked at: a few to a few hundred tiles.
#[derive(Clone, Debug)]
struct View {
    lon: f64,
    lat: f64,
    size: f64,
    zooms: Zooms,
    buffer: f64,
}

fn view() -> impl Strategy<Value = View> {
    let lon = prop_oneof![-180.0..180.0f64, Just(0.0), Just(180.0), Just(-180.0), Just(90.0)];
    let lat = prop_oneof![-84.0..84.0f64, Just(0.0), Just(85.051_128_779_806_59), Just(88.0)];
    let buffer = prop_oneof![Just(0.0), Just(64.0 / 4096.0), Just(0.1), Just(1.0)];
    (lon, lat, 0u8..=26, 0.05..4.0f64, buffer).prop_map(|(lon, lat, zoom, tiles, buffer)| View {
        lon,
        lat,
        size: tiles * 360.0 / f64::from(1u32 << zoom).max(2.0) / 2.0,
        zooms: Zooms::new(zoom.saturating_sub(3), zoom + 2).unwrap(),
        buffer,
    })
}

impl View {
    /// A place of the view from -1 to 1 either way; some places are on edges of tiles.
    fn at(&self, (x, y): (f64, f64)) -> Coord<f64> {
        let lat = self.lat + y * self.size * self.lat.to_radians().cos();
        Coord {
            x: self.lon + x * self.size,
            y: lat.clamp(-90.0, 90.0),
        }
    }

    fn line(&self, places: &[(f64, f64)]) -> LineString<f64> {
        places.iter().map(|place| self.at(*place)).collect()
    }

    /// A star around a place: simple, of any other form, and with a hole that is a smaller star, one half its size.
    fn star(&self, star: &Star) -> Polygon<f64> {
        let ring = |scale: f64| {
            let n = star.radii.len() as f64;
            let place = |(i, radius): (usize, &f64)| {
                let angle = std::f64::consts::TAU * i as f64 / n;
                let reach = radius * scale;
                (star.at.0 + reach * angle.cos(), star.at.1 + reach * angle.sin())
            };
            self.line(&star.radii.iter().enumerate().map(place).collect::<Vec<_>>())
        };
        let holes = if star.has_hole { vec![ring(0.5)] } else { vec![] };
        Polygon::new(ring(1.0), holes)
    }
}

#[derive(Clone, Debug)]
struct Star {
    at: (f64, f64),
    radii: Vec<f64>,
    has_hole: bool,
}

fn place() -> impl Strategy<Value = (f64, f64)> {
    (-1.0..1.0f64, -1.0..1.0f64)
}

fn star() -> impl Strategy<Value = Star> {
    (place(), vec(0.2..1.0f64, 3..12), any::<bool>()).prop_map(|(at, radii, has_hole)| Star { at, radii, has_hole })
}

fn stars(view: &View, stars: &[Star]) -> MultiPolygon<f64> {
    stars.iter().map(|star| view.star(star)).collect()
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
