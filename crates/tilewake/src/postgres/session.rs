//! Sessions that nobody has to wait for: opened with a clear error, and ended by the server itself when their process
//! freezes or its machine goes away.

use std::{io, time::Duration};

use sqlx::{
    ConnectOptions as _, Connection as _, PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};

/// How long the server may take to accept a session, and a pool to have one free.
const OPEN_BOUND: Duration = Duration::from_secs(10);

/// How far the server lets a frozen process sit on its locks beyond the bound it works under.
const FROZEN_AFTER: Duration = Duration::from_secs(5);

/// Reads a URL. Any scheme would do for the driver, and lead to some Postgres on this machine.
pub fn options(url: &str) -> Result<PgConnectOptions, sqlx::Error> {
    if ["postgres://", "postgresql://"]
        .iter()
        .any(|scheme| url.starts_with(scheme))
    {
        return url.parse();
    }
    let rule = "a database URL reads postgres://user@host/database";
    Err(sqlx::Error::Configuration(rule.into()))
}

/// A pool of sessions; fails at once, and with the server's own words, where a first session cannot be opened.
///
/// A pool alone would go on trying, and say in the end only that it took too long.
pub async fn open(options: PgConnectOptions, n_sessions: u32) -> Result<PgPool, sqlx::Error> {
    let first = tokio::time::timeout(OPEN_BOUND, options.connect()).await;
    first
        .unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()))?
        .close()
        .await?;
    Ok(pool(options, n_sessions))
}

/// A pool whose sessions are opened when they are first needed.
#[must_use]
pub fn pool(options: PgConnectOptions, n_sessions: u32) -> PgPool {
    PgPoolOptions::new()
        .max_connections(n_sessions)
        .acquire_timeout(OPEN_BOUND)
        .connect_lazy_with(options)
}

/// Has the server end whatever a process holds that has stood still for a little longer than `bound`: a transaction that
/// it does not go on with, an answer that it does not read, a machine that is not there any more. Nor does a session
/// wait for a lock for longer than `bound`.
#[must_use]
pub fn bounded(options: PgConnectOptions, application_name: &str, bound: Duration) -> PgConnectOptions {
    let milliseconds = |time: Duration| time.as_millis().to_string();
    options.application_name(application_name).options([
        (
            "idle_in_transaction_session_timeout",
            milliseconds(bound + FROZEN_AFTER),
        ),
        ("tcp_user_timeout", milliseconds(bound + FROZEN_AFTER)),
        ("lock_timeout", milliseconds(bound)),
        ("tcp_keepalives_idle", "10".to_owned()),
        ("tcp_keepalives_interval", "5".to_owned()),
        ("tcp_keepalives_count", "3".to_owned()),
    ])
}
