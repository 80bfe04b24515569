//! Repository chores: generated files and the checks that keep the design.

mod chart;
mod generate;
mod tidy;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

/// Repository chores of HyperCloud Storage.
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write the generated files: protocol code, CRDs, the chart's templates.
    Generate {
        /// Change nothing; fail if a committed file is not current.
        #[arg(long)]
        check: bool,
    },
    /// Check the dependency rules and the conventions of the source tree.
    Tidy,
}

fn main() -> anyhow::Result<()> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .canonicalize()?;
    match Arguments::parse().command {
        Command::Generate { check } => generate::run(&root, check),
        Command::Tidy => tidy::run(&root),
    }
}
