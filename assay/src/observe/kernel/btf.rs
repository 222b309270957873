//! Field offsets out of BTF bytes: a small reader that touches only what it is asked for.
//!
//! Pure. Whatever the bytes are, it answers with offsets or says that there are none; it never guesses.

use std::collections::{HashMap, HashSet};

use assay_common::offsets::{BITS, FIELDS, Field, MISSING, Offsets};

/// `dentry.d_flags` bit of a mount point on kernels whose BTF does not name it.
const DCACHE_MOUNTED: u32 = 1 << 16;

/// The bytes are not BTF as this reader knows it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("read the kernel's BTF: {0}")]
pub struct BtfError(&'static str);

mod kind {
    pub(super) const INT: u32 = 1;
    pub(super) const ARRAY: u32 = 3;
    pub(super) const STRUCT: u32 = 4;
    pub(super) const UNION: u32 = 5;
    pub(super) const ENUM: u32 = 6;
    pub(super) const TYPEDEF: u32 = 8;
    pub(super) const RESTRICT: u32 = 11;
    pub(super) const FUNC: u32 = 12;
    pub(super) const FUNC_PROTO: u32 = 13;
    pub(super) const VAR: u32 = 14;
    pub(super) const DATASEC: u32 = 15;
    pub(super) const DECL_TAG: u32 = 17;
    pub(super) const TYPE_TAG: u32 = 18;
    pub(super) const ENUM64: u32 = 19;
}

/// How deep anonymous members and type chains are looked through.
const DEPTH: u32 = 16;

/// An index over BTF bytes.
#[derive(Debug)]
pub struct Btf<'a> {
    types: &'a [u8],
    strings: &'a [u8],
    /// Type id → offset in `types`; id 0 is void.
    starts: Vec<u32>,
    /// Name → ids of the structs that have it.
    structs: HashMap<&'a [u8], Vec<u32>>,
    mounted_flag: Option<u32>,
}

#[derive(Debug, Clone, Copy)]
struct Type {
    info: u32,
    size_or_id: u32,
    /// Where its members or the like begin.
    body: usize,
}

impl Type {
    fn kind(self) -> u32 {
        (self.info >> 24) & 0x1f
    }

    fn len(self) -> usize {
        (self.info & 0xffff) as usize
    }

    fn has_bitfields(self) -> bool {
        self.info >> 31 != 0
    }
}

