//! Tells a person what is being done and how long each part took.

use anyhow::{Context, Result};
use std::time::Instant;

/// Runs one part under its name.
pub fn phase<T>(name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let begun = Instant::now();
    eprintln!("==> {name}");
    let outcome = work().with_context(|| name.to_owned())?;
    eprintln!("    {:.1} s", begun.elapsed().as_secs_f64());
    Ok(outcome)
}
