//! Random shapes, and the plain geometry that judges what is drawn of them.
//!
//! The judges share no idea with the code they judge: they clip segments to a tile's box by parameters (Liang and Barsky),
//! and ask whether a point is inside a ring by counting crossings of one ray.

#![allow(dead_code, reason = "every test takes what it needs")]

pub(crate) mod edits;
pub(crate) mod large;

use geo_types::{Coord, LineString, MultiPolygon, Polygon};
use proptest::{collection::vec, prelude::*};
use tilewake_core::{layer::Zooms, mercator::project};

/// Two ends in the unit square.
pub(crate) type Segment = (Coord<f64>, Coord<f64>);

/// The segments of a path, projected; a point is a segment from itself to itself.
pub(crate) fn segments(coords: &[Coord<f64>]) -> Vec<Segment> {
    let projected: Vec<_> = coords.iter().map(|c| Coord::from(project(c.x, c.y))).collect();
    match projected[..] {
        [alone] => vec![(alone, alone)],
        _ => projected.windows(2).map(|ends| (ends[0], ends[1])).collect(),
    }
}

/// What is left of a segment after clipping it to the box of this half width around a centre, as fractions of the way.
pub(crate) fn clip((a, b): Segment, centre: Coord<f64>, half: f64) -> Option<(f64, f64)> {
    let (mut from, mut to) = (0.0f64, 1.0f64);
    for (start, way, middle) in [(a.x, b.x - a.x, centre.x), (a.y, b.y - a.y, centre.y)] {
        let (low, high) = (middle - half - start, middle + half - start);
        if way == 0.0 {
            if low > 0.0 || high < 0.0 {
                return None;
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
    (from <= to).then_some((from, to))
}

/// Whether a ray to the west crosses the ring an odd number of times.
pub(crate) fn is_inside(ring: &[Segment], p: Coord<f64>) -> bool {
    let crosses = |(a, b): &&Segment| (a.y > p.y) != (b.y > p.y) && p.x > a.x + (p.y - a.y) / (b.y - a.y) * (b.x - a.x);
    ring.iter().filter(crosses).count() % 2 == 1
}

/// Where shapes are, how large, and at which zooms and with which buffer they are looked at: a few to a few hundred tiles.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) lon: f64,
    pub(crate) lat: f64,
    pub(crate) size: f64,
    pub(crate) zooms: Zooms,
    pub(crate) buffer: f64,
}

pub(crate) fn view() -> impl Strategy<Value = View> {
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
    pub(crate) fn at(&self, (x, y): (f64, f64)) -> Coord<f64> {
        let lat = self.lat + y * self.size * self.lat.to_radians().cos();
        Coord {
            x: self.lon + x * self.size,
            y: lat.clamp(-90.0, 90.0),
        }
    }

    pub(crate) fn line(&self, places: &[(f64, f64)]) -> LineString<f64> {
        places.iter().map(|place| self.at(*place)).collect()
    }

    /// A star around a place: simple, of any other form, and with a hole that is a smaller star, one half its size.
    pub(crate) fn star(&self, star: &Star) -> Polygon<f64> {
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
pub(crate) struct Star {
    pub(crate) at: (f64, f64),
    pub(crate) radii: Vec<f64>,
    pub(crate) has_hole: bool,
}

pub(crate) fn place() -> impl Strategy<Value = (f64, f64)> {
    (-1.0..1.0f64, -1.0..1.0f64)
}

pub(crate) fn star() -> impl Strategy<Value = Star> {
    (place(), vec(0.2..1.0f64, 3..12), any::<bool>()).prop_map(|(at, radii, has_hole)| Star { at, radii, has_hole })
}

pub(crate) fn stars(view: &View, stars: &[Star]) -> MultiPolygon<f64> {
    stars.iter().map(|star| view.star(star)).collect()
}