impl<'a> Btf<'a> {
    /// Indexes BTF bytes in this machine's byte order.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, BtfError> {
        let word = |at: usize| read_u32(bytes, at).ok_or(BtfError("it ends within its header"));
        if bytes.get(..2) != Some(&0xeb9f_u16.to_ne_bytes()) {
            return Err(BtfError("it does not begin with BTF's magic number"));
        }
        let header = word(4)? as usize;
        let part = |off: u32, len: u32| {
            let start = header.checked_add(off as usize)?;
            bytes.get(start..start.checked_add(len as usize)?)
        };
        let types = part(word(8)?, word(12)?).ok_or(BtfError("its types lie outside of it"))?;
        let strings = part(word(16)?, word(20)?).ok_or(BtfError("its strings lie outside of it"))?;
        let mut btf = Self { types, strings, starts: vec![0], structs: HashMap::new(), mounted_flag: None };
        btf.index()?;
        Ok(btf)
    }

    fn index(&mut self) -> Result<(), BtfError> {
        let of_bits = BITS.iter().map(|(of, _)| *of);
        let wanted: HashSet<&[u8]> =
            FIELDS.iter().map(|field| field.of).chain(of_bits).map(str::as_bytes).collect();
        let mut at = 0;
        while at < self.types.len() {
            let start = u32::try_from(at).map_err(|_| BtfError("it is longer than 4 GiB"))?;
            let name = read_u32(self.types, at).ok_or(BtfError("it ends within a type"))?;
            let found = self.type_at(at).ok_or(BtfError("it ends within a type"))?;
            let id = self.starts.len() as u32;
            self.starts.push(start);
            let (kind, len) = (found.kind(), found.len());
            if kind == kind::STRUCT {
                if let Some(name) = self.string(name).filter(|name| wanted.contains(name)) {
                    self.structs.entry(name).or_default().push(id);
                }
            } else if kind == kind::ENUM && self.string(name) == Some(b"dentry_flags") {
                self.mounted_flag = self.enumerator(found, b"DCACHE_MOUNTED");
            }
            let body = match kind {
                kind::INT | kind::VAR | kind::DECL_TAG => 4,
                kind::ARRAY => 12,
                kind::STRUCT | kind::UNION | kind::DATASEC | kind::ENUM64 => 12 * len,
                kind::ENUM | kind::FUNC_PROTO => 8 * len,
                0 => return Err(BtfError("it holds a type without a kind")),
                1..=19 => 0,
                _ => return Err(BtfError("it holds a kind of type that is newer than this program")),
            };
            at = found.body + body;
        }
        if at == self.types.len() { Ok(()) } else { Err(BtfError("it ends within a type")) }
    }

    /// Offsets of every field in the list; [`MISSING`] where this kernel has no such field.
    pub fn offsets(&self) -> Offsets {
        Offsets::from_answers(
            |field| self.offset(field).unwrap_or(MISSING),
            self.mounted_flag.unwrap_or(DCACHE_MOUNTED),
            BITS.map(|(of, field)| self.bit_offset(of, field).unwrap_or(MISSING)),
        )
    }

    /// The ids of those of these functions that this kernel has. Goes through all types once more, as most runs ask for none.
    pub fn functions(&self, wanted: &[&'static str]) -> HashMap<&'static str, u32> {
        let mut found = HashMap::new();
        for (id, start) in self.starts.iter().enumerate().skip(1) {
            let at = *start as usize;
            if self.type_at(at).is_some_and(|one| one.kind() == kind::FUNC)
                && let Some(name) = read_u32(self.types, at).and_then(|name| self.string(name))
                && let Some(known) = wanted.iter().find(|known| known.as_bytes() == name)
            {
                found.insert(*known, id as u32);
            }
        }
        found
    }

    /// Where a bit field begins, in bits.
    fn bit_offset(&self, of: &str, field: &str) -> Option<u32> {
        let structs = self.structs.get(of.as_bytes())?;
        structs.iter().find_map(|&id| self.member(id, field.as_bytes(), DEPTH)).map(|(bits, _)| bits)
    }

    fn offset(&self, field: &Field) -> Option<u32> {
        let structs = self.structs.get(field.of.as_bytes())?;
        [field.field, field.older].into_iter().filter(|name| !name.is_empty()).find_map(|name| {
            structs.iter().find_map(|&id| {
                let mut id = id;
                let mut bits = 0u32;
                for part in name.split('.') {
                    let (offset, member) = self.member(id, part.as_bytes(), DEPTH)?;
                    bits = bits.checked_add(offset)?;
                    id = member;
                }
                // A bit field has no byte offset.
                bits.is_multiple_of(8).then_some(bits / 8)
            })
        })
    }

    /// A member's offset in bits and its type, anonymous members looked through.
    fn member(&self, id: u32, name: &[u8], depth: u32) -> Option<(u32, u32)> {
        let depth = depth.checked_sub(1)?;
        let found = self.resolve(id, DEPTH)?;
        for index in 0..found.len() {
            let at = found.body + 12 * index;
            let member_name = self.string(read_u32(self.types, at)?)?;
            let member_type = read_u32(self.types, at + 4)?;
            let mut offset = read_u32(self.types, at + 8)?;
            if found.has_bitfields() {
                offset &= 0x00ff_ffff;
            }
            if member_name == name {
                return Some((offset, member_type));
            }
            if member_name.is_empty()
                && let Some((inner, inner_type)) = self.member(member_type, name, depth)
            {
                return Some((offset.checked_add(inner)?, inner_type));
            }
        }
        None
    }

    /// The struct or union behind typedefs and qualifiers.
    fn resolve(&self, id: u32, depth: u32) -> Option<Type> {
        let depth = depth.checked_sub(1)?;
        let found = self.type_at(*self.starts.get(id as usize).filter(|_| id != 0)? as usize)?;
        match found.kind() {
            kind::STRUCT | kind::UNION => Some(found),
            kind::TYPEDEF..=kind::RESTRICT | kind::TYPE_TAG => self.resolve(found.size_or_id, depth),
            _ => None,
        }
    }

    fn enumerator(&self, found: Type, name: &[u8]) -> Option<u32> {
        (0..found.len())
            .map(|index| found.body + 8 * index)
            .find(|&at| read_u32(self.types, at).and_then(|name| self.string(name)) == Some(name))
            .and_then(|at| read_u32(self.types, at + 4))
    }

    fn type_at(&self, at: usize) -> Option<Type> {
        let info = read_u32(self.types, at + 4)?;
        let size_or_id = read_u32(self.types, at + 8)?;
        Some(Type { info, size_or_id, body: at + 12 })
    }

    fn string(&self, at: u32) -> Option<&'a [u8]> {
        let rest = self.strings.get(at as usize..)?;
        let end = rest.iter().position(|&byte| byte == 0)?;
        Some(&rest[..end])
    }
}

