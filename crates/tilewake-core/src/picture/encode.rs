//! A picture as a Mapbox Vector Tile, version 2.1 of the specification.
//!
//! Written with our own few messages on prost: the crate `mvt` (0.15) joins a line to the one before it when they meet,
//! loses the start of a ring that begins where the last one ended, and drops vertices on straight axis-parallel
//! edges, and it takes no geometry but what its own encoder made (`tests.rs` shows it and tells when that is over).

use std::{collections::HashMap, hash::Hash};

use prost::Message;

use super::{DrawnFeature, EXTENT, GridPoint, Path, Picture, Polygon, Value, number};
use crate::layer::LayerName;

/// The attribute that holds the id of a feature whose id is not a number; a column of that name gives way to it.
///
/// A vector tile has room for whole numbers up to 2^64 as ids, and for nothing else.
pub const ID_ATTRIBUTE: &str = "@id";

impl Picture {
    /// The vector tile with this picture as its one layer; no bytes at all if the tile shows nothing.
    ///
    /// A feature of several kinds becomes several features of one id: its points, its lines, its areas.
    #[must_use]
    pub fn encode(&self, layer: &LayerName) -> Vec<u8> {
        let mut writer = Writer::default();
        for feature in &self.features {
            writer.add(feature);
        }
        let layers = if self.is_empty() {
            vec![]
        } else {
            vec![writer.finish(layer)]
        };
        Tile { layers }.encode_to_vec()
    }
}

/// The messages of `vector_tile.proto`, in the numbers of that file.
#[derive(Clone, PartialEq, Message)]
struct Tile {
    #[prost(message, repeated, tag = "3")]
    layers: Vec<Layer>,
}

#[derive(Clone, PartialEq, Message)]
struct Layer {
    #[prost(uint32, required, tag = "15")]
    version: u32,
    #[prost(string, required, tag = "1")]
    name: String,
    #[prost(message, repeated, tag = "2")]
    features: Vec<Feature>,
    #[prost(string, repeated, tag = "3")]
    keys: Vec<String>,
    #[prost(message, repeated, tag = "4")]
    values: Vec<TileValue>,
    #[prost(uint32, optional, tag = "5")]
    extent: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
struct Feature {
    #[prost(uint64, optional, tag = "1")]
    id: Option<u64>,
    #[prost(uint32, repeated, tag = "2")]
    tags: Vec<u32>,
    #[prost(enumeration = "Kind", optional, tag = "3")]
    kind: Option<i32>,
    #[prost(uint32, repeated, tag = "4")]
    geometry: Vec<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
enum Kind {
    Unknown = 0,
    Points = 1,
    Lines = 2,
    Areas = 3,
}

#[derive(Clone, PartialEq, Message)]
struct TileValue {
    #[prost(string, optional, tag = "1")]
    text: Option<String>,
    #[prost(double, optional, tag = "3")]
    double: Option<f64>,
    #[prost(uint64, optional, tag = "5")]
    unsigned: Option<u64>,
    #[prost(sint64, optional, tag = "6")]
    signed: Option<i64>,
    #[prost(bool, optional, tag = "7")]
    bool: Option<bool>,
}

impl From<&Value> for TileValue {
    fn from(value: &Value) -> Self {
        let mut written = Self::default();
        match value {
            Value::Text(text) => written.text = Some(text.to_string()),
            Value::Int(n) => match u64::try_from(*n) {
                Ok(n) => written.unsigned = Some(n),
                Err(_) => written.signed = Some(*n),
            },
            Value::Float(f) => written.double = Some(*f),
            Value::Bool(b) => written.bool = Some(*b),
        }
        written
    }
}

/// A layer in the making.
#[derive(Default)]
struct Writer<'p> {
    features: Vec<Feature>,
    keys: Numbered<&'p str>,
    values: Numbered<Value>,
}

impl<'p> Writer<'p> {
    fn add(&mut self, drawn: &'p DrawnFeature) {
        let id = number(&drawn.id);
        let tags = self.tags(drawn, id.is_none());
        let kinds = [
            (Kind::Points, points(&drawn.points)),
            (Kind::Lines, lines(&drawn.lines)),
            (Kind::Areas, areas(&drawn.areas)),
        ];
        for (kind, geometry) in kinds.into_iter().filter(|(_, geometry)| !geometry.is_empty()) {
            self.features.push(Feature {
                id,
                tags: tags.clone(),
                kind: Some(kind.into()),
                geometry,
            });
        }
    }

