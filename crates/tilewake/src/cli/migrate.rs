//! `tilewake migrate`: the tables and functions of this version.

use clap::Args;

use crate::postgres;

/// Creates tilewake's tables and functions, or brings them to this version.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tilewake migrate --database-url postgres://me@localhost/map

Everything is made in the schema tilewake; no table of yours is touched. Safe to run again.")]
pub(super) struct Migrate {
    /// Where the features are, as `postgres://user@host/database`.
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    database_url: String,
}

impl Migrate {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let pool = super::connect(&self.database_url).await?;
        postgres::migrate(&pool).await?;
        println!("the schema tilewake is at this version");
        Ok(())
    }
}
