//! How fast tiles are found, against the libraries that people use: the same polygons, in turns, the median of the rounds.
//!
//! `cover-comparison COUNTRIES [ZOOM] [ROUNDS]`, where COUNTRIES has a GeoJSON geometry a line (`countries.mjs` writes it).

use std::{env, error::Error, fs, hint::black_box, sync::Arc, time::Instant};

use geo::{BoundingRect, MapCoords};
use geo_rasterize::BinaryBuilder;
use geo_types::{Coord, Geometry};
use tilecover::TileCover;
use tilewake_core::{
    cover::CoverLimits,
    feature::Shape,
    layer::{Beyond180, Buffer, LayerSettings, Policy, Zooms},
    mercator::project,
    staleness::footprint,
};

type Contender = (&'static str, fn(&[Shape], u8) -> u64);

const CONTENDERS: [Contender; 3] = [("tilewake", tilewake), ("tilecover", tilecover), ("geo-rasterize", rasterize)];

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let number = |i: usize, or: u8| arguments.get(i).map_or(Ok(or), |n| n.parse());
    let (zoom, rounds) = (number(1, 12)?, number(2, 7)?);
    let shapes = read(arguments.first().ok_or("name a file of GeoJSON geometries")?)?;
    let mut times = [const { Vec::new() }; CONTENDERS.len()];
    let mut tiles = [0; CONTENDERS.len()];
    for _ in 0..rounds {
        for (i, (_, find)) in CONTENDERS.iter().enumerate() {
            let start = Instant::now();
            tiles[i] = black_box(find(black_box(&shapes), zoom));
            times[i].push(start.elapsed());
        }
    }
    println!("{} shapes, zoom {zoom}, median of {rounds} rounds", shapes.len());
    for (i, (name, _)) in CONTENDERS.iter().enumerate() {
        times[i].sort_unstable();
        let median = times[i][times[i].len() / 2].as_secs_f64();
        let per_tile = median * 1e9 / tiles[i] as f64;
        println!("{name:>14} {:>10.2} ms {:>10} tiles {per_tile:>8.2} ns a tile", median * 1e3, tiles[i]);
    }
    Ok(())
}

fn read(file: &str) -> Result<Vec<Shape>, Box<dyn Error>> {
    let shape = |line: &str| -> Result<Shape, Box<dyn Error>> {
        let geometry: geojson::Geometry = line.parse()?;
        Ok(Shape::Geometry(Arc::new(geometry.try_into()?)))
    };
    fs::read_to_string(file)?.lines().map(shape).collect()
}

fn geometries(shapes: &[Shape]) -> impl Iterator<Item = &Geometry<f64>> {
    shapes.iter().filter_map(|shape| match shape {
        Shape::Geometry(geometry) => Some(&**geometry),
        _ => None,
    })
}

fn tilewake(shapes: &[Shape], zoom: u8) -> u64 {
    let settings = LayerSettings {
        zooms: Zooms::new(zoom, zoom).expect("a zoom"),
        buffer: Buffer::new(0.0).expect("no buffer"),
        policy: Policy::Footprint,
        beyond_180: Beyond180::Shifted,
    };
    shapes.iter().map(|shape| footprint(shape, &settings, CoverLimits::UNLIMITED).n_tiles()).sum()
}

fn tilecover(shapes: &[Shape], zoom: u8) -> u64 {
    geometries(shapes).map(|geometry| geometry.tile_cover(zoom).len() as u64).sum()
}

/// A bitmap of the tiles of the geometry's box, and its bits counted.
fn rasterize(shapes: &[Shape], zoom: u8) -> u64 {
    let n = f64::from(1u32 << zoom);
    geometries(shapes)
        .map(|geometry| {
            let tiles = geometry.map_coords(|c| {
                let (x, y) = project(c.x, c.y);
                Coord { x: x * n, y: y * n }
            });
            let bounds = tiles.bounding_rect().expect("not empty");
            let (west, north) = (bounds.min().x.floor(), bounds.min().y.floor());
            let (width, height) = ((bounds.max().x - west) as usize + 1, (bounds.max().y.min(n) - north) as usize + 1);
            let shifted = tiles.map_coords(|c| Coord { x: c.x - west, y: c.y - north });
            let mut bitmap = BinaryBuilder::new().width(width).height(height).build().expect("a size");
            bitmap.rasterize(&shifted).expect("finite");
            bitmap.finish().iter().filter(|bit| **bit).count() as u64
        })
        .sum()
}
