//! Windows of all tokens of a vocabulary, for calibration: text has only some of them.

use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

/// All tokens of a vocabulary, each once, in random order and in windows of `public` and `private` tokens; `times`
/// times, each time in another order. The public tokens of a window come before its private tokens in the same order,
/// so each token is private once in each order. Tokens that never stand beside each other in text give wider ranges
/// than text. So polynomials that are right for these windows are right for tokens that the calibration text lacks, at
/// every place of a session.
///
/// # Panics
/// If windows have no private tokens.
pub fn vocabulary_windows(
    vocabulary: usize,
    times: usize,
    (public, private): (usize, usize),
    seed: u64,
) -> Vec<Vec<u32>> {
    let mut random = SmallRng::seed_from_u64(seed);
    let all: Vec<u32> = (0..times).flat_map(|_| shuffled(vocabulary, &mut random)).collect();
    let before = |start: usize, back: usize| (start as i64 - back as i64).rem_euclid(all.len() as i64) as usize;
    let window = |(number, own): (usize, &[u32])| {
        let start = number * private;
        let public = (1..=public).rev().map(|back| all[before(start, back)]);
        public.chain(own.iter().copied()).collect()
    };
    all.chunks(private).enumerate().map(window).collect()
}

fn shuffled(vocabulary: usize, random: &mut impl Rng) -> Vec<u32> {
    let mut tokens: Vec<u32> = (0u32..).take(vocabulary).collect();
    tokens.shuffle(random);
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_token_is_in_the_windows_as_often_as_was_asked() {
        let windows = vocabulary_windows(50, 3, (0, 16), 1);
        assert_eq!(windows.iter().map(Vec::len).collect::<Vec<_>>(), [[16; 9].as_slice(), &[6]].concat());
        let all = windows.concat();
        assert!((0..50).all(|token| all.iter().filter(|other| **other == token).count() == 3));
        // Other orders, but always the same ones.
        assert_ne!(all[..50], all[50..100]);
        assert_eq!(windows, vocabulary_windows(50, 3, (0, 16), 1));
        assert_ne!(windows, vocabulary_windows(50, 3, (0, 16), 2));
        assert!(vocabulary_windows(50, 0, (4, 16), 1).is_empty());
    }
    #[test]
    fn every_token_is_private_behind_public_ones() {
        for public in [1, 4, 70] {
            let windows = vocabulary_windows(50, 1, (public, 16), 1);
            let private: Vec<u32> = windows.iter().flat_map(|window| window[public..].to_vec()).collect();
            assert_eq!(private, vocabulary_windows(50, 1, (0, 16), 1).concat());
            // The public tokens of the first window are the last ones of the order.
            let last = private.iter().rev().cycle().take(public);
            assert!(windows[0][..public].iter().rev().eq(last));
            assert_eq!(windows[1][public - 1], private[15]);
        }
    }
}
