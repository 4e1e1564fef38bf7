//! `unspoken-bench audit`

use unspoken_audit::Size;
use unspoken_audit::cached_encryption::{self, Finding, Report};
use unspoken_ring::SecretRng;

/// Attack encryption methods
#[derive(clap::Subcommand)]
pub enum Command {
    /// Break encryption that reuses cached encryptions, and show that the same attacks fail against ours
    ///
    /// Plays the indistinguishability game against faithful reproductions of two published schemes, Zinc and Rache
    /// with every radix and number of pivots of the papers, and against the product's own encryption (public key,
    /// seeded, pool), for CKKS, BFV and BGV. Fails if an attack on a reproduction fails, or if an attack on the
    /// product's own encryption succeeds.
    CachedEncryption {
        /// Use small rings: seconds instead of minutes
        #[arg(long)]
        quick: bool,
        /// Games per attack
        #[arg(long, default_value_t = 40)]
        trials: usize,
        /// Print one JSON object per attack
        #[arg(long)]
        json: bool,
    },
}

/// Runs the command.
pub fn run(command: &Command) -> anyhow::Result<()> {
    let Command::CachedEncryption { quick, trials, json } = *command;
    let size = if quick { Size::Small } else { Size::Paper };
    let report = cached_encryption::run(size, trials, &mut SecretRng::from_os()?, |next| eprintln!("{next}"))?;
    if json {
        for finding in &report.findings {
            println!("{}", serde_json::to_string(finding)?);
        }
    } else {
        print(&report);
    }
    anyhow::ensure!(report.is_as_claimed(), "an attack did not end as claimed; see the table");
    Ok(())
}

fn print(report: &Report) {
    println!(
        "{:6} {:26} {:10} {:>7} {:>9} {:>10} {:>7} {:>11}  verdict",
        "scheme", "mode", "attack", "right", "advantage", "chance", "read", "worst error"
    );
    let mut params = "";
    for finding in &report.findings {
        if params != finding.params {
            params = &finding.params;
            println!("-- degree {}, modulus of {:.0} bits ({params})", finding.n, finding.log2_q);
        }
        println!("{}", line(finding));
    }
    for finding in report.findings.iter().filter(|f| !f.claimed_sound) {
        if let Some(example) = &finding.example {
            println!(
                "\n{} in {}: knowing {:?}{}, secret {:?}\n  read from the ciphertext: {:?}",
                finding.mode,
                finding.scheme,
                example.known,
                match finding.known_messages {
                    1 => String::new(),
                    more => format!(" and {} more messages", more - 1),
                },
                example.secret,
                example.read
            );
        }
    }
    println!(
        "\n{} games per attack. 'chance': the probability that a fair coin does as well. Broken: at most 2^-{:.0}.",
        report.trials,
        cached_encryption::SIGNIFICANCE_BITS
    );
}

fn line(finding: &Finding) -> String {
    let Finding { scheme, mode, attack, trials, right, advantage, recovered, worst_error, .. } = finding;
    format!(
        "{scheme:6} {mode:26} {attack:10} {:>7} {advantage:>9.2} {:>10} {:>7} {:>11}  {}",
        format!("{right}/{trials}"),
        format!("2^{:.1}", finding.log2_chance),
        format!("{recovered}/{trials}"),
        if *worst_error == 0.0 { "0".into() } else { format!("2^{:.1}", worst_error.log2()) },
        if finding.broken { "BROKEN" } else { "no advantage" },
    )
}
