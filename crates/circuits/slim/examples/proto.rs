use unspoken_slim::*;
use unspoken_ckks::Polynomial;
use std::time::Instant;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let name = a[1].as_str();
    let low: f64 = a[2].parse().unwrap(); let high: f64 = a[3].parse().unwrap();
    let degree: usize = a[4].parse().unwrap(); let depths: Vec<usize> = a[5].split(',').map(|d| d.parse().unwrap()).collect();
    let f = |x: f64| match name { "exp" => x.exp(), "silu" => x/(1.0+(-x).exp()), _ => 1.0/x.sqrt() };
    let p = Polynomial::chebyshev_approximation(f, low, high, degree).unwrap();
    for depth in depths {
    let t = Instant::now();
    match SquareTree::new(&p, depth) {
        Err(e) => println!("{name} {low} {high} {degree} depth {depth}: {e} ({:?})", t.elapsed()),
        Ok(tree) => {
            let dt = t.elapsed();
            let t = Instant::now();
            println!("{name} {low} {high} {degree} depth {depth}: {dt:?} added {:e} exact 2^{:.1} ({:?}) leaf {:.3?}", tree.added(), tree.log2_exactness(257), t.elapsed(), tree.leaf_size());
            for s in tree.stability() { println!("   {} m {:.3} sum {:.3} lost {:.2} measured {:.2}", s.level, s.largest_shift, s.largest_sum, s.bits_lost, s.measured); }
        }
    }
    }
}