    fn tags(&mut self, drawn: &'p DrawnFeature, with_id: bool) -> Vec<u32> {
        let mut tags = Vec::with_capacity(2 * drawn.attributes.len() + 2);
        if with_id {
            let id = Value::Text(drawn.id.as_str().into());
            tags.extend([self.keys.number(ID_ATTRIBUTE), self.values.number(id)]);
        }
        for (name, value) in &drawn.attributes {
            if !(with_id && **name == *ID_ATTRIBUTE) {
                tags.extend([self.keys.number(name), self.values.number(value.clone())]);
            }
        }
        tags
    }

    fn finish(self, layer: &LayerName) -> Layer {
        Layer {
            version: 2,
            name: layer.as_str().to_owned(),
            features: self.features,
            keys: self.keys.in_order.into_iter().map(str::to_owned).collect(),
            values: self.values.in_order.iter().map(TileValue::from).collect(),
            extent: Some(EXTENT),
        }
    }
}

/// Things that are written once and then go by their number.
struct Numbered<K> {
    numbers: HashMap<K, u32>,
    in_order: Vec<K>,
}

impl<K> Default for Numbered<K> {
    fn default() -> Self {
        Self {
            numbers: HashMap::new(),
            in_order: Vec::new(),
        }
    }
}

impl<K: Clone + Eq + Hash> Numbered<K> {
    #[expect(clippy::cast_possible_truncation, reason = "2^32 attributes do not fit into memory")]
    fn number(&mut self, thing: K) -> u32 {
        *self.numbers.entry(thing).or_insert_with_key(|thing| {
            self.in_order.push(thing.clone());
            self.in_order.len() as u32 - 1
        })
    }
}

const MOVE_TO: u32 = 1;
const LINE_TO: u32 = 2;
const CLOSE_PATH: u32 = 7;
/// A command is repeated at most so often.
const MAX_COUNT: usize = (1 << 29) - 1;

fn points(points: &[GridPoint]) -> Vec<u32> {
    let mut pen = Pen::default();
    pen.draw(MOVE_TO, points);
    pen.commands
}

fn lines(paths: &[Path]) -> Vec<u32> {
    let mut pen = Pen::default();
    for path in paths {
        pen.path(path);
    }
    pen.commands
}

fn areas(polygons: &[Polygon]) -> Vec<u32> {
    let mut pen = Pen::default();
    for ring in polygons
        .iter()
        .flat_map(|p| std::iter::once(&p.exterior).chain(&p.holes))
    {
        pen.path(ring);
        pen.commands.push(CLOSE_PATH | 1 << 3);
    }
    pen.commands
}

/// Writes the commands of one feature's geometry: every point is told by its way from the one before.
#[derive(Default)]
struct Pen {
    commands: Vec<u32>,
    x: i64,
    y: i64,
}

impl Pen {
    fn path(&mut self, path: &[GridPoint]) {
        let (start, rest) = path.split_at(path.len().min(1));
        self.draw(MOVE_TO, start);
        self.draw(LINE_TO, rest);
    }

    #[expect(clippy::cast_possible_truncation, reason = "not more than MAX_COUNT")]
    fn draw(&mut self, command: u32, points: &[GridPoint]) {
        for points in points.chunks(MAX_COUNT) {
            self.commands.push(command | (points.len() as u32) << 3);
            for p in points {
                self.commands.extend([zigzag(p.x - self.x), zigzag(p.y - self.y)]);
                (self.x, self.y) = (p.x, p.y);
            }
        }
    }
}

/// Signed numbers as the specification writes them: small ones of either sign in few bits.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "points of a picture are at most three tiles apart"
)]
fn zigzag(n: i64) -> u32 {
    ((n << 1) ^ (n >> 63)) as u32
}
