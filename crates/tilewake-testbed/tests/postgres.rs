//! What tests may rely on when they ask for a Postgres.

#![expect(clippy::unwrap_used, reason = "a failed test may panic anywhere")]

use sqlx::{Connection, Executor, PgConnection};
use tilewake_testbed::postgres::Server;

async fn value(connection: &mut PgConnection, sql: &'static str) -> String {
    sqlx::query_scalar(sql).fetch_one(connection).await.unwrap()
}

#[tokio::test]
async fn every_database_is_new_and_has_postgis() {
    let [a, b] = [
        Server::shared().database().await.unwrap(),
        Server::shared().database().await.unwrap(),
    ];
    let mut a = a.connect().await.unwrap();
    a.execute("CREATE TABLE t (geom geometry)").await.unwrap();
    let mut b = b.connect().await.unwrap();
    assert_eq!(
        value(&mut b, "SELECT coalesce(to_regclass('t')::text, 'none')").await,
        "none"
    );
    assert_eq!(value(&mut b, "SELECT ST_AsText(ST_Point(1, 2))").await, "POINT(1 2)");
}

#[tokio::test]
async fn a_bare_database_has_no_postgis() {
    let database = Server::shared().bare_database().await.unwrap();
    let mut connection = database.connect().await.unwrap();
    assert!(connection.execute("SELECT ST_Point(1, 2)").await.is_err());
}

#[tokio::test]
async fn a_dropped_database_is_gone() {
    let database = Server::shared().database().await.unwrap();
    let options = database.options();
    drop(database);
    assert!(PgConnection::connect_with(&options).await.is_err());
}

/// The opposite of what most tests want, and what the crash tests stand on: an asynchronous commit may be lost.
#[tokio::test]
async fn a_killed_server_keeps_what_was_flushed_and_loses_what_was_not() {
    let mut server = Server::private(&[("wal_writer_delay", "10s")]).unwrap();
    let database = server.database().await.unwrap();
    let mut connection = database.connect().await.unwrap();
    connection.execute("CREATE TABLE t (a int)").await.unwrap();
    connection.execute("INSERT INTO t VALUES (1)").await.unwrap();
    connection.execute("SET synchronous_commit = off").await.unwrap();
    connection.execute("INSERT INTO t VALUES (2)").await.unwrap();

    server.kill_9().unwrap();
    assert!(database.connect().await.is_err());
    server.restart().unwrap();

    let mut connection = database.connect().await.unwrap();
    assert_eq!(
        value(&mut connection, "SELECT string_agg(a::text, ',') FROM t").await,
        "1"
    );
}
