//! Draws a tile from PostGIS: the rows are read and drawn one at a time, off the threads that serve.
//!
//! A row that cannot be drawn is left out and reported; it never fails the tile.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use futures_util::TryStreamExt;
use serde_json::value::RawValue;
use sqlx::PgPool;
use tilewake_core::{
    edges::{self, InvalidGeometry},
    feature::FeatureId,
    geometry::{self, InvalidWkb},
    layer::{LayerName, Zooms},
    picture::{self, Drawing, FeatureToDraw, Value},
    tile::TileId,
};
use tokio::sync::mpsc;
use tracing::warn;

use super::cache::Abandoned;
use crate::postgres::{
    drawn::{self, DrawnRow},
    layers::{self, Layer},
};

/// How many rows may have been read and not yet drawn.
const AHEAD: usize = 64;

/// A tile cannot be drawn.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// No layer of this name.
    #[error("there is no layer {0}")]
    UnknownLayer(LayerName),
    /// The layer is not drawn at this zoom.
    #[error("layer {layer} is drawn at zooms {zooms}, not at {zoom}")]
    OutsideZooms {
        /// The layer.
        layer: LayerName,
        /// The zooms it is drawn at.
        zooms: Zooms,
        /// The zoom asked for.
        zoom: u8,
    },
    /// The database failed.
    #[error("cannot read the features of the tile")]
    Database(#[from] sqlx::Error),
    /// The render panicked.
    #[error(transparent)]
    Abandoned(#[from] Abandoned),
}

/// Why a feature is left out of the tile.
#[derive(Debug, thiserror::Error)]
enum LeftOut {
    #[error("its geometry is omitted: {0}")]
    Omitted(String),
    #[error(transparent)]
    Wkb(#[from] InvalidWkb),
    #[error(transparent)]
    Geometry(#[from] InvalidGeometry),
}

/// Draws a tile of a layer as it is now, encoded.
pub async fn render(pool: &PgPool, layer: &LayerName, tile: TileId) -> Result<Bytes, RenderError> {
    let found = layers::find(pool, layer).await?;
    let layer = found.ok_or_else(|| RenderError::UnknownLayer(layer.clone()))?;
    let zooms = layer.settings.zooms;
    if !zooms.contains(tile.z()) {
        return Err(RenderError::OutsideZooms {
            layer: layer.name,
            zooms,
            zoom: tile.z(),
        });
    }
    let reach = picture::reach(tile, layer.settings.buffer);
    let mut rows = drawn::read(pool, &layer, &reach);
    let (send, received) = mpsc::channel(AHEAD);
    let drawing = tokio::task::spawn_blocking(move || draw(&layer, tile, received));
    while let Some(row) = rows.try_next().await? {
        if send.send(row).await.is_err() {
            break; // Only if the drawing panicked.
        }
    }
    drop(send);
    Ok(drawing.await.map_err(|_| Abandoned)?)
}

fn draw(layer: &Layer, tile: TileId, mut rows: mpsc::Receiver<DrawnRow>) -> Bytes {
    let columns: Vec<Arc<str>> = layer.columns.iter().map(|c| Arc::from(c.as_str())).collect();
    let mut drawing = Drawing::new(tile, layer.settings.buffer);
    let (mut n_left_out, mut example) = (0u32, None);
    while let Some(row) = rows.blocking_recv() {
        match feature(&row, &columns) {
            Ok(feature) => feature.into_iter().for_each(|f| drawing.add(f)),
            Err(why) => {
                n_left_out += 1;
                example.get_or_insert((row.id, why));
            }
        }
    }
    if let Some((feature, why)) = example {
        let why = &why as &dyn std::error::Error;
        warn!(layer = %layer.name, %tile, n_left_out, feature, why, "features were left out of a tile");
    }
    drawing.finish().encode(&layer.name).into()
}

/// The feature of a row; `None` if it has no geometry.
fn feature(row: &DrawnRow, columns: &[Arc<str>]) -> Result<Option<FeatureToDraw>, LeftOut> {
    if let Some(why) = &row.omitted {
        return Err(LeftOut::Omitted(why.clone()));
    }
    let Some(wkb) = &row.wkb else { return Ok(None) };
    let geometry = geometry::from_wkb(wkb)?;
    edges::check(&geometry)?;
    Ok(Some(FeatureToDraw {
        id: FeatureId::new(row.id.as_str()),
        geometry: Arc::new(geometry),
        attributes: row
            .attributes
            .as_deref()
            .map_or_else(Vec::new, |json| attributes(json, columns)),
    }))
}

/// The members of a JSON object that are not null, in the order of the columns.
fn attributes(json: &str, columns: &[Arc<str>]) -> Vec<(Arc<str>, Value)> {
    let members: HashMap<String, &RawValue> = serde_json::from_str(json).unwrap_or_default();
    let told = |column: &Arc<str>| {
        let value = value(members.get(&**column)?.get())?;
        Some((Arc::clone(column), value))
    };
    columns.iter().filter_map(told).collect()
}

/// A JSON value as an attribute: vector tiles have no lists and objects, so those are told as the text they are.
fn value(json: &str) -> Option<Value> {
    let text = || Some(Value::Text(json.into()));
    match json.as_bytes().first()? {
        b'n' => None,
        b't' => Some(Value::Bool(true)),
        b'f' => Some(Value::Bool(false)),
        b'"' => serde_json::from_str::<String>(json).map_or_else(|_| text(), |s| Some(Value::Text(s.into()))),
        b'-' | b'0'..=b'9' => {
            let float = || json.parse().ok().filter(|f: &f64| f.is_finite()).map(Value::Float);
            json.parse().map(Value::Int).ok().or_else(float).or_else(text)
        }
        _ => text(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(json: &str) -> Vec<(String, Value)> {
        let columns = ["a", "b", "odd \"name\""].map(Arc::from);
        let told = attributes(json, &columns);
        told.into_iter()
            .map(|(name, value)| (name.to_string(), value))
            .collect()
    }

    fn text(text: &str) -> Value {
        Value::Text(text.into())
    }

    #[test]
    fn attributes_come_in_the_order_of_the_columns_without_nulls() {
        assert_eq!(
            told(r#"{"odd \"name\"":"x","b":null,"a":true}"#),
            [
                ("a".to_owned(), Value::Bool(true)),
                ("odd \"name\"".to_owned(), text("x"))
            ]
        );
    }

    #[test]
    fn values_keep_their_kind() {
        for (json, expected) in [
            ("7", Value::Int(7)),
            ("-9223372036854775808", Value::Int(i64::MIN)),
            ("9223372036854775808", Value::Float(9_223_372_036_854_775_808.0)),
            ("0.1", Value::Float(0.1)),
            ("1e400", text("1e400")),
            ("false", Value::Bool(false)),
            (r#""line\nbreak""#, text("line\nbreak")),
            (r#"{"k": [1]}"#, text(r#"{"k": [1]}"#)),
            ("[1,2]", text("[1,2]")),
        ] {
            assert_eq!(told(&format!(r#"{{"a":{json}}}"#)), [("a".to_owned(), expected)]);
        }
    }

    #[test]
    fn a_json_column_nested_beyond_reason_is_text() {
        let nested = "[".repeat(5000) + &"]".repeat(5000);
        assert_eq!(told(&format!(r#"{{"a":{nested}}}"#)), [("a".to_owned(), text(&nested))]);
    }
}
