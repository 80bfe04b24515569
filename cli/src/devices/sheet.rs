//! What is printed of devices: all of it, and then, where they are watched,
//! what has changed.

use std::io::Write as _;

use hypercloud_inventory::rook::Storage;
use serde::Serialize;

use super::table::{Group, Table};
use super::wanted::Output;

/// Devices that can be shown in every form.
pub(crate) trait Shown {
    /// Everything that is known, for programs.
    type Document: Serialize;

    /// The devices node by node.
    fn groups(&self) -> Vec<Group<'_>>;
    /// Everything that is known.
    fn document(&self) -> &Self::Document;
    /// What has to be said beside the devices.
    fn notes(&self) -> Vec<String>;
    /// What Rook is given, and what has to be said of the rest.
    ///
    /// # Errors
    /// Why Rook can be given nothing.
    fn storage(&self) -> Result<(Storage, Vec<String>), String>;
}

/// What is printed at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Page {
    /// For standard output.
    pub(crate) text: String,
    /// For standard error, line by line.
    pub(crate) notes: Vec<String>,
}

impl Page {
    /// Prints it. To a closed pipe there is nothing to say.
    pub(crate) fn print(&self) {
        for note in &self.notes {
            eprintln!("{note}");
        }
        if !self.text.is_empty() {
            let mut out = std::io::stdout().lock();
            let _ = writeln!(out, "{}", self.text.trim_end());
            let _ = out.flush();
        }
    }
}

/// What is printed, page after page.
pub(crate) struct Sheet {
    output: Output,
    follows: bool,
    table: Table,
    last: Page,
}

impl Sheet {
    /// An empty one; with `follows` there will be more than one page.
    pub(crate) fn new(output: Output, follows: bool) -> Self {
        Self {
            output,
            follows,
            table: Table::new(output == Output::Wide),
            last: Page::default(),
        }
    }

    /// What has to be printed now that the devices are these.
    ///
    /// # Errors
    /// Why they cannot be shown in this form.
    pub(crate) fn page(&mut self, shown: &impl Shown) -> Result<Page, String> {
        let mut notes = shown.notes();
        let text = match self.output {
            // It knows by itself what it has shown.
            Output::Table | Output::Wide => self.table.changes(&shown.groups()),
            Output::Json if self.follows => line(shown.document())?,
            Output::Json => json(shown.document())?,
            Output::Yaml => self.document(shown.document())?,
            Output::Rook => {
                let (storage, more) = shown.storage()?;
                notes.extend(more);
                self.document(&Spec { storage })?
            }
        };
        let whole = Page { text, notes };
        let mut page = whole.clone();
        let is_table = matches!(self.output, Output::Table | Output::Wide);
        if !is_table && page.text == self.last.text {
            page.text.clear();
        }
        page.notes.retain(|note| !self.last.notes.contains(note));
        self.last = whole;
        Ok(page)
    }

    fn document<T: Serialize>(&self, value: &T) -> Result<String, String> {
        let text = serde_yaml::to_string(value).map_err(|error| error.to_string())?;
        let begin = if self.follows { "---\n" } else { "" };
        Ok(format!("{begin}{text}"))
    }
}

/// What goes below a CephCluster's `spec`.
#[derive(Serialize)]
struct Spec {
    storage: Storage,
}

fn json<T: Serialize>(value: &T) -> Result<String, String> {
    serde_json::to_string_pretty(value).map_err(|error| error.to_string())
}

fn line<T: Serialize>(value: &T) -> Result<String, String> {
    serde_json::to_string(value).map_err(|error| error.to_string())
}
