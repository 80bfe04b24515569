//! Tries the cluster's storage as a user would.
use crate::settings::Settings;
use anyhow::Result;
/// Runs it.
pub fn run(_settings: &Settings) -> Result<()> {
    Ok(())
}
