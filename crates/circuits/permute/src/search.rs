//! The search for ideal factors of a permutation.
//!
//! Source: the permutation decomposition paper, section 3. There, entries start on diagonal 0 and conflicts are
//! resolved depth-first. An entry has at most one other diagonal. In a conflict with an entry that cannot move, the
//! other entry has no choice. So each forced move implies the next, nothing has to be undone, and the search takes time
//! linear in the length. If two entries that had to move collide, no factor exists: a `None` is a proof.
//!
//! The search continues if a dimension is odd (`Halving::Up`), with shifts of half the range, rounded up. The paper's
//! search does not.

use crate::diagonals::Shifts;
use crate::permutation::Permutation;

/// Treatment of a range of shifts that cannot be halved exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halving {
    /// Stop, as the paper's search does.
    Exact,
    /// Continue with half of it, rounded up.
    Up,
}

/// Splits a permutation into two factors (section 3.2): the first one has shifts `0` and `+-step`, the second one has
/// shifts below `step` in absolute value. With [`Shifts::Forward`] the shifts are `0` and `step` in the first, and from
/// 0 to below `step` in the second. `None` proves that no such pair exists.
pub fn ideal_step(permutation: &Permutation, shifts: Shifts, step: i64) -> Option<(Permutation, Permutation)> {
    let n = permutation.len();
    let length = n as i64;
    let target = permutation.inverse();
    // By source: the distance each entry has to move. `moves` below is the part it moves in the first factor.
    let remaining: Vec<i64> =
        (0..n).map(|source| shifts.read(source as i64 - i64::from(target.source()[source]), n)).collect();
    if step <= 0 || remaining.iter().any(|l| l.abs() >= 2 * step) {
        return None;
    }
    let toward = |source: usize| step * remaining[source].signum();
    let mut moves = vec![0i64; n];
    let mut stack: Vec<usize> = (0..n).filter(|&source| remaining[source].abs() >= step).collect();
    stack.iter().for_each(|&source| moves[source] = toward(source));
    let mut taken = vec![false; n];
    while let Some(source) = stack.pop() {
        let position = source as i64 - moves[source];
        let position = if shifts == Shifts::Exact { position } else { position.rem_euclid(length) };
        let position = usize::try_from(position).ok().filter(|&position| position < n)?;
        if std::mem::replace(&mut taken[position], true) {
            return None;
        }
        if moves[position] == 0 {
            // The slot is taken by an entry that had no choice, so the entry that starts there has to move.
            if remaining[position] == 0 || shifts == Shifts::Forward {
                return None;
            }
            moves[position] = toward(position);
            stack.push(position);
        }
    }
    let mut first = vec![0u32; n];
    for (source, step) in moves.iter().enumerate() {
        first[(source as i64 - step).rem_euclid(length) as usize] = source as u32;
    }
    let first = Permutation::trusted(first);
    let rest = first.inverse().then(permutation).ok()?;
    Some((first, rest))
}

