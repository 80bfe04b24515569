//! What is shown: for people, or a JSON object a line for programs.
//!
//! Results go to standard output. For people, progress and errors go to
//! standard error; for programs everything is on standard output, in order.

use std::io::Write;

use hypercloud_transfer::{Checksum, Exported, Imported, Observer, Progress, SourceFacts};
use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use crate::arguments::Format;
use crate::image::Failure;

/// One line for programs.
#[derive(Serialize)]
#[serde(
    tag = "event",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
enum Event<'a> {
    Facts(&'a SourceFacts),
    Progress(Progress),
    Verifying,
    Done {
        #[serde(flatten)]
        progress: Progress,
        #[serde(skip_serializing_if = "Option::is_none")]
        digest: Option<&'a Checksum>,
    },
    #[serde(rename = "done")]
    Exported {
        target: &'a str,
        #[serde(flatten)]
        progress: Progress,
        size: u64,
        virtual_size: u64,
        #[serde(skip_serializing_if = "Option::is_none")]
        etag: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        checksum: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        address: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        digest: Option<&'a Checksum>,
    },
    Left {
        upload: &'a str,
        message: &'a str,
    },
    Failed {
        reason: &'a str,
        message: String,
    },
}

/// Shows the course of a command.
pub(crate) struct Reporter {
    format: Format,
    bar: ProgressBar,
}

impl Reporter {
    pub(crate) fn new(format: Format) -> Self {
        // Draws nothing where standard error is no terminal.
        let bar = match format {
            Format::Text => ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()),
            Format::Json => ProgressBar::hidden(),
        };
        let style = ProgressStyle::with_template(
            "{msg:10} [{bar:30}] {percent:>3}% {bytes} of {total_bytes}, {binary_bytes_per_sec}, {eta} left",
        );
        if let Ok(style) = style {
            bar.set_style(style.progress_chars("=> "));
        }
        Self { format, bar }
    }

    fn tell(&self, event: &Event<'_>) {
        if self.format == Format::Json
            && let Ok(line) = serde_json::to_string(event)
        {
            print(&line);
        }
    }

    pub(crate) fn probed(&self, facts: &SourceFacts) {
        match self.format {
            Format::Json => {
                if let Ok(line) = serde_json::to_string(facts) {
                    print(&line);
                }
            }
            Format::Text => print(&described(facts)),
        }
    }

    pub(crate) fn imported(&self, imported: &Imported) {
        self.bar.finish_and_clear();
        let progress = imported.progress;
        self.tell(&Event::Done {
            progress,
            digest: imported.digest.as_ref(),
        });
        if self.format == Format::Text {
            print(&format!(
                "imported a {} disk of {}: received {}, wrote {}",
                imported.facts.format,
                HumanBytes(progress.total),
                HumanBytes(progress.received),
                HumanBytes(progress.written),
            ));
        }
    }

    /// How far an export is.
    pub(crate) fn exporting(&self, progress: Progress) {
        self.tell(&Event::Progress(progress));
        self.bar.set_message("exporting");
        self.bar.set_length(progress.total);
        self.bar.set_position(progress.done);
    }

    /// All of an export is stored.
    pub(crate) fn completing(&self) {
        self.tell(&Event::Verifying);
        self.bar.set_message("completing");
    }

    /// A disk became what is at `target`.
    pub(crate) fn exported(&self, target: &str, exported: &Exported) {
        self.bar.finish_and_clear();
        let Exported {
            progress,
            size,
            virtual_size,
            digest,
            etag,
            checksum,
            address,
        } = exported;
        self.tell(&Event::Exported {
            target,
            progress: *progress,
            size: *size,
            virtual_size: *virtual_size,
            etag: etag.as_deref(),
            checksum: checksum.as_deref(),
            address: address.as_deref(),
            digest: digest.as_ref(),
        });
        if self.format == Format::Text {
            print(&format!(
                "exported a disk of {}: read {}, stored {} ({size} bytes) as {target}",
                HumanBytes(*virtual_size),
                HumanBytes(progress.received),
                HumanBytes(*size),
            ));
            let told = [
                ("address", address.clone()),
                ("etag", etag.clone()),
                ("checksum", checksum.clone()),
                ("disk", digest.as_ref().map(ToString::to_string)),
            ];
            for (what, value) in told {
                if let Some(value) = value {
                    print(&format!("{what}: {value}"));
                }
            }
        }
    }

    /// Parts of an upload may still be in the store.
    pub(crate) fn left(&self, upload: &str, message: &str) {
        self.tell(&Event::Left { upload, message });
        if self.format == Format::Text {
            let words = "the store may keep parts of the upload";
            self.bar
                .suspend(|| eprintln!("warning: {words} {upload}: {message}"));
        }
    }

    pub(crate) fn failed(&self, failure: &Failure) {
        self.bar.finish_and_clear();
        match self.format {
            Format::Json => {
                let message = failure.to_string();
                self.tell(&Event::Failed {
                    reason: failure.reason(),
                    message,
                });
            }
            Format::Text => eprintln!("error: {failure} ({})", failure.reason()),
        }
    }
}

impl Observer for Reporter {
    fn facts(&self, facts: &SourceFacts) {
        self.tell(&Event::Facts(facts));
        if let Some(size) = facts.virtual_size {
            self.bar.set_length(size);
        }
        self.bar.set_message("importing");
    }

    fn progress(&self, progress: Progress) {
        self.tell(&Event::Progress(progress));
        self.bar.set_position(progress.done);
    }

    fn verifying(&self) {
        self.tell(&Event::Verifying);
        self.bar.set_message("verifying");
    }
}

/// Writes a line; whoever closed the pipe does not want it.
pub(crate) fn print(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn described(facts: &SourceFacts) -> String {
    let size = |bytes: u64| format!("{} ({bytes} bytes)", HumanBytes(bytes));
    let unknown = || "unknown".to_owned();
    [
        ("format", facts.format.to_string()),
        (
            "virtual size",
            facts.virtual_size.map_or_else(unknown, size),
        ),
        ("source size", facts.source_size.map_or_else(unknown, size)),
        ("validator", facts.validator.clone().unwrap_or_else(unknown)),
        ("ranges", if facts.ranges { "yes" } else { "no" }.to_owned()),
    ]
    .map(|(name, value)| format!("{:14}{value}", format!("{name}:")))
    .join("\n")
}
