//! The words of the command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use hypercloud_transfer::{Checksum, ImageFormat};

use crate::devices::DevicesArguments;
use crate::export::ExportArguments;
use crate::image::ImageExportArguments;
use crate::node_devices::NodeDevicesArguments;
use crate::rollback::RollbackArguments;
use crate::source::SourceArguments;

/// Work with HyperCloud Storage's disk images.
///
/// Exit codes: 0 done, 1 stopped, 2 usage, 3 the image is refused, 4 the
/// source failed, 5 the target failed.
#[derive(Debug, Parser)]
#[command(version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Devices(Box<DevicesArguments>),
    /// Look at disk images, import and export them
    #[command(subcommand)]
    Image(Box<ImageCommand>),
}

/// Work with HyperCloud Storage's disks and disk images.
///
/// Exit codes: 0 done, 1 stopped, 2 usage, 3 refused, 4 the source or the work
/// of the cluster failed, 5 the target failed.
#[derive(Debug, Parser)]
#[command(version)]
pub(crate) struct PluginArguments {
    #[command(subcommand)]
    pub(crate) command: PluginCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PluginCommand {
    /// Look at disk images, import and export them
    #[command(subcommand)]
    Image(ImageCommand),
    Rollback(RollbackArguments),
    Export(ExportArguments),
    Devices(Box<NodeDevicesArguments>),
}

#[derive(Debug, Subcommand)]
pub(crate) enum ImageCommand {
    /// Tell what an image is, without importing it
    Probe(ProbeArguments),
    /// Write an image onto a block device or into a raw file
    Import(ImportArguments),
    /// Make an object or a file of a disk, as qcow2 or raw
    Export(ImageExportArguments),
}

#[derive(Debug, Args)]
pub(crate) struct ProbeArguments {
    #[command(flatten)]
    pub(crate) source: SourceArguments,
    /// Read a packed disk to its end where only that tells its size
    #[arg(long)]
    pub(crate) measure: bool,
    #[command(flatten)]
    pub(crate) shown: Shown,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArguments {
    #[command(flatten)]
    pub(crate) source: SourceArguments,
    /// A block device, which is overwritten, or a file, which is created
    /// sparse and appears only when it is complete
    pub(crate) target: PathBuf,
    /// What the image's bytes have to be, as sha256:HEX or sha512:HEX
    #[arg(long, value_name = "ALG:HEX")]
    pub(crate) checksum: Option<Checksum>,
    /// What the image has to be
    #[arg(long, value_enum, default_value_t = ImageKind::Auto)]
    pub(crate) format: ImageKind,
    /// Go on where an earlier import with --resume was interrupted, and keep
    /// what a later one needs to go on
    #[arg(long)]
    pub(crate) resume: bool,
    /// Take all of the target's room now, rather than as the disk fills
    #[arg(long)]
    pub(crate) preallocate: bool,
    /// Replace the target file if it exists
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// Ranges requested from a server at once
    #[arg(long, value_name = "NUMBER", default_value_t = 6)]
    #[arg(value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=64))]
    pub(crate) connections: usize,
    #[command(flatten)]
    pub(crate) shown: Shown,
}

#[derive(Debug, Args)]
pub(crate) struct Shown {
    /// How results and progress are shown
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    pub(crate) output: Format,
}

/// What an image is said to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ImageKind {
    /// Whatever it is
    Auto,
    /// A qcow2 image
    Qcow2,
    /// The disk's bytes
    Raw,
}

impl ImageKind {
    pub(crate) fn declared(self) -> Option<ImageFormat> {
        match self {
            Self::Auto => None,
            Self::Qcow2 => Some(ImageFormat::Qcow2),
            Self::Raw => Some(ImageFormat::Raw),
        }
    }
}

/// What a disk is exported as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportKind {
    /// A qcow2 image
    Qcow2,
    /// The disk's bytes
    Raw,
}

impl ExportKind {
    pub(crate) fn of_resource(self) -> hypercloud_api::ExportFormat {
        match self {
            Self::Qcow2 => hypercloud_api::ExportFormat::Qcow2,
            Self::Raw => hypercloud_api::ExportFormat::Raw,
        }
    }
}

/// How the clusters of a qcow2 are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Compression {
    /// Not at all
    None,
    /// With deflate, which every reader of qcow2 knows
    Zlib,
    /// With Zstandard, for QEMU 5.1 and later
    Zstd,
}

impl Compression {
    pub(crate) fn of_resource(self) -> hypercloud_api::ExportCompression {
        match self {
            Self::None => hypercloud_api::ExportCompression::None,
            Self::Zlib => hypercloud_api::ExportCompression::Zlib,
            Self::Zstd => hypercloud_api::ExportCompression::Zstd,
        }
    }

    pub(crate) fn of_engine(self) -> hypercloud_transfer::Compression {
        match self {
            Self::None => hypercloud_transfer::Compression::None,
            Self::Zlib => hypercloud_transfer::Compression::Zlib,
            Self::Zstd => hypercloud_transfer::Compression::Zstd,
        }
    }
}

/// How results are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Text,
    /// For programs: one object a line
    Json,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_words_are_consistent() {
        Arguments::command().debug_assert();
        PluginArguments::command().debug_assert();
    }
}
