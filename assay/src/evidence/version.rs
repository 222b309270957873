//! Which versions of the bundle are read. Pure.

/// A version of the bundle's format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaVersion {
    /// The first and only one.
    V1,
}

impl SchemaVersion {
    /// The version that is written.
    pub const WRITTEN: Self = Self::V1;

    /// The number in `schema_version`.
    pub fn number(self) -> u16 {
        match self {
            Self::V1 => 1,
        }
    }

    /// The version of this number, or `None` when nothing here reads it.
    pub fn of(number: u64) -> Option<Self> {
        match number {
            1 => Some(Self::V1),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_nothing_unknown_is() {
        assert_eq!(SchemaVersion::of(SchemaVersion::WRITTEN.number().into()), Some(SchemaVersion::WRITTEN));
        assert_eq!(SchemaVersion::of(0), None);
        assert_eq!(SchemaVersion::of(2), None);
    }
}
