//! Windows of all tokens of a vocabulary, for calibration: text has only some of them.

use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};

/// All tokens of a vocabulary, each once, in random order and in windows of `window` tokens; `times` times, each time
/// in another order. Tokens that no text has beside each other give wider ranges than text does, so polynomials that
/// are right for these windows are right for tokens that the calibration text lacks, at every place of a session.
///
/// # Panics
/// If windows have no tokens.
pub fn vocabulary_windows(vocabulary: usize, times: usize, window: usize, seed: u64) -> Vec<Vec<u32>> {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut all = Vec::with_capacity(vocabulary * times);
    for _ in 0..times {
        all.extend(shuffled(vocabulary, &mut random));
    }
    all.chunks(window).map(<[u32]>::to_vec).collect()
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
        let windows = vocabulary_windows(50, 3, 16, 1);
        assert_eq!(windows.iter().map(Vec::len).collect::<Vec<_>>(), [[16; 9].as_slice(), &[6]].concat());
        let all = windows.concat();
        assert!((0..50).all(|token| all.iter().filter(|other| **other == token).count() == 3));
        // Other orders, but always the same ones.
        assert_ne!(all[..50], all[50..100]);
        assert_eq!(windows, vocabulary_windows(50, 3, 16, 1));
        assert_ne!(windows, vocabulary_windows(50, 3, 16, 2));
        assert!(vocabulary_windows(50, 0, 16, 1).is_empty());
    }
}
