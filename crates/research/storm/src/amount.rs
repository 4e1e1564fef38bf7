//! How much a command does.

use std::time::{Duration, Instant};

/// How much to do, from which random choices, and how to report it.
#[derive(clap::Args, Clone, Debug)]
pub struct Amount {
    /// Number of rounds; the command's description says of what
    #[arg(long)]
    pub count: Option<u64>,
    /// Stop starting rounds after this many seconds
    #[arg(long)]
    pub seconds: Option<u64>,
    /// Seed of the random choices; the same seed makes the same choices, but not the same timing
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print one line of JSON
    #[arg(long)]
    pub json: bool,
}

/// The rounds that are left.
pub struct Rounds {
    start: Instant,
    left: u64,
    limit: Option<Duration>,
}

impl Amount {
    /// The rounds to do: `default` of them unless the arguments say how many or how long.
    pub fn rounds(&self, default: u64) -> Rounds {
        let unbounded = self.seconds.map_or(default, |_| u64::MAX);
        Rounds {
            start: Instant::now(),
            left: self.count.unwrap_or(unbounded),
            limit: self.seconds.map(Duration::from_secs),
        }
    }

    /// The random choices.
    pub fn random(&self) -> fastrand::Rng {
        fastrand::Rng::with_seed(self.seed)
    }
}

impl Rounds {
    /// Takes the next round, if there is one.
    pub fn next(&mut self) -> bool {
        let time_is_up = self.limit.is_some_and(|limit| self.start.elapsed() >= limit);
        if self.left == 0 || time_is_up {
            return false;
        }
        self.left -= 1;
        true
    }

    /// Time since the first round was prepared.
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }
}
