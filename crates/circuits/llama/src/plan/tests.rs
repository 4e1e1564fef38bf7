//! Tests of whole plans.

use super::*;

#[test]
fn try_it() {
    for name in SHAPES {
        let start = std::time::Instant::now();
        let parameters = Preset::find("n16_boot_depth8_scale50").unwrap().build().unwrap();
        let (public, private) = match name {
            "stories260k" => (0, 16),
            "smollm2" => (256, 64),
            _ => (3968, 128),
        };
        let config = published(name).unwrap();
        let request = PlanRequest {
            public: if name.starts_with("llama-2") { public - 1 } else { public },
            config,
            private,
            chunks: 1,
            generate: true,
            degrees: Degrees::default(),
            memory: None,
        };
        let plan = plan(&request, &parameters, &Machine::nominal(&parameters)).unwrap();
        println!("{name} {:?}", start.elapsed());
        for pass in plan.chunks.iter().chain(&plan.generation) {
            println!(
                "{:?} greedy {:?} deeper {:?} floor {:?} working {}",
                pass.totals, pass.greedy_seconds, pass.deeper, pass.floor, pass.working_bytes
            );
            println!("{:?}", pass.shares);
            for part in &pass.parts {
                println!(
                    "{} x{} {} -> {}: {:.1} s",
                    part.first, part.count, part.level_in, part.level_out, part.totals.seconds
                );
                for row in &part.rows {
                    println!(
                        "   {:28} {:18} {:24} {:2} {:2} {:4} {:6} {:4} {:4} {:8.2} {:8.2}",
                        row.place,
                        row.operation,
                        row.algorithm,
                        row.level_in,
                        row.level_out,
                        row.ciphertexts,
                        row.work.key_switches,
                        row.work.first_halves,
                        row.work.second_halves,
                        row.work.seconds,
                        row.work.bootstrap_seconds
                    );
                }
            }
        }
        println!("{:#?}", plan.memory);
    }
}
