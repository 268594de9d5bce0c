//! What the commands show: help, layers, status.

use expect_test::expect;
use serde_json::{Value, json};
use tilewake_testbed::postgres::{Database, Server};

use crate::{
    program::{output, tilewake},
    said::{Terminal, sql},
};

#[tokio::test(flavor = "multi_thread")]
async fn the_help_of_every_command_shows_examples() {
    for command in [
        "",
        "migrate",
        "layer",
        "layer add",
        "layer list",
        "layer remove",
        "run",
        "status",
    ] {
        let arguments = command.split(' ').filter(|word| !word.is_empty()).chain(["--help"]);
        let output = output(tilewake().args(arguments)).await;
        assert!(output.status.success());
        let help = String::from_utf8(output.stdout).unwrap();
        let examples = help.split_once("Examples:").map(|(_, examples)| examples.trim_start());
        assert!(
            examples.is_some_and(|examples| examples.starts_with(&format!("tilewake {command}"))),
            "tilewake {command} --help: {help}"
        );
    }
}

/// What a command prints, as JSON.
async fn json_of(database: &Database, arguments: &[&str]) -> Value {
    let output = output(tilewake().env("DATABASE_URL", database.url()).args(arguments)).await;
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn layers_and_status_are_shown_to_people_and_to_programs() {
    let database = Server::shared().database().await.unwrap();
    sql(
        &database,
        "CREATE TABLE places (id bigint PRIMARY KEY, name text, geom geometry(Point, 4326))",
    )
    .await;
    let terminal = Terminal::on(&database);
    terminal
        .check(
            &[
                "migrate",
                "layer add places --table places --zooms 3-9 --policy pixel",
                "layer list",
            ],
            expect![[r#"
                $ tilewake migrate
                the schema tilewake is at this version
                = 0
                $ tilewake layer add places --table places --zooms 3-9 --policy pixel
                layer places captures "public"."places"
                = 0
                $ tilewake layer list
                LAYER                    TABLE                            ZOOMS    BUFFER     POLICY
                places                   "public"."places"                3-9      64/4096    pixel
                = 0
            "#]],
        )
        .await;
    let mut layers = json_of(&database, &["layer", "list", "--json"]).await;
    let epoch = layers[0]["epoch"].take();
    assert!(epoch.as_i64().unwrap() > 1_700_000_000_000);
    assert_eq!(
        layers,
        json!([{
            "name": "places", "table": "\"public\".\"places\"", "id": "id", "geometry": "geom", "columns": ["name"],
            "srid": 4326, "epoch": null,
            "settings": {"zooms": "3-9", "buffer": 0.015_625, "policy": "pixel", "beyond_180": "both"},
        }])
    );
    sql(
        &database,
        "INSERT INTO places SELECT i, 'n', ST_Point(i, i, 4326) FROM generate_series(1, 3) i",
    )
    .await;
    let status = json_of(&database, &["status", "--json"]).await;
    // Three edits, and the epoch that adding the layer has raised.
    assert_eq!(status["outbox"]["unpublished_rows"], 4);
    assert!(status["outbox"]["oldest_unpublished_seconds"].as_f64().unwrap() > 0.0);
    assert_eq!(
        status["layers"],
        json!([{"name": "places", "epoch": epoch, "features": 3}])
    );
    assert_eq!(status["consumers"], json!([]));
    let table = terminal.calling(&epoch.to_string(), "EPOCH").says("status").await;
    assert!(table.contains("outbox: unpublished rows           4\n"), "{table}");
    assert!(table.contains("EPOCH (3 features edited)"), "{table}");
}