/// Splits a permutation repeatedly with [`ideal_step`], each time with half of the remaining range as the step. It
/// stops when the range is 1, no such factor exists, or the range cannot be halved. Returns the factors in the order
/// they are applied; the last one is the remaining permutation. `difference` must divide all shifts; the range is the
/// largest shift over `difference`, plus one.
pub fn ideal_factors(
    permutation: &Permutation,
    shifts: Shifts,
    difference: usize,
    halving: Halving,
) -> Vec<Permutation> {
    let length = permutation.len();
    let difference = difference.max(1) as i64;
    let largest = permutation.distances().map(|distance| shifts.read(distance, length).abs()).max().unwrap_or(0);
    let mut range = largest / difference + 1;
    let mut rest = permutation.clone();
    let mut factors = Vec::new();
    while range > 1 && (halving == Halving::Up || range % 2 == 0) {
        let half = (range + 1) / 2;
        match ideal_step(&rest, shifts, half * difference) {
            Some((first, then)) => {
                factors.push(first);
                rest = then;
            }
            None => break,
        }
        range = half;
    }
    if !rest.is_identity() {
        factors.push(rest);
    }
    factors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagonals::Diagonals;
    use crate::factors::{diagonals_to_columns, diagonals_to_rows, to_depth, transpose};

    fn product(factors: &[Permutation]) -> Permutation {
        to_depth(factors, 1).unwrap().remove(0)
    }

    #[test]
    fn the_factors_of_transposes_are_found_again() {
        for d in [2usize, 4, 8, 16, 32] {
            let known = transpose(d).unwrap();
            let found = ideal_factors(&product(&known), Shifts::Exact, d - 1, Halving::Exact);
            assert_eq!(found, known, "d = {d}");
        }
    }

    #[test]
    fn the_factors_of_diagonals_to_columns_and_rows_are_found_again() {
        for d in [2usize, 4, 8, 16] {
            let known = diagonals_to_columns(d).unwrap();
            assert_eq!(ideal_factors(&product(&known), Shifts::Exact, 1, Halving::Exact), known, "d = {d}");
            let known = diagonals_to_rows(d).unwrap();
            assert_eq!(ideal_factors(&product(&known), Shifts::Forward, d, Halving::Exact), known, "d = {d}");
        }
    }

    #[test]
    fn exact_halving_stops_where_the_paper_says_and_rounding_up_goes_on() {
        for d in [3usize, 5, 6, 7, 10, 12, 20, 24, 28, 40] {
            let permutation = Permutation::transpose(d, d).unwrap();
            let exact = ideal_factors(&permutation, Shifts::Exact, d - 1, Halving::Exact);
            assert_eq!(exact.len(), d.trailing_zeros() as usize + 1, "d = {d}: the halvings, and what is left");
            assert_eq!(product(&exact), permutation);
            let up = ideal_factors(&permutation, Shifts::Exact, d - 1, Halving::Up);
            assert_eq!(product(&up), permutation);
            println!("d {d}: {} factors rounding up", up.len());
        }
    }

    /// Whether a pair of factors exists, by exhaustive search, for a permutation of a few entries.
    fn exists(permutation: &Permutation, step: i64) -> bool {
        let n = permutation.len();
        let distances: Vec<i64> = permutation.distances().collect();
        let choices: Vec<Vec<i64>> = (0..n)
            .map(|t| [0, step, -step].into_iter().filter(|first| (distances[t] - first).abs() < step).collect())
            .collect();
        let mut used = vec![false; n];
        fn search(t: usize, used: &mut [bool], choices: &[Vec<i64>], source: &[u32]) -> bool {
            let Some(options) = choices.get(t) else { return true };
            options.iter().any(|first| {
                let position = i64::from(source[t]) - first;
                let Ok(position) = usize::try_from(position) else { return false };
                if position >= used.len() || std::mem::replace(&mut used[position], true) {
                    return false;
                }
                let found = search(t + 1, used, choices, source);
                used[position] = found;
                found
            })
        }
        search(0, &mut used, &choices, permutation.source())
    }

    #[test]
    fn what_is_not_found_does_not_exist() {
        let mut counts = [0, 0];
        for seed in 0..3000 {
            let permutation = Permutation::random(6, seed).unwrap();
            let largest = permutation.distances().map(i64::abs).max().unwrap();
            let step = (largest + 2) / 2;
            let found = ideal_step(&permutation, Shifts::Exact, step);
            assert_eq!(found.is_some(), exists(&permutation, step), "{:?}", permutation.source());
            counts[usize::from(found.is_some())] += 1;
            if let Some((first, rest)) = found {
                assert_eq!(first.then(&rest).unwrap(), permutation);
                assert!(first.distances().all(|l| l == 0 || l.abs() == step));
                assert!(rest.distances().all(|l| l.abs() < step));
            }
        }
        assert!(counts[0] > 100 && counts[1] > 100, "{counts:?}");
    }

    #[test]
    fn a_random_permutation_has_no_ideal_factors_and_long_chains_do_not_overflow() {
        let random = Permutation::random(1 << 12, 5).unwrap();
        assert!(ideal_step(&random, Shifts::Exact, 1 << 11).is_none());
        // A rotation by one: each entry pushes the next.
        let rotation = Permutation::rotation(1 << 15, 1).unwrap();
        assert_eq!(Diagonals::new(&rotation, Shifts::Balanced).len(), 1);
        assert_eq!(ideal_factors(&rotation, Shifts::Balanced, 1, Halving::Up), [rotation]);
    }
}
