//! How much of its text a search has looked at. In tests it is counted, so that they can hold without a clock that no
//! text, however it is made, keeps a search busy; elsewhere it is nothing. Pure.

/// Another so many bytes were looked at.
#[cfg(not(test))]
pub const fn looked_at(_bytes: usize) {}

#[cfg(test)]
pub use counting::looked_at;

#[cfg(test)]
pub mod counting {
    //! The count, of each thread by itself.

    use std::cell::Cell;

    thread_local! {
        static LOOKED_AT: Cell<usize> = const { Cell::new(0) };
    }

    /// Another so many bytes were looked at.
    pub fn looked_at(bytes: usize) {
        LOOKED_AT.with(|sum| sum.set(sum.get() + bytes));
    }

    /// How many bytes `search` looks at.
    fn effort(search: impl FnOnce()) -> usize {
        let before = LOOKED_AT.with(Cell::get);
        search();
        LOOKED_AT.with(Cell::get) - before
    }

    /// Four times the text takes four times the effort, or little more; where a search begins again and again, sixteen
    /// times.
    pub fn check_growth(name: &str, search: impl Fn(usize)) {
        check_growth_from(1 << 13, name, search);
    }

    /// The same from another length, or number of whatever it is.
    pub fn check_growth_from(length: usize, name: &str, search: impl Fn(usize)) {
        let (once, more) = (effort(|| search(length)), effort(|| search(4 * length)));
        assert!(once > length / 16, "{name:?}: {once} is no effort");
        assert!(more < 5 * once, "{name:?}: from {once} to {more}");
    }
}
