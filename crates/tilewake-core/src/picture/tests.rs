//! What small shapes draw, and the laws that every picture keeps.

mod drawings;
mod laws;
mod reading;
mod world;

use std::{f64::consts::PI, fmt::Write as _, sync::Arc};

use geo_types::{Coord, Geometry, LineString, MultiPolygon, Polygon as LonLatPolygon};

use super::*;

/// A tile in the middle of nowhere in particular.
fn here() -> TileId {
    TileId::new(10, 582, 296).unwrap()
}

fn no_buffer() -> Buffer {
    Buffer::new(0.0).unwrap()
}

/// The longitude and latitude of a point of the grid, counted from the corner of `tile`.
fn lonlat(tile: TileId, (x, y): (i64, i64)) -> Coord<f64> {
    let n = f64::from(1u32 << tile.z());
    let (u, v) = (
        (f64::from(tile.x()) + x as f64 / 4096.0) / n,
        (f64::from(tile.y()) + y as f64 / 4096.0) / n,
    );
    Coord {
        x: (u - 0.5) * 360.0,
        y: (PI * (1.0 - 2.0 * v)).sinh().atan().to_degrees(),
    }
}

fn line(points: &[(i64, i64)]) -> LineString<f64> {
    points.iter().map(|p| lonlat(here(), *p)).collect()
}

fn polygon(shell: &[(i64, i64)], holes: &[&[(i64, i64)]]) -> LonLatPolygon<f64> {
    LonLatPolygon::new(line(shell), holes.iter().map(|h| line(h)).collect())
}

fn square(x: i64, y: i64, side: i64) -> Vec<(i64, i64)> {
    vec![(x, y), (x + side, y), (x + side, y + side), (x, y + side)]
}

fn feature(id: &str, geometry: impl Into<Geometry<f64>>) -> FeatureToDraw {
    FeatureToDraw {
        id: FeatureId::new(id),
        geometry: Arc::new(geometry.into()),
        attributes: vec![],
    }
}

/// What one geometry draws without a buffer, one part a line.
fn drawing(geometry: impl Into<Geometry<f64>>) -> String {
    write_down(&draw(here(), no_buffer(), [feature("1", geometry)]))
}

fn write_down(picture: &Picture) -> String {
    let mut text = String::new();
    let list = |points: &[GridPoint]| {
        points.iter().fold(String::new(), |mut list, p| {
            write!(list, " {},{}", p.x, p.y).unwrap();
            list
        })
    };
    for drawn in picture.features() {
        for polygon in &drawn.areas {
            writeln!(text, "area{}", list(&polygon.exterior)).unwrap();
            for hole in &polygon.holes {
                writeln!(text, "  hole{}", list(hole)).unwrap();
            }
        }
        for path in &drawn.lines {
            writeln!(text, "line{}", list(path)).unwrap();
        }
        for point in &drawn.points {
            writeln!(text, "point{}", list(&[*point])).unwrap();
        }
    }
    text
}
