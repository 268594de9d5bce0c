//! `tilewake tiles`: which tiles does this edit make stale? Asks no database.

mod write;

use std::{
    fs,
    io::{self, BufWriter, Read as _, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context as _, bail, ensure};
use clap::{Args, ValueEnum};
use geo_types::Geometry;
use geojson::{Feature, GeoJson, feature::Id};
use tilewake_core::{
    cover::{Cover, CoverLimits},
    edges,
    event::Changed,
    feature::Shape,
    layer::{Beyond180, Buffer, LayerSettings, Policy, Zooms},
    staleness::{footprint, stale_cover},
};

/// Lists the tiles that an edit makes stale, from the geometry before and after it.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tilewake tiles --after new.geojson --zooms 0-14
  tilewake tiles --before old.geojson --after new.geojson --zooms 10-18 --policy change --format count
  psql -Atc 'SELECT ST_AsGeoJSON(geom) FROM roads WHERE id = 7' | tilewake tiles --after - --zooms 0-16 > expire.list

Files hold one GeoJSON geometry or Feature. If both are Features with different properties, it is an edit of attributes
too: every tile that draws the feature is stale.")]
pub(super) struct Tiles {
    /// The feature before the edit; left out if the edit created it. `-` is standard input.
    #[arg(long, value_name = "FILE", required_unless_present = "after")]
    before: Option<PathBuf>,
    /// The feature after the edit; left out if the edit deleted it. `-` is standard input.
    #[arg(long, value_name = "FILE")]
    after: Option<PathBuf>,
    /// The zooms to look at.
    #[arg(long, default_value = "0-14")]
    zooms: Zooms,
    /// How far a tile draws beyond its edge, as a fraction of its width.
    #[arg(long, default_value = "64/4096")]
    buffer: Buffer,
    /// Which tiles an edit makes stale: footprint, change or pixel.
    #[arg(long, default_value = "footprint")]
    policy: Policy,
    /// Where renderers draw longitudes beyond ±180: both, shifted or wrapped.
    #[arg(long, default_value = "both")]
    beyond_180: Beyond180,
    /// What to write.
    #[arg(long, default_value = "xyz")]
    format: Format,
    /// The most ranges of tile ids to answer with. An answer that has more is rounded outwards, and says so.
    #[arg(long, value_name = "N", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    /// One z/x/y a line.
    Xyz,
    /// One range of PMTiles tile ids a line: first and last.
    Ranges,
    /// The tiles' outlines, to look at.
    Geojson,
    /// A table: how many tiles of each zoom the feature enters, leaves and keeps.
    Count,
}

/// A feature as a file has it.
#[derive(Debug, PartialEq)]
struct Version {
    shape: Shape,
    properties: Option<geojson::JsonObject>,
}

impl Tiles {
    pub(super) fn run(self) -> anyhow::Result<()> {
        let is_input = |file: &Option<PathBuf>| file.as_deref() == Some(Path::new("-"));
        ensure!(
            !(is_input(&self.before) && is_input(&self.after)),
            "standard input holds one feature: give the other one as a file"
        );
        let (before, after) = (read(self.before.as_deref())?, read(self.after.as_deref())?);
        let stale = self.stale(&before, &after);
        let written = self.write(&stale, &before.shape, &after.shape);
        match written {
            // Whoever reads has read enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            written => written.context("cannot write the tiles"),
        }
    }

    fn settings(&self) -> LayerSettings {
        LayerSettings {
            zooms: self.zooms,
            buffer: self.buffer,
            policy: self.policy,
            beyond_180: self.beyond_180,
        }
    }

    fn limits(&self) -> CoverLimits {
        CoverLimits {
            max_ranges: self.limit.try_into().unwrap_or(usize::MAX),
        }
    }

    /// The stale tiles in at most so many ranges as allowed; says so if they are rounded.
    fn stale(&self, before: &Version, after: &Version) -> Cover {
        let changed = what_changed(before, after);
        let limits = self.limits();
        let mut stale = stale_cover(&before.shape, &after.shape, changed, &self.settings(), limits);
        if let Some(zoom) = stale.rounded_from {
            eprintln!(
                "note: the answer has more than {} ranges; from zoom {zoom} on it is rounded outwards (--limit allows more)",
                self.limit
            );
        }
        let n_ranges = stale.tiles.ranges().len();
        if n_ranges > limits.max_ranges {
            stale.tiles = stale.tiles.coarsen(limits.max_ranges);
            eprintln!(
                "note: {n_ranges} ranges were joined to {}, over the gaps between them (--limit allows more)",
                self.limit
            );
        }
        stale
    }

    fn write(&self, stale: &Cover, before: &Shape, after: &Shape) -> io::Result<()> {
        let mut out = BufWriter::new(io::stdout().lock());
        match self.format {
            Format::Xyz => write::xyz(&stale.tiles, &mut out)?,
            Format::Ranges => write::ranges(&stale.tiles, &mut out)?,
            Format::Geojson => write::geojson(&stale.tiles, &mut out)?,
            Format::Count => {
                let [before, after] = [before, after].map(|shape| footprint(shape, &self.settings(), self.limits()));
                write::counts(&stale.tiles, &before, &after, &mut out)?;
            }
        }
        out.flush()
    }
}

/// An edit is one of geometry unless the properties tell more.
fn what_changed(before: &Version, after: &Version) -> Changed {
    match (&before.properties, &after.properties) {
        (Some(old), Some(new)) if old != new => Changed::Both,
        _ => Changed::Geometry,
    }
}

fn read(file: Option<&Path>) -> anyhow::Result<Version> {
    let Some(file) = file else {
        return Ok(Version {
            shape: Shape::Absent,
            properties: None,
        });
    };
    let (name, text) = if file == Path::new("-") {
        let mut text = String::new();
        io::stdin()
            .read_to_string(&mut text)
            .context("cannot read standard input")?;
        ("standard input".to_owned(), text)
    } else {
        let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        (file.display().to_string(), text)
    };
    parse(&text).with_context(|| format!("cannot use {name}"))
}

fn parse(text: &str) -> anyhow::Result<Version> {
    let feature = match text.parse::<GeoJson>().context("it is no GeoJSON")? {
        GeoJson::Geometry(geometry) => Feature::from(geometry),
        GeoJson::Feature(feature) => feature,
        GeoJson::FeatureCollection(all) => bail!(
            "it holds a collection of {} features; give one geometry or Feature",
            all.features.len()
        ),
    };
    let named = match &feature.id {
        Some(Id::String(id)) => format!("feature {id}"),
        Some(Id::Number(id)) => format!("feature {id}"),
        None => "its feature".to_owned(),
    };
    let shape = match feature.geometry {
        None => Shape::Absent,
        Some(geometry) => {
            let geometry = Geometry::try_from(geometry).with_context(|| format!("{named} has no usable geometry"))?;
            edges::check(&geometry).with_context(|| format!("{named} cannot be drawn"))?;
            Shape::Geometry(Arc::new(geometry))
        }
    };
    Ok(Version {
        shape,
        properties: feature.properties,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        format!("{:#}", parse(text).unwrap_err())
    }

    #[test]
    fn a_geometry_a_feature_and_a_feature_without_geometry_are_read() {
        let point = r#"{"type":"Point","coordinates":[1,2]}"#;
        let alone = parse(point).unwrap();
        let feature = parse(&format!(
            r#"{{"type":"Feature","geometry":{point},"properties":{{"a":1}}}}"#
        ))
        .unwrap();
        assert_eq!(alone.shape, feature.shape);
        assert_eq!(what_changed(&alone, &feature), Changed::Geometry);
        let nowhere = parse(r#"{"type":"Feature","geometry":null,"properties":{"a":2}}"#).unwrap();
        assert_eq!(nowhere.shape, Shape::Absent);
        assert_eq!(what_changed(&feature, &nowhere), Changed::Both);
    }

    #[test]
    fn what_cannot_be_drawn_is_refused_by_name() {
        let far = r#"{"type":"Feature","id":7,"geometry":{"type":"Point","coordinates":[1e300,0]},"properties":null}"#;
        assert!(
            error(far).starts_with("feature 7 cannot be drawn: the coordinate"),
            "{}",
            error(far)
        );
        assert!(error(r#"{"type":"Point","coordinates":[1e999,0]}"#).contains("no GeoJSON"));
        assert!(error(r#"{"type":"FeatureCollection","features":[]}"#).contains("collection of 0 features"));
        assert!(error("{").contains("no GeoJSON"));
    }

    #[test]
    fn deep_nesting_is_refused() {
        let nested = |depth: usize| {
            let open = r#"{"type":"GeometryCollection","geometries":["#.repeat(depth);
            format!("{open}{}", "]}".repeat(depth))
        };
        assert!(parse(&nested(20)).is_ok());
        assert!(error(&nested(50)).contains("nested deeper"));
        assert!(error(&nested(100_000)).contains("no GeoJSON"));
    }
}
