//! What an edit costs by policy: one vertex moved of every road and building of Helsinki, zooms 0 to 16, and shapes of more
//! and more vertices.

use std::{f64::consts::TAU, fs::File, hint::black_box, io::Read as _, sync::Arc, time::Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use flate2::read::GzDecoder;
use geo_types::{Coord, Geometry, LineString, Polygon};
use tilewake_core::{
    cover::CoverLimits,
    event::Changed,
    feature::Shape,
    layer::{Beyond180, Buffer, LayerSettings, Policy},
    staleness::stale_tiles,
};

const POLICIES: [Policy; 3] = [Policy::Footprint, Policy::Change, Policy::Pixel];

fn settings(policy: Policy) -> LayerSettings {
    LayerSettings {
        zooms: "0-16".parse().expect("zooms"),
        buffer: Buffer::DEFAULT,
        policy,
        beyond_180: Beyond180::Both,
    }
}

type Edit = (Shape, Shape);

fn stale((before, after): &Edit, policy: Policy) -> usize {
    let settings = settings(policy);
    stale_tiles(before, after, Changed::Geometry, &settings, CoverLimits::default())
        .ranges()
        .len()
}

/// The geometry with the vertex in its middle moved by about ten metres.
fn moved(geometry: &Geometry<f64>) -> Geometry<f64> {
    let shift = |coords: &mut Vec<Coord<f64>>| {
        let middle = coords.len() / 2;
        coords[middle] = coords[middle] + Coord { x: 1e-4, y: 1e-4 };
    };
    let mut geometry = geometry.clone();
    match &mut geometry {
        Geometry::LineString(line) => shift(&mut line.0),
        Geometry::Polygon(polygon) => polygon.exterior_mut(|ring| shift(&mut ring.0)),
        _ => {}
    }
    geometry
}

fn edit(geometry: &Geometry<f64>) -> Edit {
    let shape = |geometry: Geometry<f64>| Shape::Geometry(Arc::new(geometry));
    (shape(geometry.clone()), shape(moved(geometry)))
}

fn helsinki() -> Vec<Edit> {
    #[expect(clippy::disallowed_methods, reason = "a bench reads real shapes")]
    let file = File::open(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fixtures/helsinki-base.ndjson.gz"
    ));
    let mut text = String::new();
    GzDecoder::new(file.expect("the fixture"))
        .read_to_string(&mut text)
        .expect("lines");
    let geometry = |line: &str| -> Geometry<f64> {
        let line: serde_json::Value = serde_json::from_str(line).expect("an object");
        let geometry = serde_json::from_value::<geojson::Geometry>(line["geometry"].clone()).expect("a geometry");
        geometry.try_into().expect("a geometry of the plane")
    };
    text.lines().map(|line| edit(&geometry(line))).collect()
}

/// The median, because a few long roads would outweigh all others in a sum.
fn print_medians(edits: &[Edit]) {
    for policy in POLICIES {
        let time = |edit| {
            #[expect(clippy::disallowed_methods, reason = "a bench measures time")]
            let start = Instant::now();
            black_box(stale(black_box(edit), policy));
            start.elapsed()
        };
        let mut times: Vec<_> = edits.iter().map(|edit| (0..5).map(|_| time(edit)).min()).collect();
        times.sort_unstable();
        println!(
            "median edit of Helsinki, {}: {:?}",
            policy.as_str(),
            times[times.len() / 2].unwrap_or_default()
        );
    }
}

fn edits_of_helsinki(c: &mut Criterion) {
    let edits = helsinki();
    print_medians(&edits);
    let mut group = c.benchmark_group("helsinki");
    group
        .throughput(Throughput::Elements(edits.len() as u64))
        .sample_size(10);
    for policy in POLICIES {
        group.bench_function(policy.as_str(), |b| {
            b.iter(|| edits.iter().map(|edit| stale(black_box(edit), policy)).sum::<usize>());
        });
    }
}

/// A wavy ring of so many vertices, ten kilometres wide, one of them moved.
fn ring(n: u32) -> Edit {
    let at = |i| {
        let angle = TAU * f64::from(i) / f64::from(n);
        let radius = 0.05 * (1.0 + 0.2 * (angle * 9.0).sin());
        Coord {
            x: 24.9 + radius * 2.0 * angle.cos(),
            y: 60.2 + radius * angle.sin(),
        }
    };
    edit(&Polygon::new((0..n).map(at).collect::<LineString<f64>>(), vec![]).into())
}

fn by_vertices(c: &mut Criterion) {
    let mut group = c.benchmark_group("vertices");
    group.sample_size(20);
    for n in [10, 100, 1000, 10_000, 100_000] {
        let edit = ring(n);
        for policy in POLICIES {
            let id = BenchmarkId::new(policy.as_str(), n);
            group.bench_with_input(id, &edit, |b, edit| b.iter(|| stale(black_box(edit), policy)));
        }
    }
}

criterion_group!(benches, edits_of_helsinki, by_vertices);
criterion_main!(benches);
