//! Sizes: Kubernetes quantities in bytes, and bytes for people.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Why a quantity is not a size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{quantity:?} is not a size: write bytes or a number with Ki, Mi, Gi, Ti, k, M, G, T")]
pub struct QuantityError {
    /// What stood there.
    pub quantity: String,
}

/// Suffixes of a quantity with their factor, longest first.
const SUFFIXES: [(&str, u128); 13] = [
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
    ("Pi", 1 << 50),
    ("Ei", 1 << 60),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
    ("P", 1_000_000_000_000_000),
    ("E", 1_000_000_000_000_000_000),
    ("", 1),
];

/// Bytes of `quantity`, rounded up to a whole byte.
///
/// Exponents (`1e3`) and milli-units, which no one writes for a volume, are
/// errors.
pub fn bytes(quantity: &Quantity) -> Result<u64, QuantityError> {
    let text = quantity.0.trim();
    let error = || QuantityError {
        quantity: quantity.0.clone(),
    };
    let (number, factor) = SUFFIXES
        .iter()
        .find_map(|(suffix, factor)| text.strip_suffix(suffix).map(|n| (n, *factor)))
        .ok_or_else(error)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || (whole.is_empty() && fraction.is_empty()) {
        return Err(error());
    }
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > 18 {
        return Err(error());
    }
    let parse = |s: &str| {
        if s.is_empty() {
            Ok(0)
        } else {
            s.parse::<u128>()
        }
    };
    let whole = parse(whole).map_err(|_| error())?;
    let scale = 10u128.pow(fraction.len() as u32);
    let part = parse(fraction).map_err(|_| error())? * factor;
    let sum = whole
        .checked_mul(factor)
        .and_then(|w| w.checked_add(part.div_ceil(scale)))
        .ok_or_else(error)?;
    u64::try_from(sum).map_err(|_| error())
}

/// `bytes` as a quantity: in Mi where it is a whole number of them.
pub fn from_bytes(bytes: u64) -> Quantity {
    const MI: u64 = 1 << 20;
    if bytes > 0 && bytes.is_multiple_of(MI) {
        Quantity(format!("{}Mi", bytes / MI))
    } else {
        Quantity(bytes.to_string())
    }
}

/// `bytes` for people: three significant digits at most, `2.2Gi`.
pub fn for_people(bytes: u64) -> String {
    let units = ["Ti", "Gi", "Mi", "Ki"];
    for (i, unit) in units.iter().enumerate() {
        let factor = 1u64 << (10 * (units.len() - i));
        if bytes >= factor {
            let value = bytes as f64 / factor as f64;
            let tenths = (value * 10.0).round() / 10.0;
            return if tenths.fract() == 0.0 || value >= 100.0 {
                format!("{value:.0}{unit}")
            } else {
                format!("{value:.1}{unit}")
            };
        }
    }
    format!("{bytes}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<u64, QuantityError> {
        bytes(&Quantity(text.into()))
    }

    #[test]
    fn quantities_are_read_as_kubernetes_reads_them() {
        assert_eq!(parse("10Gi"), Ok(10 << 30));
        assert_eq!(parse("1.5Gi"), Ok(3 << 29));
        assert_eq!(parse("500M"), Ok(500_000_000));
        assert_eq!(parse("0.5"), Ok(1));
        assert_eq!(parse("1024"), Ok(1024));
    }

    #[test]
    fn what_is_no_size_is_an_error() {
        for text in ["", "Gi", "-1", "1e3", "ten", "1.2.3", "99999999Ei", "1m"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_for_people() {
        assert_eq!(for_people(512), "512");
        assert_eq!(for_people(10 << 30), "10Gi");
        assert_eq!(for_people(2_361_393_152), "2.2Gi");
        assert_eq!(for_people((1 << 30) - 1), "1024Mi");
    }

    #[test]
    fn bytes_survive_a_round_trip() {
        for n in [0, 1, 1 << 20, (1 << 20) + 512, 10 << 30] {
            assert_eq!(bytes(&from_bytes(n)), Ok(n));
        }
    }
}