fn read_u32(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(word.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// BTF with `struct dentry { int; union { struct { qstr d_name; }; }; }` and `struct qstr { int; name; }`.
    fn sample() -> Vec<u8> {
        let strings = b"\0dentry\0d_name\0qstr\0name\0int\0bpf_lsm_file_open\0";
        let name = |text: &str| {
            let wanted = format!("\0{text}\0");
            strings.windows(wanted.len()).position(|window| window == wanted.as_bytes()).unwrap() as u32 + 1
        };
        let mut types: Vec<u32> = Vec::new();
        types.extend([name("int"), kind::INT << 24, 4, 32]); // 1
        types.extend([name("qstr"), kind::STRUCT << 24 | 2, 16, 0, 1, 0, name("name"), 1, 64]); // 2
        types.extend([0, kind::STRUCT << 24 | 1, 16, name("d_name"), 2, 0]); // 3
        types.extend([0, kind::UNION << 24 | 1, 16, 0, 3, 0]); // 4
        types.extend([name("dentry"), kind::STRUCT << 24 | 2, 20, 0, 1, 0, 0, 4, 32]); // 5
        types.extend([0, kind::FUNC_PROTO << 24, 1]); // 6
        types.extend([name("bpf_lsm_file_open"), kind::FUNC << 24, 6]); // 7
        let mut bytes = Vec::new();
        bytes.extend(0xeb9f_u16.to_ne_bytes());
        bytes.extend([1, 0]);
        for word in [24, 0, types.len() as u32 * 4, types.len() as u32 * 4, strings.len() as u32] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(types.iter().flat_map(|word| word.to_ne_bytes()));
        bytes.extend(strings);
        bytes
    }

    #[test]
    fn fields_are_found_through_anonymous_members() {
        let bytes = sample();
        let offsets = Btf::parse(&bytes).unwrap().offsets();
        assert_eq!(offsets.dentry_name, 4);
        assert_eq!(offsets.qstr_name, 8);
        assert_eq!(offsets.dentry_parent, MISSING);
        assert_eq!(offsets.mounted_flag, DCACHE_MOUNTED);
    }

    #[test]
    fn functions_are_found_by_name_and_only_those_that_are_there() {
        let bytes = sample();
        let found = Btf::parse(&bytes).unwrap().functions(&["bpf_lsm_file_open", "bpf_lsm_file", "qstr"]);
        assert_eq!(found, HashMap::from([("bpf_lsm_file_open", 7)]));
    }

    #[test]
    fn what_is_not_btf_is_refused() {
        assert!(Btf::parse(b"").is_err());
        assert!(Btf::parse(b"\x7fELF").is_err());
        let whole = sample();
        for len in 0..whole.len() {
            assert!(Btf::parse(&whole[..len]).is_err(), "{len} bytes");
        }
    }

    proptest::proptest! {
        #[test]
        fn damaged_bytes_never_panic(at in 0usize..280, value: u8) {
            let mut bytes = sample();
            let at = at % bytes.len();
            bytes[at] = value;
            if let Ok(btf) = Btf::parse(&bytes) {
                btf.offsets();
            }
        }
    }
}
