//! Draws a tile from PostGIS.

use tilewake_core::layer::{LayerName, Zooms};

use super::cache::Abandoned;

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
