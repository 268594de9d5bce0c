//! What an independent reader reads in an encoded picture.

use mvt_reader::{Reader, feature::Value as ReadValue};
use proptest::{collection::vec, prelude::*};

use super::{laws::shape, *};
use crate::layer::LayerName;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn an_independent_reader_reads_what_was_drawn(
        shapes in vec(shape(), 0..5), numbers in any::<bool>(), values in vec(value(), 5),
    ) {
        let features = shapes.iter().zip(values).enumerate().map(|(i, (shape, value))| {
            let id = if numbers { (u64::MAX - i as u64).to_string() } else { format!("n°{i}") };
            let attributes = vec![("wert".into(), value), (ID_ATTRIBUTE.into(), Value::Bool(numbers))];
            FeatureToDraw { attributes, ..feature(&id, shape.clone()) }
        });
        let picture = draw(here(), Buffer::DEFAULT, features);
        let layer = LayerName::new("roads").unwrap();
        prop_assert_eq!(read(picture.encode(&layer)), told(&picture));
    }
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        ".{0,5}".prop_map(|text| Value::Text(text.into())),
        any::<i64>().prop_map(Value::Int),
        any::<f64>().prop_map(Value::Float),
        any::<bool>().prop_map(Value::Bool),
    ]
}

/// A feature of a tile as text: id, attributes, and the rings, paths or points of one kind.
type Told = (Option<u64>, Vec<(String, String)>, Vec<Vec<(i64, i64)>>);

fn told(picture: &Picture) -> Vec<Told> {
    let mut features = Vec::new();
    for drawn in picture.features() {
        let id = number(&drawn.id);
        let mut attributes: Vec<_> = drawn.attributes.iter().map(|(k, v)| (k.to_string(), text(v))).collect();
        if id.is_none() {
            attributes.retain(|(name, _)| name != ID_ATTRIBUTE);
            attributes.push((ID_ATTRIBUTE.to_owned(), format!("text {}", drawn.id)));
        }
        attributes.sort();
        let list = |points: &Vec<GridPoint>| points.iter().map(|p| (p.x, p.y)).collect::<Vec<_>>();
        let rings = |p: &Polygon| {
            std::iter::once(&p.exterior)
                .chain(&p.holes)
                .map(list)
                .collect::<Vec<_>>()
        };
        let kinds = [
            drawn.points.iter().map(|p| vec![(p.x, p.y)]).collect(),
            drawn.lines.iter().map(list).collect(),
            drawn.areas.iter().flat_map(rings).collect(),
        ];
        let kinds: Vec<Vec<_>> = kinds.into();
        features.extend(
            kinds
                .into_iter()
                .filter(|k| !k.is_empty())
                .map(|k| (id, attributes.clone(), k)),
        );
    }
    features
}

fn text(value: &Value) -> String {
    match value {
        Value::Text(text) => format!("text {text}"),
        Value::Int(n) => format!("number {n}"),
        Value::Float(f) => format!("float {f}"),
        Value::Bool(b) => format!("{b}"),
    }
}

fn read(tile: Vec<u8>) -> Vec<Told> {
    let reader = Reader::new(tile).unwrap();
    let names = reader.get_layer_names().unwrap();
    let Some(name) = names.first() else { return vec![] };
    assert_eq!((name.as_str(), names.len()), ("roads", 1));
    let features = reader.get_features_as::<i32>(0).unwrap();
    features
        .into_iter()
        .map(|f| (f.id, read_attributes(f.properties.unwrap()), read_geometry(f.geometry)))
        .collect()
}

fn read_attributes(properties: impl IntoIterator<Item = (String, ReadValue)>) -> Vec<(String, String)> {
    let text = |value| match value {
        ReadValue::String(text) => format!("text {text}"),
        ReadValue::Double(f) => format!("float {f}"),
        ReadValue::Int(n) | ReadValue::SInt(n) => format!("number {n}"),
        ReadValue::UInt(n) => format!("number {n}"),
        ReadValue::Bool(b) => format!("{b}"),
        other => format!("{other:?}"),
    };
    let mut attributes: Vec<_> = properties.into_iter().map(|(k, v)| (k, text(v))).collect();
    attributes.sort();
    attributes
}

fn read_geometry(geometry: Geometry<i32>) -> Vec<Vec<(i64, i64)>> {
    let place = |c: &Coord<i32>| (i64::from(c.x), i64::from(c.y));
    let list = |l: &LineString<i32>| l.0.iter().map(place).collect::<Vec<_>>();
    let open = |l: &LineString<i32>| list(l)[..l.0.len() - 1].to_vec();
    let rings = |p: &LonLatPolygon<i32>| {
        std::iter::once(p.exterior())
            .chain(p.interiors())
            .map(open)
            .collect::<Vec<_>>()
    };
    match geometry {
        Geometry::Point(p) => vec![vec![place(&p.0)]],
        Geometry::MultiPoint(points) => points.iter().map(|p| vec![place(&p.0)]).collect(),
        Geometry::LineString(l) => vec![list(&l)],
        Geometry::MultiLineString(lines) => lines.iter().map(list).collect(),
        Geometry::Polygon(p) => rings(&p),
        Geometry::MultiPolygon(polygons) => polygons.iter().flat_map(rings).collect(),
        other => panic!("{other:?}"),
    }
}

/// Why the crate `mvt` does not write our geometry. When this fails, it may have become fit for it.
#[test]
fn the_encoder_of_the_crate_mvt_still_loses_points() {
    use mvt::{GeomEncoder, GeomType, Tile};
    let encode = |kind, paths: &[&[(i32, i32)]]| {
        let mut encoder = GeomEncoder::new(kind);
        for path in paths {
            for (x, y) in *path {
                encoder.add_point(*x, *y).unwrap();
            }
            encoder.complete_geom().unwrap();
        }
        let mut tile = Tile::new(4096);
        let layer = tile.create_layer("roads");
        tile.add_layer(layer.into_feature(encoder.encode().unwrap()).into_layer())
            .unwrap();
        read(tile.to_bytes().unwrap()).remove(0).2
    };
    let meeting = encode(GeomType::Linestring, &[&[(0, 0), (5, 5)], &[(5, 5), (9, 9)]]);
    assert_ne!(meeting, [vec![(0, 0), (5, 5)], vec![(5, 5), (9, 9)]]);
    let straight = encode(GeomType::Polygon, &[&[(0, 0), (5, 0), (9, 0), (9, 9)]]);
    assert_ne!(straight, [vec![(0, 0), (5, 0), (9, 0), (9, 9)]]);
}
