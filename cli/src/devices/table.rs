//! Devices as tables. Values in, text out.

use std::collections::BTreeMap;

use hypercloud_api::quantity::for_people;
use hypercloud_inventory::Device;

/// The devices of a node.
pub(crate) struct Group<'a> {
    /// The node, where several are shown.
    pub(crate) node: Option<NodeCells>,
    /// Its devices that are shown.
    pub(crate) devices: Vec<&'a Device>,
}

/// What a table says of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeCells {
    /// Its name.
    pub(crate) name: String,
    /// Whether the devices are what it has now.
    pub(crate) state: String,
    /// What stands in the place of reasons where no device is shown; nothing
    /// where the node is not worth a line then.
    pub(crate) message: Option<String>,
}

/// A column of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Column {
    Node,
    State,
    Name,
    Kind,
    Size,
    Class,
    Transport,
    Vendor,
    Model,
    Serial,
    Wwn,
    Holds,
    Mounts,
    ById,
    Available,
    Codes,
    Messages,
}

const NODE: &[Column] = &[Column::Node, Column::State];

const NARROW: &[Column] = &[
    Column::Name,
    Column::Kind,
    Column::Size,
    Column::Class,
    Column::Model,
    Column::Available,
    Column::Codes,
];

const WIDE: &[Column] = &[
    Column::Name,
    Column::Kind,
    Column::Size,
    Column::Class,
    Column::Transport,
    Column::Vendor,
    Column::Model,
    Column::Serial,
    Column::Wwn,
    Column::Holds,
    Column::Mounts,
    Column::ById,
    Column::Available,
    Column::Messages,
];

impl Column {
    fn head(self) -> &'static str {
        match self {
            Self::Node => "NODE",
            Self::State => "STATE",
            Self::Name => "NAME",
            Self::Kind => "KIND",
            Self::Size => "SIZE",
            Self::Class => "CLASS",
            Self::Transport => "TRANSPORT",
            Self::Vendor => "VENDOR",
            Self::Model => "MODEL",
            Self::Serial => "SERIAL",
            Self::Wwn => "WWN",
            Self::Holds => "HOLDS",
            Self::Mounts => "MOUNTS",
            Self::ById => "BY-ID",
            Self::Available => "AVAILABLE",
            Self::Codes | Self::Messages => "REASONS",
        }
    }

    fn of_node(self, node: &NodeCells) -> String {
        match self {
            Self::Node => node.name.clone(),
            Self::State => node.state.clone(),
            _ => String::new(),
        }
    }

    /// What stands in it for a device; what stands there for its node is
    /// another's to say.
    fn of_device(self, device: &Device) -> String {
        let identity = &device.identity;
        match self {
            Self::Node | Self::State => String::new(),
            // Partitions stand below their disk.
            Self::Name if device.disk.is_some() => format!("  {}", device.name),
            Self::Name => device.name.clone(),
            Self::Kind => word(&device.kind),
            Self::Size => for_people(device.size),
            Self::Class => device.device_class.as_ref().map(word).unwrap_or_default(),
            Self::Transport => device.transport.as_ref().map(word).unwrap_or_default(),
            Self::Vendor => device.vendor.clone().unwrap_or_default(),
            Self::Model => device.model.clone().unwrap_or_default(),
            Self::Serial => identity.serial.clone().unwrap_or_default(),
            Self::Wwn => identity.wwn.clone().unwrap_or_default(),
            Self::Holds => {
                let held = device.file_system.as_ref();
                held.map(|held| held.kind.clone()).unwrap_or_default()
            }
            Self::Mounts => device.mounts.join(","),
            Self::ById => {
                let link = identity.by_id.as_deref().unwrap_or_default();
                link.trim_start_matches("/dev/disk/by-id/").to_owned()
            }
            Self::Available => if device.available { "yes" } else { "no" }.to_owned(),
            Self::Codes => codes(device),
            Self::Messages => messages(device),
        }
    }
}

/// A value by its word in JSON.
fn word<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_value(value)
        .ok()
        .and_then(|value| value.as_str().map(str::to_owned))
        .unwrap_or_default()
}

fn codes(device: &Device) -> String {
    let mut codes: Vec<&str> = device.reasons.iter().map(|reason| reason.code()).collect();
    codes.dedup();
    codes.join(",")
}

fn messages(device: &Device) -> String {
    let phrases: Vec<String> = device.reasons.iter().map(ToString::to_string).collect();
    phrases.join("; ")
}

/// Which line is meant, whatever stands in it: node and device.
type Key = (String, String);

/// A table that grows by what changes.
pub(crate) struct Table {
    columns: &'static [Column],
    /// The width of each column, which only grows.
    widths: Vec<usize>,
    shown: BTreeMap<Key, Vec<String>>,
}

impl Table {
    pub(crate) fn new(wide: bool) -> Self {
        Self {
            columns: if wide { WIDE } else { NARROW },
            widths: Vec::new(),
            shown: BTreeMap::new(),
        }
    }

