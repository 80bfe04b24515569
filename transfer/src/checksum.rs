//! Checksums of a source's bytes, as people write them: `sha256:HEX`.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A hash function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Algorithm {
    /// SHA-256 (FIPS 180-4).
    Sha256,
    /// SHA-512 (FIPS 180-4).
    Sha512,
}

impl Algorithm {
    /// Bytes of a digest.
    #[must_use]
    pub fn length(self) -> usize {
        match self {
            Self::Sha256 => 32,
            Self::Sha512 => 64,
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sha256 => "sha256",
            Self::Sha512 => "sha512",
        })
    }
}

/// A digest with its algorithm. Reads and shows as `sha256:HEX`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Checksum {
    algorithm: Algorithm,
    digest: Vec<u8>,
}

/// Text that is no checksum.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChecksumError {
    /// No known algorithm before a colon.
    #[error("a checksum begins with sha256: or sha512:")]
    Algorithm,
    /// Not as many hexadecimal digits as the algorithm gives.
    #[error("a {0} checksum has {digits} hexadecimal digits", digits = .0.length() * 2)]
    Digits(Algorithm),
}

impl Checksum {
    /// A digest of the algorithm's length; `None` for one of another.
    #[must_use]
    pub fn new(algorithm: Algorithm, digest: Vec<u8>) -> Option<Self> {
        (digest.len() == algorithm.length()).then_some(Self { algorithm, digest })
    }

    /// The hash function.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes that hexadecimal digits stand for.
pub(crate) fn bytes(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).map(|digit| digit as u8);
    text.as_bytes()
        .chunks(2)
        .map(|pair| match pair {
            [high, low] => Some(digit(high)? << 4 | digit(low)?),
            _ => None,
        })
        .collect()
}

impl FromStr for Checksum {
    type Err = ChecksumError;

    fn from_str(text: &str) -> Result<Self, ChecksumError> {
        let (name, hex) = text.split_once(':').ok_or(ChecksumError::Algorithm)?;
        let algorithm = match name {
            "sha256" => Algorithm::Sha256,
            "sha512" => Algorithm::Sha512,
            _ => return Err(ChecksumError::Algorithm),
        };
        bytes(hex)
            .and_then(|digest| Self::new(algorithm, digest))
            .ok_or(ChecksumError::Digits(algorithm))
    }
}

impl TryFrom<String> for Checksum {
    type Error = ChecksumError;

    fn try_from(text: String) -> Result<Self, ChecksumError> {
        text.parse()
    }
}

impl From<Checksum> for String {
    fn from(checksum: Checksum) -> Self {
        checksum.to_string()
    }
}

impl fmt::Display for Checksum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.algorithm, hex(&self.digest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_read_as_they_show() {
        for (algorithm, digits) in [("sha256", 64), ("sha512", 128)] {
            let text = format!("{algorithm}:{}", "0a9f".repeat(digits / 4));
            let checksum: Checksum = text.parse().unwrap();
            assert_eq!(checksum.to_string(), text);
            assert_eq!(
                text.to_uppercase().parse::<Checksum>(),
                Err(ChecksumError::Algorithm)
            );
        }
        let upper = format!("sha256:{}", "AB".repeat(32));
        assert_eq!(
            upper.parse::<Checksum>().unwrap().to_string(),
            upper.to_lowercase().replace("SHA", "sha")
        );
    }

    #[test]
    fn anything_else_is_refused() {
        let long = format!("sha256:{}", "0".repeat(66));
        let odd = format!("sha256:{}", "0".repeat(63));
        let other = format!("sha256:{}g", "0".repeat(63));
        for text in [
            &long,
            &odd,
            &other,
            "sha256:",
            &format!("sha256:{}", "é".repeat(32)),
        ] {
            assert_eq!(
                text.parse::<Checksum>(),
                Err(ChecksumError::Digits(Algorithm::Sha256)),
                "{text}"
            );
        }
        for text in ["", "md5:00", "0".repeat(64).as_str()] {
            assert_eq!(
                text.parse::<Checksum>(),
                Err(ChecksumError::Algorithm),
                "{text}"
            );
        }
    }
}
