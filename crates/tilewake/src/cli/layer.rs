//! `tilewake layer`: which tables are captured, and how they are drawn.

use clap::{Args, Subcommand};
use serde_json::json;
use sqlx::PgPool;
use tilewake_core::layer::{Beyond180, Buffer, LayerName, LayerSettings, Policy, Zooms};

use crate::postgres::layers::{self, Layer, NewLayer};

/// Says which tables are layers.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tilewake layer add roads --table public.roads
  tilewake layer list
  tilewake layer remove roads")]
pub(super) struct LayerCommand {
    /// Where the features are, as `postgres://user@host/database`.
    #[arg(long, global = true, env = "DATABASE_URL", hide_env_values = true)]
    database_url: Option<String>,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Add(Add),
    List(List),
    Remove(Remove),
}

/// Captures every edit of a table from now on.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tilewake layer add roads --table public.roads --zooms 0-14
  tilewake layer add parcels --table cadastre.parcel --id parcel_no --geometry shape --columns use,owner --zooms 12-18

The table gets triggers and nothing else. Adding waits for writers of the table, at most two seconds.")]
struct Add {
    /// What the layer is called in URLs and events: a-z, 0-9, _ and -.
    name: LayerName,
    /// The table, written as in SQL.
    #[arg(long)]
    table: String,
    /// The key: an integer, uuid or text, unique and not null. [default: the primary key]
    #[arg(long, value_name = "COLUMN")]
    id: Option<String>,
    /// The geometry that is drawn. [default: the only one there is]
    #[arg(long, value_name = "COLUMN")]
    geometry: Option<String>,
    /// The columns that tiles show; edits of others make nothing stale. [default: all]
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    columns: Option<Vec<String>>,
    /// The zooms that are drawn.
    #[arg(long, default_value = "0-14")]
    zooms: Zooms,
    /// How far a tile draws beyond its edge, as a fraction of its width.
    #[arg(long, default_value = "64/4096")]
    buffer: Buffer,
    /// Which tiles an edit makes stale.
    #[arg(long, default_value = "footprint")]
    policy: Policy,
    /// Where renderers draw longitudes beyond ±180: both, shifted or wrapped.
    #[arg(long, default_value = "both")]
    beyond_180: Beyond180,
}

/// Shows the layers.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tilewake layer list
  tilewake layer list --json | jq .[].name")]
struct List {
    /// A JSON array instead of a table.
    #[arg(long)]
    json: bool,
}

/// Stops capturing a table; it keeps its rows, and the layer's name its history.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tilewake layer remove roads")]
struct Remove {
    /// The layer.
    name: LayerName,
}

impl LayerCommand {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let url = self.database_url.ok_or_else(|| {
            anyhow::anyhow!(
                "no database is named: set DATABASE_URL, or pass --database-url postgres://user@host/database"
            )
        })?;
        let pool = super::connect(&url).await?;
        match self.action {
            Action::Add(command) => command.run(&pool).await,
            Action::List(command) => command.run(&pool).await,
            Action::Remove(command) => command.run(&pool).await,
        }
    }
}

impl Add {
    async fn run(self, pool: &PgPool) -> anyhow::Result<()> {
        let new = NewLayer {
            name: self.name,
            settings: LayerSettings {
                zooms: self.zooms,
                buffer: self.buffer,
                policy: self.policy,
                beyond_180: self.beyond_180,
            },
            table: self.table,
            id: self.id,
            geometry: self.geometry,
            columns: self.columns,
        };
        let layer = layers::add(pool, &new).await?;
        println!("layer {} captures {}", layer.name, layer.table);
        Ok(())
    }
}

impl List {
    async fn run(self, pool: &PgPool) -> anyhow::Result<()> {
        crate::postgres::check(pool).await?;
        let layers = layers::all(pool).await?;
        if self.json {
            let layers: Vec<_> = layers.iter().map(describe).collect();
            println!("{}", serde_json::Value::from(layers));
        } else {
            println!("{:<24} {:<32} {:<8} {:<10} POLICY", "LAYER", "TABLE", "ZOOMS", "BUFFER");
            for layer in layers {
                let settings = layer.settings;
                println!(
                    "{:<24} {:<32} {:<8} {:<10} {}",
                    layer.name.as_str(),
                    layer.table.to_string(),
                    settings.zooms.to_string(),
                    settings.buffer.to_string(),
                    settings.policy.as_str(),
                );
            }
        }
        Ok(())
    }
}

fn describe(layer: &Layer) -> serde_json::Value {
    json!({
        "name": layer.name,
        "table": layer.table.to_string(),
        "id": layer.id_column.as_str(),
        "geometry": layer.geometry_column.as_str(),
        "columns": layer.columns.iter().map(crate::postgres::Identifier::as_str).collect::<Vec<_>>(),
        "srid": layer.srid,
        "epoch": layer.epoch,
        "settings": layer.settings,
    })
}

impl Remove {
    async fn run(self, pool: &PgPool) -> anyhow::Result<()> {
        layers::remove(pool, &self.name).await?;
        println!("layer {} is no longer captured", self.name);
        Ok(())
    }
}
