//! Reads the map of Helsinki that comes with the project.

use std::io::{BufRead, BufReader};

use anyhow::{Context, Result, ensure};
use flate2::bufread::GzDecoder;
use serde::Deserialize;
use serde_json::Value;

/// © OpenStreetMap contributors, see `fixtures/README.md`. In the program, so that it runs from anywhere.
const HELSINKI: &[u8] = include_bytes!("../../../../../fixtures/helsinki-base.ndjson.gz");

/// A way of the map.
#[derive(Deserialize)]
pub(crate) struct Feature {
    pub(crate) id: i64,
    /// `building`, `road` or `area`.
    pub(crate) layer: String,
    pub(crate) tags: serde_json::Map<String, Value>,
    /// GeoJSON.
    pub(crate) geometry: Value,
}

impl Feature {
    /// What is written on it.
    pub(crate) fn name(&self) -> Option<&str> {
        self.tag("name")
    }

    /// What it is.
    pub(crate) fn class(&self) -> &str {
        const KEYS: [&str; 5] = ["highway", "building", "leisure", "landuse", "natural"];
        KEYS.iter().find_map(|key| self.tag(key)).unwrap_or("other")
    }

    fn tag(&self, key: &str) -> Option<&str> {
        self.tags.get(key).and_then(Value::as_str)
    }

    /// Longitudes and latitudes of its vertices.
    pub(crate) fn vertices(&self) -> Vec<(f64, f64)> {
        let mut found = Vec::new();
        collect_vertices(&self.geometry["coordinates"], &mut found);
        found
    }
}

/// Every feature of the map.
pub(crate) fn read() -> Result<Vec<Feature>> {
    let lines = BufReader::new(GzDecoder::new(HELSINKI)).lines();
    let features = lines
        .map(|line| Ok(serde_json::from_str(&line?)?))
        .collect::<Result<Vec<Feature>>>();
    let features = features.context("could not read the map of Helsinki")?;
    ensure!(!features.is_empty(), "the map of Helsinki is empty");
    Ok(features)
}

fn collect_vertices(coordinates: &Value, found: &mut Vec<(f64, f64)>) {
    let Some(list) = coordinates.as_array() else { return };
    if let [lon, lat, ..] = &list[..]
        && let (Some(lon), Some(lat)) = (lon.as_f64(), lat.as_f64())
    {
        found.push((lon, lat));
        return;
    }
    for inner in list {
        collect_vertices(inner, found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_has_its_three_kinds_of_features_in_helsinki() {
        let map = read().unwrap();
        let count = |layer: &str| map.iter().filter(|feature| feature.layer == layer).count();
        assert_eq!([count("building"), count("road"), count("area")], [385, 2417, 350]);
        for (lon, lat) in map.iter().flat_map(Feature::vertices) {
            assert!(
                (24.9..25.0).contains(&lon) && (60.1..60.2).contains(&lat),
                "{lon} {lat}"
            );
        }
    }
}
