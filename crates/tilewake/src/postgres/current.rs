//! Features as they are now: version and geometry of each, from one snapshot a layer.

use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry},
    sync::Arc,
};

use sqlx::{AssertSqlSafe, PgPool, Row, postgres::PgRow};
use tilewake_core::{
    edges,
    event::Omission,
    feature::{FeatureId, FeatureKey, Version},
    geometry,
    layer::{LayerName, LayerSettings},
    outbox::{Current, CurrentRow, OutboxRow, Record},
};
use tracing::warn;

use super::layers::{self, Layer};

/// What was read of a batch's features and layers.
#[derive(Default)]
pub struct CurrentFeatures {
    features: HashMap<FeatureKey, Current>,
    settings: HashMap<LayerName, LayerSettings>,
}

impl CurrentFeatures {
    /// The feature; `None` where it could not be read.
    #[must_use]
    pub fn feature(&self, key: &FeatureKey) -> Option<Current> {
        self.features.get(key).cloned()
    }

    /// The layer's settings; `None` where the layer was removed.
    #[must_use]
    pub fn settings(&self, layer: &LayerName) -> Option<LayerSettings> {
        self.settings.get(layer).copied()
    }
}

/// Reads the features of a batch, each layer by one statement in a transaction of its own, so that no lock on the user's
/// table outlives it. A layer that cannot be read (altered, dropped) fails alone: its events go by their boxes.
pub async fn read(pool: &PgPool, rows: &[OutboxRow], max_bytes: i64) -> Result<CurrentFeatures, sqlx::Error> {
    let layers = layers::all(pool).await?;
    let mut current = CurrentFeatures {
        settings: layers
            .iter()
            .map(|layer| (layer.name.clone(), layer.settings))
            .collect(),
        ..CurrentFeatures::default()
    };
    for (name, ids) in ids_by_layer(rows) {
        let Some(layer) = layers.iter().find(|layer| layer.name == *name) else {
            continue;
        };
        match read_layer(pool, layer, &ids, max_bytes).await {
            Ok(features) => current.features.extend(features),
            Err(error) if is_about_the_table(&error) => {
                warn!(layer = %name, error = &error as &dyn std::error::Error, "cannot read the layer; going by boxes");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(current)
}

fn ids_by_layer(rows: &[OutboxRow]) -> BTreeMap<&LayerName, Vec<&str>> {
    let mut ids: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for row in rows {
        if let Record::Edit(edit) = &row.record {
            ids.entry(&edit.key.layer).or_default().push(edit.key.id.as_str());
        }
    }
    for ids in ids.values_mut() {
        ids.sort_unstable();
        ids.dedup();
    }
    ids
}

/// Whether the statement, not the server or the moment, is at fault: anything the server itself answered with, save that
/// the session is broken (class 08) or not what it should be (25), somebody else was in the way (40, 55), there is no room
/// (53), or the server was told to stop (57).
fn is_about_the_table(error: &sqlx::Error) -> bool {
    const PASSING: [&str; 6] = ["08", "25", "40", "53", "55", "57"];
    match error {
        sqlx::Error::Database(error) => !error
            .code()
            .is_some_and(|code| PASSING.iter().any(|class| code.starts_with(class))),
        _ => false,
    }
}

/// The statement that reads a layer's features.
///
/// `LEFT JOIN`s: a feature without a row is a tombstone, and one without a version row is still answered for. The key is
/// compared as the column's own type, so that its index serves; no row can fail the batch, because `tilewake.carried`
/// never raises.
fn statement(layer: &Layer) -> String {
    format!(
        "SELECT key.id, feature.version, feature.deleted, row.stands, row.wkb, row.omitted
         FROM unnest($1::text[]) AS key (id)
         LEFT JOIN tilewake.feature ON feature.layer = $2 AND feature.feature_id = key.id
         LEFT JOIN LATERAL (
             SELECT true AS stands, carried.wkb, carried.omitted
             FROM {table} AS drawn, tilewake.carried(drawn.{geometry}, $3) AS carried
             WHERE drawn.{id} = key.id::{id_type}
         ) AS row ON true",
        table = layer.table,
        geometry = layer.geometry_column,
        id = layer.id_column,
        id_type = layer.id_type,
    )
}

async fn read_layer(
    pool: &PgPool,
    layer: &Layer,
    ids: &[&str],
    max_bytes: i64,
) -> Result<HashMap<FeatureKey, Current>, sqlx::Error> {
    let rows = sqlx::query(AssertSqlSafe(statement(layer)))
        .bind(ids)
        .bind(layer.name.as_str())
        .bind(max_bytes)
        .fetch_all(pool)
        .await?;
    let mut features = HashMap::with_capacity(rows.len());
    for row in rows {
        let key = FeatureKey {
            layer: layer.name.clone(),
            id: FeatureId::new(row.try_get::<String, _>("id")?),
        };
        let Some(version) = row.try_get::<Option<i64>, _>("version")? else {
            continue;
        };
        let current = Current {
            version: Version(version),
            is_deleted: row.try_get("deleted")?,
            row: read_row(&row)?,
        };
        match features.entry(key) {
            Entry::Vacant(entry) => drop(entry.insert(current)),
            // Two rows of one key, as inheritance allows: neither alone is the feature.
            Entry::Occupied(mut entry) => entry.get_mut().row = CurrentRow::Omitted(Omission::NotReadable),
        }
    }
    Ok(features)
}

fn read_row(row: &PgRow) -> Result<CurrentRow, sqlx::Error> {
    if row.try_get::<Option<bool>, _>("stands")?.is_none() {
        return Ok(CurrentRow::Missing);
    }
    match row.try_get::<Option<&str>, _>("omitted")? {
        Some("too_large") => return Ok(CurrentRow::Omitted(Omission::TooLarge)),
        Some(_) => return Ok(CurrentRow::Omitted(Omission::NotEncodable)),
        None => {}
    }
    let Some(wkb) = row.try_get::<Option<&[u8]>, _>("wkb")? else {
        return Ok(CurrentRow::Empty);
    };
    let carried = geometry::from_wkb(wkb)
        .ok()
        .filter(|geometry| edges::check(geometry).is_ok());
    Ok(carried.map_or(CurrentRow::Omitted(Omission::NotEncodable), |geometry| {
        CurrentRow::Geometry(Arc::new(geometry))
    }))
}
