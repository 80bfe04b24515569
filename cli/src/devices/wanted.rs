//! Which devices are shown, and how.

use clap::{Args, ValueEnum};
use hypercloud_api::quantity;
use hypercloud_inventory::rook::Selector;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Which devices are shown.
#[derive(Debug, Default, Args)]
pub(crate) struct Wanted {
    /// Only devices of at least this size, such as 100Gi
    #[arg(long, value_name = "SIZE", value_parser = size)]
    min_size: Option<u64>,
    /// Only devices that turn, or with `false` that do not
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    rotational: Option<bool>,
    /// Only devices with this in their model, in either case
    #[arg(long, value_name = "TEXT")]
    model: Option<String>,
}

impl Wanted {
    /// What tells the devices that are shown from others.
    pub(crate) fn selector(&self) -> Selector {
        Selector {
            min_size: self.min_size,
            rotational: self.rotational,
            model: self.model.clone(),
        }
    }
}

/// How devices are shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// A line for each device
    #[default]
    Table,
    /// The same with what identifies it
    Wide,
    /// Everything, for programs
    Json,
    /// Everything, for programs and people
    Yaml,
    /// The available devices for Rook
    Rook,
}

/// Bytes of a size as Kubernetes writes it.
fn size(text: &str) -> Result<u64, quantity::QuantityError> {
    quantity::bytes(&Quantity(text.to_owned()))
}
