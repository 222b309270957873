//! Many measurements → their median and the middle half of them.
//!
//! Pure. A mean would let one interruption by another process speak for all the rest.

use std::fmt;

/// Median and quartiles.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    pub first_quartile: f64,
    pub median: f64,
    pub third_quartile: f64,
}

impl Spread {
    /// Of these; `None` when there are none.
    pub fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let last = f64::from(u32::try_from(sorted.len()).ok()?.checked_sub(1)?);
        let at = |part: f64| {
            let place = part * last;
            let below = sorted[place.floor() as usize];
            let above = sorted[place.ceil() as usize];
            below + (above - below) * place.fract()
        };
        Some(Self { first_quartile: at(0.25), median: at(0.5), third_quartile: at(0.75) })
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = out.precision().unwrap_or(0);
        write!(
            out,
            "{:.digits$} ({:.digits$}…{:.digits$})",
            self.median, self.first_quartile, self.third_quartile
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(values: &[f64], expect: &str) {
        assert_eq!(Spread::of(values).map(|spread| spread.to_string()).unwrap_or_default(), expect);
    }

    #[test]
    fn half_of_all_lie_between_the_quartiles() {
        check(&[], "");
        check(&[7.0], "7 (7…7)");
        check(&[5.0, 1.0, 3.0, 2.0, 4.0], "3 (2…4)");
        check(&[1.0, 2.0, 1000.0, 3.0, 4.0], "3 (2…4)");
    }

    #[test]
    fn the_median_of_an_even_number_lies_between_two() {
        assert_eq!(format!("{:.1}", Spread::of(&[2.0, 1.0]).unwrap()), "1.5 (1.2…1.8)");
    }
}
