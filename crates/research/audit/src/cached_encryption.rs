//! The audit: the same attacks play the same game against every encryption mode. A mode is broken if a fair coin
//! would not win as often.
//!
//! The game is indistinguishability under chosen plaintexts (Definition 4 of the Zinc paper), played `trials` times
//! under one key. The attacker first sees encryptions of some known messages. In each game, two random messages are
//! drawn and shown to the attacker, and a secret bit selects one of them. The attacker sees its encryption, recovers
//! what it can, and names the closer message. The advantage is `|2 p - 1|` for the fraction `p` of right guesses.

mod modes;
mod report;

use modes::Encryptor;
pub use modes::Mode;
pub use report::{Example, Finding, Report, SIGNIFICANCE_BITS};
use unspoken_ring::SecretRng;
use unspoken_rlwe::SecretKey;

use crate::attack::{Known, Procedure};
use crate::error::AuditError;
use crate::space::{MessageSpace, Scheme, Size};

/// Numbers in a message that the difference attack reads.
const VALUES: usize = 8;

/// Minimum number of games: winning all of them must be statistically significant.
pub const MIN_TRIALS: usize = SIGNIFICANCE_BITS as usize + 2;

/// Maximum number of games.
pub const MAX_TRIALS: usize = 4096;

/// Runs the audit for every scheme and mode: on a broken mode the attack designed for it, on a sound mode all
/// attacks. `progress` receives a description of each step before it starts.
///
/// # Errors
/// If there are fewer than [`MIN_TRIALS`] or more than [`MAX_TRIALS`] trials.
pub fn run(size: Size, trials: usize, rng: &mut SecretRng, progress: impl FnMut(&str)) -> Result<Report, AuditError> {
    run_modes(size, trials, Mode::all, rng, progress)
}

/// Runs the audit for the modes that `modes` returns for each scheme.
///
/// # Errors
/// As for [`run`].
pub fn run_modes(
    size: Size,
    trials: usize,
    modes: impl Fn(Scheme) -> Vec<Mode>,
    rng: &mut SecretRng,
    mut progress: impl FnMut(&str),
) -> Result<Report, AuditError> {
    if !(MIN_TRIALS..=MAX_TRIALS).contains(&trials) {
        let needed = format!("{MIN_TRIALS} to {MAX_TRIALS}");
        return Err(AuditError::Range { operation: "audit", found: format!("{trials} trials"), needed });
    }
    let mut findings = Vec::new();
    for scheme in Scheme::ALL {
        let space = MessageSpace::new(scheme, size)?;
        let secret = SecretKey::generate(space.rlwe(), rng)?;
        for mode in modes(scheme) {
            let mut encryptor = Encryptor::new(mode, &space, &secret, rng)?;
            for &procedure in mode.procedures() {
                progress(&format!("{scheme}, {mode}: {procedure} attack"));
                findings.push(Game { space: &space, secret: &secret, procedure }.play(&mut encryptor, trials, rng)?);
            }
        }
    }
    Ok(Report { trials, findings })
}

struct Game<'a> {
    space: &'a MessageSpace,
    secret: &'a SecretKey,
    procedure: Procedure,
}

impl Game<'_> {
    fn play(&self, encryptor: &mut Encryptor, trials: usize, rng: &mut SecretRng) -> Result<Finding, AuditError> {
        let (mut known, mode) = (Vec::new(), encryptor.mode());
        let known_messages = self.procedure.known_messages(mode.cached());
        for _ in 0..known_messages {
            let values = self.message(mode, rng);
            let ciphertext = encryptor.encrypt(&values, rng)?;
            known.push(Known { values, ciphertext });
        }
        self.check_decryption(&known[0])?;
        let learned = self.procedure.learn(self.space, &known)?;
        let known = known.swap_remove(0).values;

        let (mut right, mut recovered, mut worst, mut example) = (0, 0, 0.0f64, None);
        for _ in 0..trials {
            let mut messages = [self.message(mode, rng), self.message(mode, rng)];
            // Two equal messages could not be distinguished.
            while messages[0] == messages[1] {
                messages[1] = self.message(mode, rng);
            }
            let mut bit = [0];
            rng.fill(&mut bit);
            let secret = usize::from(bit[0] & 1);
            let challenge = encryptor.encrypt(&messages[secret], rng)?;
            let read = learned.recover(self.space, &challenge)?;
            let guess = usize::from(distance(&read, &messages[1]) < distance(&read, &messages[0]));
            right += usize::from(guess == secret);
            let error = read.iter().zip(&messages[secret]).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            recovered += usize::from(error < 0.5);
            worst = worst.max(error);
            example.get_or_insert(Example { known: known.clone(), secret: messages[secret].clone(), read });
        }
        let game = (mode, self.procedure, known_messages);
        Ok(Finding::new(self.space, game, [right, recovered, trials], worst, example))
    }

    /// A uniform random message of the form that the attack can recover.
    fn message(&self, mode: Mode, rng: &mut SecretRng) -> Vec<f64> {
        let limit = mode.message_limit();
        let mut draw = || {
            let mut bytes = [0; 8];
            rng.fill(&mut bytes);
            (u64::from_le_bytes(bytes) % limit) as f64
        };
        let count = match self.procedure {
            Procedure::Difference => VALUES,
            Procedure::Span => 1,
        };
        std::iter::repeat_with(&mut draw).take(count).collect()
    }

    /// Checks that the owner of the key can decrypt the known message: an attack on garbage would mean nothing.
    fn check_decryption(&self, known: &Known) -> Result<(), AuditError> {
        let decrypted = self.space.decrypt(self.secret, &known.ciphertext, known.values.len())?;
        if decrypted.iter().zip(&known.values).all(|(a, b)| (a - b).abs() < 1e-3) {
            return Ok(());
        }
        let (found, needed) = (format!("{decrypted:?}"), format!("{:?}", known.values));
        Err(AuditError::Range { operation: "decrypt what was encrypted", found, needed })
    }
}

fn distance(read: &[f64], message: &[f64]) -> f64 {
    read.iter().zip(message).map(|(a, b)| (a - b).abs()).sum()
}