    /// The lines that are new or say something else than before, and one for
    /// each device that is gone; at first all, with the head.
    pub(crate) fn changes(&mut self, groups: &[Group<'_>]) -> String {
        let has_nodes = groups.iter().any(|group| group.node.is_some());
        let node = if has_nodes { NODE } else { &[] };
        let columns: Vec<Column> = node.iter().chain(self.columns).copied().collect();
        let rows: Vec<(Key, Vec<String>)> = groups
            .iter()
            .flat_map(|group| rows(group, &columns))
            .collect();
        let mut lines: Vec<Vec<String>> = Vec::new();
        if self.widths.len() != columns.len() {
            self.widths = vec![0; columns.len()];
            lines.push(columns.iter().map(|column| column.head().into()).collect());
        }
        for (key, cells) in &rows {
            if self.shown.get(key) != Some(cells) {
                lines.push(cells.clone());
            }
        }
        let now: BTreeMap<Key, Vec<String>> = rows.into_iter().collect();
        for (key, cells) in &self.shown {
            // A line that only said why there is no device.
            if !now.contains_key(key) && !key.1.is_empty() {
                lines.push(gone(&columns, cells));
            }
        }
        self.shown = now;
        self.aligned(&lines)
    }

    /// Columns side by side.
    fn aligned(&mut self, lines: &[Vec<String>]) -> String {
        for line in lines {
            for (width, cell) in self.widths.iter_mut().zip(line) {
                *width = (*width).max(cell.chars().count());
            }
        }
        lines
            .iter()
            .map(|line| {
                let cells: Vec<String> = line
                    .iter()
                    .zip(&self.widths)
                    .map(|(cell, &width)| format!("{cell:width$}"))
                    .collect();
                cells.join("   ").trim_end().to_owned() + "\n"
            })
            .collect()
    }
}

fn rows(group: &Group<'_>, columns: &[Column]) -> Vec<(Key, Vec<String>)> {
    let node = group.node.as_ref();
    let name = node.map(|node| node.name.clone()).unwrap_or_default();
    let of_node = |column: &Column| node.map(|node| column.of_node(node)).unwrap_or_default();
    let row = |device: &&Device| {
        let cells = columns.iter().map(|column| {
            let cell = of_node(column);
            plain(&if cell.is_empty() {
                column.of_device(device)
            } else {
                cell
            })
        });
        let cells: Vec<String> = cells.collect();
        ((name.clone(), device.name.clone()), cells)
    };
    if group.devices.is_empty()
        && let Some(message) = node.and_then(|node| node.message.as_ref())
    {
        let cells = columns.iter().map(|column| match column {
            Column::Codes | Column::Messages => plain(message),
            column => plain(&of_node(column)),
        });
        return vec![((name.clone(), String::new()), cells.collect())];
    }
    group.devices.iter().map(row).collect()
}

/// The line of a device that is there no more.
fn gone(columns: &[Column], cells: &[String]) -> Vec<String> {
    let cells = columns.iter().zip(cells);
    cells
        .map(|(column, cell)| match column {
            Column::Node | Column::State | Column::Name | Column::Kind => cell.clone(),
            Column::Available => "gone".to_owned(),
            _ => "-".to_owned(),
        })
        .collect()
}

/// What a device says of itself may hold anything, so nothing but printable
/// characters is shown.
pub(crate) fn plain(cell: &str) -> String {
    if cell.is_empty() {
        return "-".into();
    }
    cell.chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use hypercloud_inventory::{Identity, Kind};

    use super::*;

    fn device(name: &str, size: u64) -> Device {
        let value = serde_json::json!({"name": name, "path": format!("/dev/{name}"),
            "kind": Kind::Disk, "available": true, "identity": Identity::default(),
            "size": size});
        serde_json::from_value(value).unwrap()
    }

    fn node(name: &str, message: Option<&str>) -> Option<NodeCells> {
        Some(NodeCells {
            name: name.into(),
            state: "Current".into(),
            message: message.map(str::to_owned),
        })
    }

    #[test]
    fn what_changes_is_told_and_nothing_else() {
        let (sda, sdb) = (device("sda", 1 << 30), device("sdb", 2 << 30));
        let group = |devices: &[&'static str]| {
            let all = [&sda, &sdb];
            let named = all
                .into_iter()
                .filter(|d| devices.contains(&d.name.as_str()));
            Group {
                node: node("n1", None),
                devices: named.collect(),
            }
        };
        let mut table = Table::new(false);
        let first = table.changes(&[group(&["sda"])]);
        let lines: Vec<_> = first.lines().collect();
        assert_eq!(lines.len(), 2, "{first}");
        assert!(lines[0].starts_with("NODE   STATE     NAME"), "{first}");
        assert!(
            lines[1].starts_with("n1     Current   sda    disk   1Gi"),
            "{first}"
        );
        assert_eq!(table.changes(&[group(&["sda"])]), "");
        let more = table.changes(&[group(&["sda", "sdb"])]);
        assert_eq!(more.lines().count(), 1, "{more}");
        assert!(more.contains("sdb    disk   2Gi"), "{more}");
        let less = table.changes(&[group(&["sdb"])]);
        assert!(less.contains("sda") && less.contains("gone"), "{less}");
        assert_eq!(less.lines().count(), 1, "{less}");
    }

    #[test]
    fn a_node_without_devices_says_why() {
        let group = |message| Group {
            node: node("n1", message),
            devices: Vec::new(),
        };
        let mut table = Table::new(false);
        let told = table.changes(&[group(Some("no agent runs there"))]);
        assert!(told.ends_with("no agent runs there\n"), "{told}");
        // It is no device that could be gone.
        assert_eq!(table.changes(&[group(None)]), "");
    }
}
