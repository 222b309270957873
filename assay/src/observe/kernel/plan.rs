//! Facts about this kernel → what can be attached, and what stays unseen. Pure.

use assay_common::offsets::{FIELDS, MISSING, Offsets};

/// What this kernel's BTF allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Where the fields are.
    pub offsets: Offsets,
    /// Fields the observer can do without, which this kernel does not have, as `struct.field`.
    pub missing: Vec<String>,
}

/// Structs of `io_uring` whose absence leaves it unseen. The address of a message is read from others where it can.
const URING_STRUCTS: [&str; 9] = [
    "filename",
    "io_kiocb",
    "io_cqe",
    "io_open",
    "io_unlink",
    "io_rename",
    "io_mkdir",
    "io_link",
    "io_connect",
];

impl Plan {
    /// Whether requests to an `io_uring` can be read here.
    pub fn can_read_uring(&self) -> bool {
        !self.missing.iter().any(|field| URING_STRUCTS.iter().any(|of| field.split('.').next() == Some(of)))
    }
}

impl Plan {
    /// Whether the kernel's own copies of names can be read here.
    pub fn can_take_names(&self) -> bool {
        let of_names = ["filename.name", "filename.uptr", "filename.iname", "kmem_cache.name"];
        !self.missing.iter().any(|field| of_names.contains(&field.as_str()))
    }
}

/// This kernel lacks a field that no program works without.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("find `{0}` in the kernel's BTF: this kernel is not one the observer knows")]
pub struct PlanError(String);

/// Decides from the offsets found.
pub fn plan(offsets: Offsets) -> Result<Plan, PlanError> {
    let mut fields = FIELDS.iter();
    let mut missing = Vec::new();
    for offset in offsets.fields() {
        let field = fields.next().expect("the table and the list are made by one macro");
        if offset != MISSING {
            continue;
        }
        let name = format!("{}.{}", field.of, field.field);
        if !field.is_optional {
            return Err(PlanError(name));
        }
        if !field.is_of_older {
            missing.push(name);
        }
    }
    Ok(Plan { offsets, missing })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_that_every_path_needs_refuses_the_observer() {
        let error = plan(Offsets::UNKNOWN).unwrap_err();
        assert!(error.to_string().contains("task_struct.files"), "{error}");
    }

    #[test]
    fn a_field_that_one_record_needs_is_told() {
        let mut next = 0;
        let offsets = Offsets::from_answers(
            |field| {
                next += 8;
                if field.of == "unix_sock" { MISSING } else { next }
            },
            1,
            [MISSING; _],
        );
        assert_eq!(plan(offsets).unwrap().missing, ["unix_sock.addr", "unix_sock.path", "unix_sock.peer"]);
    }
}
