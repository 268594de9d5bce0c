//! `tilewake status`: is anything late, and where?

use clap::Args;

use crate::postgres::status::{self, Overview};

/// Shows what waits where: outbox, ledger, journal, cursors.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  tilewake status --database-url postgres://me@localhost/map
  tilewake status --json | jq .outbox.unpublished_rows")]
pub(super) struct Status {
    /// Where the features are, as `postgres://user@host/database`.
    #[arg(long, env = "DATABASE_URL", hide_env_values = true)]
    database_url: String,
    /// One JSON object instead of a table.
    #[arg(long)]
    json: bool,
}

impl Status {
    pub(super) async fn run(self) -> anyhow::Result<()> {
        let pool = super::connect(&self.database_url).await?;
        crate::postgres::check(&pool).await?;
        let overview = status::read(&pool).await?;
        if self.json {
            println!("{}", serde_json::to_string(&overview)?);
        } else {
            print!("{}", table(&overview));
        }
        Ok(())
    }
}

fn table(overview: &Overview) -> String {
    use std::fmt::Write as _;
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name:<34} {value}");
    };
    line("outbox: unpublished rows", overview.outbox.unpublished_rows.to_string());
    line(
        "outbox: oldest unpublished",
        format!("{:.1} s", overview.outbox.oldest_unpublished_seconds),
    );
    line("outbox: rows that failed and wait", overview.retrying_rows.to_string());
    line("dead letters", overview.dead_letters.to_string());
    for layer in &overview.layers {
        line(
            &format!("layer {}: epoch", layer.name),
            format!("{} ({} features edited)", layer.epoch, layer.features),
        );
    }
    for consumer in &overview.consumers {
        let name = &consumer.name;
        line(
            &format!("consumer {name}: ledger rows"),
            consumer.ledger_rows.to_string(),
        );
        line(&format!("consumer {name}: open gaps"), consumer.open_gaps.to_string());
        line(
            &format!("consumer {name}: journal"),
            format!("{} of {}", consumer.journal_rows, consumer.journal_number),
        );
        for cursor in &consumer.cursors {
            let behind = consumer.journal_number - cursor.purged;
            line(
                &format!("consumer {name}: target {}", cursor.target),
                format!("{behind} rows behind"),
            );
        }
    }
    text
}
