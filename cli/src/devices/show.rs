//! Devices as tables.

use std::io::Write as _;

use hypercloud_api::quantity::for_people;
use hypercloud_inventory::{Device, Inventory};

/// To a closed pipe there is nothing to say.
pub(super) fn print(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{}", text.trim_end());
}

pub(super) fn table(inventory: &Inventory) -> String {
    let head = [
        "NAME",
        "KIND",
        "SIZE",
        "CLASS",
        "MODEL",
        "AVAILABLE",
        "REASONS",
    ];
    let rows = inventory.devices.iter().map(|device| {
        [
            name(device),
            word(&device.kind),
            for_people(device.size),
            device.device_class.as_ref().map(word).unwrap_or_default(),
            device.model.clone().unwrap_or_default(),
            if device.available { "yes" } else { "no" }.into(),
            codes(device),
        ]
    });
    aligned(head, rows)
}

pub(super) fn wide(inventory: &Inventory) -> String {
    let head = [
        "NAME",
        "KIND",
        "SIZE",
        "CLASS",
        "TRANSPORT",
        "VENDOR",
        "MODEL",
        "SERIAL",
        "WWN",
        "HOLDS",
        "MOUNTS",
        "BY-ID",
        "AVAILABLE",
        "REASONS",
    ];
    let rows = inventory.devices.iter().map(|device| {
        let identity = &device.identity;
        let by_id = identity.by_id.as_deref().unwrap_or_default();
        [
            name(device),
            word(&device.kind),
            for_people(device.size),
            device.device_class.as_ref().map(word).unwrap_or_default(),
            device.transport.as_ref().map(word).unwrap_or_default(),
            device.vendor.clone().unwrap_or_default(),
            device.model.clone().unwrap_or_default(),
            identity.serial.clone().unwrap_or_default(),
            identity.wwn.clone().unwrap_or_default(),
            device
                .file_system
                .as_ref()
                .map(|held| held.kind.clone())
                .unwrap_or_default(),
            device.mounts.join(","),
            by_id.trim_start_matches("/dev/disk/by-id/").into(),
            if device.available { "yes" } else { "no" }.into(),
            messages(device),
        ]
    });
    aligned(head, rows)
}

/// Partitions stand below their disk.
fn name(device: &Device) -> String {
    match device.disk {
        Some(_) => format!("  {}", device.name),
        None => device.name.clone(),
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

/// Columns side by side. What a device says of itself may hold anything, so
/// nothing but printable characters is shown.
fn aligned<const N: usize>(head: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let mut lines = vec![head.map(String::from)];
    lines.extend(rows.map(|row| row.map(|cell| plain(&cell))));
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|line| line.get(column));
        cells
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or_default()
    };
    let widths: Vec<usize> = (0..N).map(width).collect();
    lines
        .iter()
        .map(|line| {
            let cells: Vec<String> = line
                .iter()
                .zip(&widths)
                .map(|(cell, &width)| format!("{cell:width$}"))
                .collect();
            cells.join("   ").trim_end().to_owned() + "\n"
        })
        .collect()
}

fn plain(cell: &str) -> String {
    if cell.is_empty() {
        return "-".into();
    }
    cell.chars()
        .map(|c| if c.is_control() { '?' } else { c })
        .collect()
}
