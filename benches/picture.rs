//! How long the built-in renderer takes to draw and to encode a tile, and what a large outline around it costs.

use std::{f64::consts::TAU, hint::black_box, sync::Arc};

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use geo_types::{Coord, Geometry, LineString, Polygon};
use tilewake_core::{
    feature::FeatureId,
    layer::{Buffer, LayerName},
    picture::{FeatureToDraw, Value, draw},
    tile::TileId,
};

/// Central Helsinki at zoom 14, 0.022 degrees wide.
fn tile() -> TileId {
    TileId::new(14, 9326, 4742).expect("a tile of zoom 14")
}

const CENTRE: Coord<f64> = Coord { x: 24.928, y: 60.17 };

fn circle(centre: Coord<f64>, radius: f64, n_points: u32) -> LineString<f64> {
    let at = |i| {
        let angle = TAU * f64::from(i) / f64::from(n_points);
        // Wavy, so that no ring is convex.
        let radius = radius * (1.0 + 0.2 * (angle * 7.0).sin());
        centre
            + Coord {
                x: angle.cos() * radius,
                y: angle.sin() * radius / 2.0,
            }
    };
    (0..=n_points).map(at).collect()
}

fn feature(id: u32, geometry: Geometry<f64>) -> FeatureToDraw {
    FeatureToDraw {
        id: FeatureId::new(id.to_string()),
        geometry: Arc::new(geometry),
        attributes: vec![
            ("kind".into(), Value::Text(format!("kind {}", id % 20).into())),
            ("levels".into(), Value::Int(i64::from(id % 9))),
        ],
    }
}

/// 3,000 buildings of twelve points with a courtyard and 600 roads of thirty points, a tenth of them over the border.
fn city() -> Vec<FeatureToDraw> {
    // Spread evenly: multiples of the golden section and of the square root of two.
    let spread = |i: u32, step: f64| (f64::from(i) * step).fract() - 0.5;
    let spot = |i| {
        CENTRE
            + Coord {
                x: spread(i, 0.618_034) * 0.0235,
                y: spread(i, 0.414_214) * 0.0115,
            }
    };
    let building = |i| Polygon::new(circle(spot(i), 1.5e-4, 12), vec![circle(spot(i), 5e-5, 6)]);
    let buildings = (0..3000).map(|i| feature(i, building(i).into()));
    let roads = (3000..3600).map(|i| feature(i, circle(spot(i), 8e-4, 30).into()));
    buildings.chain(roads).collect()
}

fn pictures(c: &mut Criterion) {
    let layer = LayerName::new("city").expect("a name");
    let mut group = c.benchmark_group("picture");
    let city = city();
    group.throughput(Throughput::Elements(city.len() as u64));
    group.bench_function("draw a dense tile, by feature", |b| {
        b.iter_batched(
            || city.clone(),
            |city| draw(tile(), Buffer::DEFAULT, city),
            BatchSize::LargeInput,
        );
    });
    let picture = draw(tile(), Buffer::DEFAULT, city.clone());
    assert!(picture.features().len() > 3000, "the tile is not dense");
    group.bench_function("encode a dense tile, by feature", |b| {
        b.iter(|| black_box(&picture).encode(&layer));
    });
    for (name, radius) in [("around", 1.0), ("through", 0.01)] {
        let coast = feature(0, Polygon::new(circle(CENTRE, radius, 100_000), vec![]).into());
        group.throughput(Throughput::Elements(100_000));
        group.bench_function(format!("draw an outline {name} the tile, by vertex"), |b| {
            b.iter(|| draw(tile(), Buffer::DEFAULT, [coast.clone()]));
        });
    }
    group.finish();
}

criterion_group!(benches, pictures);
criterion_main!(benches);
