//! Rows of the ledger's tables, read and written.

use sqlx::{Row, postgres::PgRow};
use tilewake_core::{
    feature::{Epoch, FeatureId, FeatureKey, LonLatBox, Shape, Version},
    geometry,
    layer::{LayerName, LayerSettings},
    ledger::{LayerState, LedgerKey, LedgerRow},
    timeline::Timeline,
};

use super::{super::values, LedgerError, failed};

pub(super) fn wkb_of(shape: Option<&Shape>) -> Option<Vec<u8>> {
    match shape {
        Some(Shape::Geometry(geometry)) => Some(geometry::to_wkb(geometry)),
        _ => None,
    }
}

pub(super) fn box_of(shape: Option<&Shape>) -> Option<String> {
    match shape {
        Some(Shape::Box(b)) => Some(values::box_text(b)),
        _ => None,
    }
}

pub(super) fn read_layer(row: &PgRow) -> Result<(LayerName, LayerState), sqlx::Error> {
    let name: String = row.try_get("layer")?;
    let name = LayerName::new(&name).map_err(|error| sqlx::Error::Decode(error.into()))?;
    let settings_epoch: Option<i64> = row.try_get("settings_epoch")?;
    let settings: Option<sqlx::types::Json<LayerSettings>> = row.try_get("settings")?;
    let settings = settings_epoch
        .zip(settings)
        .map(|(epoch, settings)| (Epoch(epoch), settings.0));
    let raised: Vec<i64> = row.try_get("raised")?;
    Ok((
        name,
        LayerState {
            epoch: Epoch(row.try_get("epoch")?),
            raised: raised.into_iter().map(Epoch).collect(),
            settings,
        },
    ))
}

/// `None` beside the key of a row that was inserted only to be locked: the core knows how such a feature begins.
pub(super) fn read_row(row: &PgRow) -> Result<(LedgerKey, Option<LedgerRow>), LedgerError> {
    let (key, columns) = read_columns(row).map_err(failed("read ledger rows"))?;
    if columns.is_new {
        return Ok((key, None));
    }
    let timeline = columns.timeline().map_err(|source| LedgerError::Corrupt {
        feature: format!("{}/{}", key.feature.layer, key.feature.id),
        source,
    })?;
    Ok((
        key,
        Some(LedgerRow {
            timeline,
            certain_from: columns.certain_from.map(Version),
        }),
    ))
}

struct Columns {
    watermark: i64,
    seen: String,
    state_version: Option<i64>,
    geometry: Option<Vec<u8>>,
    box_text: Option<String>,
    certain_from: Option<i64>,
    is_new: bool,
}

impl Columns {
    fn timeline(&self) -> Result<Timeline, values::InvalidValue> {
        let newest = match self.state_version {
            None => None,
            Some(version) => Some((Version(version), self.shape()?)),
        };
        Ok(Timeline::restore(
            Version(self.watermark),
            values::read_multirange(&self.seen)?,
            newest,
        ))
    }

    fn shape(&self) -> Result<Shape, values::InvalidValue> {
        if let Some(wkb) = &self.geometry {
            return Ok(Shape::Geometry(geometry::from_wkb(wkb)?.into()));
        }
        let b: Option<LonLatBox> = self.box_text.as_deref().map(values::read_box).transpose()?;
        Ok(Shape::of_box(b))
    }
}

fn read_columns(row: &PgRow) -> Result<(LedgerKey, Columns), sqlx::Error> {
    let layer: String = row.try_get("layer")?;
    let layer = LayerName::new(&layer).map_err(|error| sqlx::Error::Decode(error.into()))?;
    let id = FeatureId::new(row.try_get::<String, _>("feature_id")?);
    let key = LedgerKey {
        feature: FeatureKey { layer, id },
        epoch: Epoch(row.try_get("epoch")?),
    };
    let columns = Columns {
        watermark: row.try_get("watermark")?,
        seen: row.try_get("seen")?,
        state_version: row.try_get("state_version")?,
        geometry: row.try_get("geometry")?,
        box_text: row.try_get("box")?,
        certain_from: row.try_get("certain_from")?,
        is_new: row.try_get("is_new")?,
    };
    Ok((key, columns))
}
