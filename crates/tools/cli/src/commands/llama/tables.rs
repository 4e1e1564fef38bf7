//! The polynomials of a prepared model, and the arguments that left their intervals, as tables.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use unspoken_llama::{Approximation, Comparison, Design, Escapes, Function, Interval, Place, Quantity};

/// Maximum number of places with escapes that are listed.
const LISTED: usize = 12;

/// The polynomials of a quantity, over all layers.
struct Row {
    quantity: Quantity,
    function: Function,
    /// How many layers have each degree.
    degrees: BTreeMap<usize, usize>,
    /// The narrowest and the widest interval.
    narrowest: Interval,
    widest: Interval,
}

fn rows(design: &Design) -> Vec<Row> {
    let mut rows: BTreeMap<Quantity, Row> = BTreeMap::new();
    for (place, approximation) in design.approximations() {
        let row = rows.entry(place.quantity).or_insert_with(|| Row {
            quantity: place.quantity,
            function: approximation.function(),
            degrees: BTreeMap::new(),
            narrowest: approximation.intervals()[0],
            widest: approximation.intervals()[0],
        });
        *row.degrees.entry(approximation.degree()).or_insert(0) += 1;
        row.add(approximation);
    }
    rows.into_values().collect()
}

impl Row {
    fn add(&mut self, approximation: &Approximation) {
        let extent = |interval: &Interval| self.function.extent(interval);
        for interval in approximation.intervals() {
            if extent(interval) < extent(&self.narrowest) {
                self.narrowest = *interval;
            }
            if extent(interval) > extent(&self.widest) {
                self.widest = *interval;
            }
        }
    }
}

/// Table 4: degrees and intervals.
pub fn describe_design(design: &Design) {
    println!("\nTable 4: polynomials");
    println!("{:24} {:22} {:>26} {:>26}", "result", "degree (layers)", "narrowest interval", "widest interval");
    for row in rows(design) {
        let degrees: Vec<String> = row.degrees.iter().map(|(degree, layers)| format!("{degree} ({layers})")).collect();
        let (narrowest, widest) = (interval_text(&row.narrowest), interval_text(&row.widest));
        println!("{:24} {:22} {narrowest:>26} {widest:>26}", row.quantity.to_string(), degrees.join(", "));
    }
}

fn interval_text(interval: &Interval) -> String {
    let number =
        |value: f64| if value != 0.0 && value.abs() < 0.01 { format!("{value:.1e}") } else { format!("{value:.3}") };
    format!("[{}, {}]", number(interval.low), number(interval.high))
}

/// The same as JSON.
pub fn design_object(design: &Design) -> Value {
    let row = |row: Row| {
        let degrees: Value = row.degrees.iter().map(|(degree, layers)| (degree.to_string(), json!(layers))).collect();
        let ends = |interval: &Interval| json!([interval.low, interval.high]);
        let object = json!({ "degrees": degrees, "narrowest": ends(&row.narrowest), "widest": ends(&row.widest) });
        (row.quantity.to_string(), object)
    };
    rows(design).into_iter().map(row).collect()
}

/// Places with escapes, from most escapes to fewest.
pub fn worst_escapes(comparison: &Comparison) -> Vec<(Place, Escapes)> {
    let escaped = comparison.escapes.iter().filter(|(_, escapes)| escapes.escaped > 0);
    let mut places: Vec<(Place, Escapes)> = escaped.map(|(place, escapes)| (*place, *escapes)).collect();
    places.sort_by_key(|(_, escapes)| std::cmp::Reverse(escapes.escaped));
    places
}

/// The places with most escapes, a line each.
pub fn describe_escapes(comparison: &Comparison) {
    let places = worst_escapes(comparison);
    for (place, escapes) in places.iter().take(LISTED) {
        println!(
            "  {place}: {} of {} arguments, the farthest at {:.2} times half the interval from its centre",
            escapes.escaped, escapes.arguments, escapes.farthest
        );
    }
    if places.len() > LISTED {
        println!("  and {} more places", places.len() - LISTED);
    }
}

/// A simulated circuit beside the model in the clear, as JSON.
pub fn comparison_object(comparison: &Comparison, clear: &Comparison) -> Value {
    let escapes: Value = worst_escapes(comparison)
        .iter()
        .map(|(place, escapes)| {
            (place.to_string(), json!({ "escaped": escapes.escaped, "farthest": escapes.farthest }))
        })
        .collect();
    json!({
        "perplexity": comparison.perplexity(),
        "perplexity_ratio": comparison.perplexity() / clear.perplexity(),
        "same_top_token": comparison.agreement(),
        "divergence": comparison.divergence(),
        "logit_error": comparison.logit_error,
        "arguments": comparison.escapes.values().map(|escapes| escapes.arguments).sum::<u64>(),
        "escaped": comparison.escaped(),
        "escapes": escapes,
    })
}

/// The same as a line of a table.
pub fn describe_comparison(name: &str, comparison: &Comparison, clear: &Comparison) {
    if !comparison.is_finite() {
        let (agreement, escaped) = (100.0 * comparison.agreement(), comparison.escaped());
        println!("{name:24} {:>10} {:>11} {agreement:>9.2} % {:>12} {:>11} {escaped:>9}", "diverged", "", "", "");
        return;
    }
    println!(
        "{name:24} {:>10.4} {:>+9.3} % {:>9.2} % {:>12.2e} {:>11.3} {:>9}",
        comparison.perplexity(),
        100.0 * (comparison.perplexity() / clear.perplexity() - 1.0),
        100.0 * comparison.agreement(),
        comparison.divergence(),
        comparison.logit_error,
        comparison.escaped()
    );
}

/// The header of those lines.
pub fn describe_header(first: &str) {
    println!(
        "{first:24} {:>10} {:>11} {:>11} {:>12} {:>11} {:>9}",
        "perplexity", "to clear", "same top", "divergence", "logit error", "escapes"
    );
}
