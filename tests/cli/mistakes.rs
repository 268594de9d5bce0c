//! Wrong words, wrong files, wrong databases: each is told what to do, with exit code 2 for words and 1 for the rest.

use std::{io::Write, net::TcpListener};

use expect_test::expect;
use tilewake_testbed::postgres::Server;

use crate::said::Terminal;

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_cannot_be_used() {
    let nowhere = "--database-url postgres://me@127.0.0.1:1/map";
    Terminal::bare()
        .check(
            &[
                "migrate",
                "layer list",
                "status",
                "run",
                &format!("status {nowhere}"),
                &format!("layer list {nowhere}"),
                &format!("run {nowhere}"),
                "status --database-url mysql://me@localhost/map",
                "run --database-url localhost/map",
            ],
            expect![[r#"
                $ tilewake migrate
                error: the following required arguments were not provided:
                  --database-url <DATABASE_URL>

                Usage: tilewake migrate --database-url <DATABASE_URL> --log <FILTER>

                For more information, try '--help'.
                = 2
                $ tilewake layer list
                error: no database is named: set DATABASE_URL, or pass --database-url postgres://user@host/database
                = 1
                $ tilewake status
                error: the following required arguments were not provided:
                  --database-url <DATABASE_URL>

                Usage: tilewake status --database-url <DATABASE_URL> --log <FILTER>

                For more information, try '--help'.
                = 2
                $ tilewake run
                error: no database is named: set DATABASE_URL, pass --database-url postgres://user@host/database, or write database_url in the file given with --config
                = 1
                $ tilewake status --database-url postgres://me@127.0.0.1:1/map
                error: cannot connect to the features' database; check the URL, and that the server runs: error communicating with database: Connection refused (os error 111)
                = 1
                $ tilewake layer list --database-url postgres://me@127.0.0.1:1/map
                error: cannot connect to the features' database; check the URL, and that the server runs: error communicating with database: Connection refused (os error 111)
                = 1
                $ tilewake run --database-url postgres://me@127.0.0.1:1/map
                error: cannot connect to the features' database; check the URL, and that the server runs: error communicating with database: Connection refused (os error 111)
                = 1
                $ tilewake status --database-url mysql://me@localhost/map
                error: cannot connect to the features' database; check the URL, and that the server runs: error with configuration: a database URL reads postgres://user@host/database
                = 1
                $ tilewake run --database-url localhost/map
                error: cannot connect to the features' database; check the URL, and that the server runs: error with configuration: a database URL reads postgres://user@host/database
                = 1
            "#]],
        )
        .await;
    let bare = Server::shared().bare_database().await.unwrap();
    Terminal::on(&bare)
        .check(
            &[
                "status",
                "layer list",
                "layer add roads --table roads",
                "run",
                "migrate",
            ],
            expect![[r#"
                $ tilewake status
                error: this database has no tables of tilewake: run tilewake migrate
                = 1
                $ tilewake layer list
                error: this database has no tables of tilewake: run tilewake migrate
                = 1
                $ tilewake layer add roads --table roads
                error: this database has no PostGIS: run CREATE EXTENSION postgis and then tilewake migrate
                = 1
                $ tilewake run
                error: the features' database cannot be used: this database has no tables of tilewake: run tilewake migrate
                = 1
                $ tilewake migrate
                error: this database has no PostGIS: run CREATE EXTENSION postgis in it, as a superuser or its owner
                = 1
            "#]],
        )
        .await;
    let missing = bare
        .url()
        .replace(bare.options().get_database().unwrap(), "no_such_map");
    let said = Terminal::bare().with("DATABASE_URL", &missing).says("migrate").await;
    assert!(
        said.contains(r#"database "no_such_map" does not exist"#) && said.ends_with("= 1\n"),
        "{said}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_in_use() {
    let database = Server::shared().database().await.unwrap();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let terminal = Terminal::on(&database).calling(&address, "ADDRESS");
    terminal
        .check(&["migrate", &format!("run --listen {address}")], expect![[r#"
            $ tilewake migrate
            the schema tilewake is at this version
            = 0
            $ tilewake run --listen ADDRESS
            error: cannot listen on ADDRESS; is something else listening there? port 0 takes a free one: Address already in use (os error 98)
            = 1
        "#]])
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn words_that_mean_nothing() {
    Terminal::bare()
        .with("DATABASE_URL", "postgres://never@asked/for")
        .check(
            &[
                "layer add Roads --table roads",
                "layer add roads",
                "layer add roads --table roads --zooms 0-40",
                "layer add roads --table roads --zooms 9-3",
                "layer add roads --table roads --buffer 64",
                "layer add roads --table roads --policy exact",
                "layer add roads --table roads --beyond-180 never",
                "run --poll soon",
                "run --listen 3000",
                "run --relay 2",
                "statis",
                "--log loud=very status",
            ],
            expect![[r#"
                $ tilewake layer add Roads --table roads
                error: invalid value 'Roads' for '<NAME>': "Roads" cannot name a layer: use 1 to 63 of the characters a-z, 0-9, _ and -

                For more information, try '--help'.
                = 2
                $ tilewake layer add roads
                error: the following required arguments were not provided:
                  --table <TABLE>

                Usage: tilewake layer add --table <TABLE> --database-url <DATABASE_URL> --log <FILTER> <NAME>

                For more information, try '--help'.
                = 2
                $ tilewake layer add roads --table roads --zooms 0-40
                error: invalid value '0-40' for '--zooms <ZOOMS>': "0-40" is not a range of zooms: write 0-14, or 12 for one zoom; the deepest is 28

                For more information, try '--help'.
                = 2
                $ tilewake layer add roads --table roads --zooms 9-3
                error: invalid value '9-3' for '--zooms <ZOOMS>': "9-3" is not a range of zooms: write 0-14, or 12 for one zoom; the deepest is 28

                For more information, try '--help'.
                = 2
                $ tilewake layer add roads --table roads --buffer 64
                error: invalid value '64' for '--buffer <BUFFER>': "64" is not a buffer: write a fraction of a tile from 0 to 1, such as 64/4096 or 0.015625

                For more information, try '--help'.
                = 2
                $ tilewake layer add roads --table roads --policy exact
                error: invalid value 'exact' for '--policy <POLICY>': "exact" is no staleness policy: there are footprint, change and pixel

                For more information, try '--help'.
                = 2
                $ tilewake layer add roads --table roads --beyond-180 never
                error: invalid value 'never' for '--beyond-180 <BEYOND_180>': "never" is no reading of longitudes beyond 180: there are both, shifted and wrapped

                For more information, try '--help'.
                = 2
                $ tilewake run --poll soon
                error: invalid value 'soon' for '--poll <POLL>': write a number with its unit, such as 500ms, 30s or 7days

                For more information, try '--help'.
                = 2
                $ tilewake run --listen 3000
                error: invalid value '3000' for '--listen <LISTEN>': write an IP address and a port, such as 127.0.0.1:3000 or 0.0.0.0:80

                For more information, try '--help'.
                = 2
                $ tilewake run --relay 2
                error: unexpected argument '--relay' found

                  tip: a similar argument exists: '--relays'

                Usage: tilewake run --relays <RELAYS>

                For more information, try '--help'.
                = 2
                $ tilewake statis
                error: unrecognized subcommand 'statis'

                  tip: a similar subcommand exists: 'status'

                Usage: tilewake [OPTIONS] <COMMAND>

                For more information, try '--help'.
                = 2
                $ tilewake --log loud=very status
                error: --log "loud=very" is no filter: error parsing level filter: expected one of "off", "error", "warn", "info", "debug", "trace", or a number 0-5
                = 2
            "#]],
        )
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_that_cannot_work() {
    for (text, expected) in [
        (
            "cache_byte = 1",
            expect![[r#"
            $ tilewake run --config FILE
            error: FILE sets "cache_byte", which is no setting; the nearest is "cache_bytes"
            = 1
        "#]],
        ),
        (
            "batch = 'many'",
            expect![[r#"
            $ tilewake run --config FILE
            error: cannot use the configuration file FILE: TOML parse error at line 1, column 9
              |
            1 | batch = 'many'
              |         ^^^^^^
            invalid type: string "many", expected i64

            = 1
        "#]],
        ),
        (
            "batch = ",
            expect![[r#"
            $ tilewake run --config FILE
            error: cannot use the configuration file FILE: TOML parse error at line 1, column 9
              |
            1 | batch = 
              |         ^
            string values must be quoted, expected literal string

            = 1
        "#]],
        ),
        (
            "batch = 0",
            expect![[r#"
            $ tilewake run --config FILE
            error: batch is 0: it must be from 1 to 10000
            = 1
        "#]],
        ),
        (
            "relays = 1000",
            expect![[r#"
            $ tilewake run --config FILE
            error: relays is 1000: it must be at most 64, and 0 runs none
            = 1
        "#]],
        ),
        (
            "publish_bound = '0s'",
            expect![[r#"
            $ tilewake run --config FILE
            error: publish_bound is 0s: it must be from 100ms to 1h
            = 1
        "#]],
        ),
        (
            "max_attempts = 4000000000",
            expect![[r#"
            $ tilewake run --config FILE
            error: max_attempts is 4000000000: it must be from 1 to 1000
            = 1
        "#]],
        ),
        (
            "window = '30days'",
            expect![[r#"
            $ tilewake run --config FILE
            error: window is 30days: the outbox keeps at most 7 days
            = 1
        "#]],
        ),
    ] {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        let path = file.path().display().to_string();
        Terminal::bare()
            .with("DATABASE_URL", "postgres://never@asked/for")
            .calling(&path, "FILE")
            .check(&[&format!("run --config {path}")], expected)
            .await;
    }
    Terminal::bare()
        .check(
            &["run --config /no/such/file.toml"],
            expect![[r#"
            $ tilewake run --config /no/such/file.toml
            error: cannot read the configuration file /no/such/file.toml: No such file or directory (os error 2)
            = 1
        "#]],
        )
        .await;
}
