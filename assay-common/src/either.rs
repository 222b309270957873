//! What a number of a system call can be by either entry: most calls of most programs are nothing by both, and need not be
//! asked which it was.

use crate::calls::{COMPAT, NATIVE, Op, SOCKETCALL, TABLE};

/// No call that is observed.
pub const NOTHING: u8 = 0;
/// At most a write through a descriptor.
pub const WRITES: u8 = 1;
/// Another one.
pub const OTHERS: u8 = 2;

/// Number → one of these.
pub const EITHER: [u8; TABLE] = table();

const fn table() -> [u8; TABLE] {
    let mut table = [NOTHING; TABLE];
    let mut number = 0;
    while number < TABLE {
        let (native, compat) = (NATIVE[number].op, COMPAT[number].op);
        if native | compat != 0 {
            let are_writes =
                (native == 0 || native == Op::Write as u16) && (compat == 0 || compat == Op::Write as u16);
            table[number] = if are_writes { WRITES } else { OTHERS };
        }
        number += 1;
    }
    table[SOCKETCALL as usize] = OTHERS;
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::row_of;

    #[test]
    fn what_either_table_has_is_not_passed_over() {
        for (number, &said) in EITHER.iter().enumerate() {
            let rows = [row_of(number as u16, false), row_of(number as u16, true)];
            let mut ops = rows.into_iter().flatten().map(|row| row.call.op);
            let is_socketcall = number as u64 == SOCKETCALL;
            let want = match (ops.clone().next(), ops.all(|op| op == Op::Write as u16)) {
                (Some(_), false) => OTHERS,
                _ if is_socketcall => OTHERS,
                (Some(_), true) => WRITES,
                (None, _) => NOTHING,
            };
            assert_eq!(said, want, "{number}");
        }
    }
}
