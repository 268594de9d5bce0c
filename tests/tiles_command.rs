//! `tilewake tiles`, as a user calls it.

#![expect(clippy::unwrap_used, reason = "a test that cannot start has failed")]

use std::{
    io::Write as _,
    process::{Command, Output, Stdio},
};

use expect_test::{Expect, expect};

const POINT: &str = r#"{"type":"Point","coordinates":[24.94,60.17]}"#;
const MOVED: &str =
    r#"{"type":"Feature","id":"x","properties":{},"geometry":{"type":"Point","coordinates":[24.94,-60.17]}}"#;

/// Runs the command with a file `feature.json`, and with text on its standard input.
fn tiles(arguments: &[&str], file: &str, input: &str) -> Output {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("feature.json"), file).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_tilewake"))
        .arg("tiles")
        .args(arguments)
        .current_dir(directory.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn check(arguments: &[&str], file: &str, input: &str, expected: &Expect) {
    let output = tiles(arguments, file, input);
    assert!(output.status.success(), "{output:?}");
    expected.assert_eq(&String::from_utf8(output.stdout).unwrap());
}

fn refusal(arguments: &[&str], file: &str) -> (Option<i32>, String) {
    let output = tiles(arguments, file, "");
    assert!(output.stdout.is_empty(), "{output:?}");
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_creation_a_deletion_and_a_move_list_their_tiles() {
    let created = expect![[r"
        0/0/0
        1/1/0
        2/2/1
    "]];
    check(&["--after", "feature.json", "--zooms", "0-2"], POINT, "", &created);
    check(&["--before", "-", "--zooms", "0-2"], "", POINT, &created);
    check(
        &[
            "--before",
            "-",
            "--after",
            "feature.json",
            "--zooms",
            "2",
            "--format",
            "count",
        ],
        MOVED,
        POINT,
        &expect![[r"
            zoom         stale      entered         left         kept
            2                2            1            1            0
            all              2            1            1            0
        "]],
    );
}

#[test]
fn an_edit_that_changes_nothing_stales_nothing_under_change_and_pixel() {
    for policy in ["change", "pixel"] {
        let arguments = ["--before", "-", "--after", "feature.json", "--policy", policy];
        check(&arguments, POINT, POINT, &expect![""]);
    }
}

#[test]
fn an_answer_above_the_limit_is_rounded_and_says_so() {
    let line = r#"{"type":"LineString","coordinates":[[-170,-60],[170,60]]}"#;
    let arguments = [
        "--after",
        "feature.json",
        "--zooms",
        "0-20",
        "--format",
        "ranges",
        "--limit",
        "100",
    ];
    let output = tiles(&arguments, line, "");
    assert!(output.status.success());
    assert!(String::from_utf8(output.stdout).unwrap().lines().count() <= 100);
    let note = String::from_utf8(output.stderr).unwrap();
    assert!(
        note.starts_with("note: the answer has more than 100 ranges; from zoom"),
        "{note}"
    );
}

#[test]
fn wrong_words_and_wrong_input_get_a_clear_answer() {
    let (code, message) = refusal(&[], "");
    assert_eq!(code, Some(2));
    assert!(message.contains("--before <FILE>"), "{message}");
    let (code, message) = refusal(&["--after", "feature.json", "--zooms", "14-0"], POINT);
    assert_eq!(code, Some(2));
    assert!(message.contains("is not a range of zooms"), "{message}");
    let (code, message) = refusal(&["--after", "missing.json"], POINT);
    assert_eq!(code, Some(1));
    assert!(message.contains("cannot read missing.json"), "{message}");
    let metres = r#"{"type":"Feature","id":"pier","properties":null,"geometry":{"type":"Point","coordinates":[2776000,8438000]}}"#;
    let (code, message) = refusal(&["--after", "feature.json"], metres);
    assert_eq!(code, Some(1));
    assert!(message.contains("feature pier cannot be drawn"), "{message}");
}
