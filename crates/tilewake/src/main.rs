//! The `tilewake` command.

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    tilewake::cli::main(tilewake::cli::Cli::parse())
}
