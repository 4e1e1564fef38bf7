//! Tests of whole plans.

use super::packing::{Grid, Packing};
use super::*;

pub(super) fn parameters() -> CkksParameters {
    Preset::find("insecure_n11_boot_depth9_scale50").unwrap().build().unwrap()
}

/// A model whose activations take several of the 1,024 slots' ciphertexts at 16 tokens.
fn config() -> Config {
    Config {
        width: 128,
        layers: 3,
        heads: 16,
        kv_heads: 4,
        head_width: 8,
        ffn_width: 300,
        vocabulary: 100,
        context: 64,
        norm_epsilon: 1e-5,
        rope_frequencies: vec![1.0; 4],
    }
}

pub(super) fn request() -> PlanRequest {
    let degrees = Degrees::default();
    PlanRequest {
        config: config(),
        public: 20,
        private: 16,
        chunks: 1,
        generate: true,
        rounds: 2,
        degrees,
        memory: None,
    }
}

fn planned(request: &PlanRequest) -> Plan {
    let parameters = parameters();
    plan(request, &parameters, &Machine::nominal(&parameters)).unwrap()
}

#[test]
fn totals_are_sums_of_rows() {
    let plan = planned(&PlanRequest { chunks: 2, ..request() });
    assert_eq!(plan.chunks.iter().map(|pass| pass.tokens).sum::<usize>(), 16);
    let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * a.abs();
    for pass in plan.chunks.iter().chain(&plan.generation) {
        let mut all = Totals::default();
        for part in &pass.parts {
            let mut sum = Totals::default();
            part.rows.iter().for_each(|row| sum.add(&row.work, 1));
            assert_eq!(sum, part.totals);
            all.add(&sum, part.count);
        }
        assert_eq!(all, pass.totals);
        let shares: f64 = pass.shares.iter().map(|share| share.seconds).sum();
        assert!(near(shares, pass.totals.seconds), "{shares} {:?}", pass.totals);
        assert!(pass.totals.seconds <= pass.greedy_seconds.unwrap());
        assert!(pass.floor.seconds() > 0.0 && pass.floor.seconds() < pass.totals.seconds);
        assert!(pass.deeper.windows(2).all(|pair| pair[1].seconds < pair[0].seconds));
    }
    // The last chunk and the step of generation have a head; chunks before only fill the cache.
    let layers = |pass: &PassPlan| pass.parts.iter().map(|part| part.count).sum::<usize>();
    assert_eq!(plan.chunks.iter().chain(&plan.generation).map(layers).collect::<Vec<_>>(), [3, 4, 4]);
    assert!(near(plan.totals.seconds, plan.chunks.iter().map(|pass| pass.totals.seconds).sum()));
    let memory = &plan.memory;
    assert_eq!(memory.key_bytes, memory.keys.iter().map(|part| part.bytes).sum::<u64>());
    assert_eq!(memory.public_cache_bytes, 2 * 3 * 20 * 32 * 2);
}

#[test]
fn levels_of_rows_follow_from_each_other() {
    let plan = planned(&request());
    let [entry, top] = plan.bootstrap_levels;
    for part in plan.chunks.iter().chain(&plan.generation).flat_map(|pass| &pass.parts) {
        for row in &part.rows {
            assert!(row.level_in <= top && row.level_out <= top, "{row:?}");
            if row.work.first_halves > 0 {
                assert!(row.level_in >= entry, "{row:?}");
            }
            if row.work.second_halves > 0 {
                assert_eq!(row.level_out, top, "{row:?}");
            } else {
                assert!(row.level_out <= row.level_in, "{row:?}");
            }
        }
        assert_eq!(part.rows.last().unwrap().level_out, part.level_out);
    }
}

#[test]
fn cheaper_integer_products_are_chosen() {
    let parameters = parameters();
    let names = |matrix_mac: f64| -> Vec<String> {
        let nominal = Machine::nominal(&parameters);
        let machine = Machine { model: unspoken_ckks::CostModel { matrix_mac, ..nominal.model }, ..nominal };
        let plan = plan(&request(), &parameters, &machine).unwrap();
        let rows = plan.chunks[0].parts.iter().flat_map(|part| &part.rows);
        rows.filter(|row| row.operation == "linear").map(|row| row.algorithm.clone()).collect()
    };
    let (cheap, dear) = (names(1e-16), names(1e-3));
    assert!(cheap.iter().any(|name| name == "PCMM on coefficients"), "{cheap:?}");
    assert!(dear.iter().all(|name| name != "PCMM on coefficients"), "{dear:?}");
}

#[test]
fn the_object_has_what_others_read() {
    let value = serde_json::to_value(planned(&request())).unwrap();
    for key in
        ["preset", "security_bits", "bootstrap_levels", "chunks", "generation", "totals", "memory", "assumptions"]
    {
        assert!(!value[key].is_null(), "{key}");
    }
    let pass = &value["chunks"][0];
    for key in ["tokens", "parts", "totals", "shares", "greedy_seconds", "deeper", "floor", "working_bytes"] {
        assert!(!pass[key].is_null(), "{key}");
    }
    let row = &pass["parts"][0]["rows"][0];
    for key in [
        "place",
        "operation",
        "algorithm",
        "phase",
        "level_in",
        "level_out",
        "scale_bits",
        "ciphertexts",
        "bytes",
        "seconds",
        "bootstrap_seconds",
        "key_switches",
        "first_halves",
        "second_halves",
        "multiply_adds",
    ] {
        assert!(!row[key].is_null(), "{key}: {row}");
    }
    assert_eq!((row["place"].as_str(), row["phase"].as_str()), (Some("attention-norm-square"), Some("norm")));
    assert_eq!(value["memory"]["fits"], true);
}

#[test]
fn what_cannot_be_planned_is_named() {
    let parameters = parameters();
    let refused =
        |request: PlanRequest| plan(&request, &parameters, &Machine::nominal(&parameters)).unwrap_err().to_string();
    let long = refused(PlanRequest { public: 60, ..request() });
    assert!(long.contains("60 public and 17 private tokens, needed at most 64"), "{long}");
    let chunks = refused(PlanRequest { chunks: 17, ..request() });
    assert!(chunks.contains("16 private tokens in 17 chunks"), "{chunks}");
    let mut deep = request();
    deep.degrees.silu = 8191;
    let deep = refused(deep);
    assert!(deep.contains("layer 0, silu: found 12 levels") && deep.contains("needed 13"), "{deep}");
    let wide = Config { context: 4096, ..config() };
    let wide = refused(PlanRequest { config: wide, private: 200, ..request() });
    assert!(wide.contains("a chunk of 200 tokens, needed at most 128"), "{wide}");
    let plain = Preset::find("insecure_n11_depth9_scale50").unwrap().build().unwrap();
    let error = plan(&request(), &plain, &Machine::nominal(&plain)).unwrap_err().to_string();
    assert!(error.contains("take a preset with 'boot' in its name"), "{error}");
}

#[test]
fn memory_is_compared_with_the_limit() {
    let needed = planned(&request()).memory.total_bytes;
    let fits = |limit| planned(&PlanRequest { memory: Some(limit), ..request() }).memory.fits;
    assert!(fits(needed) && !fits(needed - 1));
}

#[test]
fn scales_name_presets() {
    assert_eq!(preset_for_scale(30).map(|preset| preset.name), Some("n15_boot_depth4_scale30"));
    assert_eq!(preset_for_scale(40).map(|preset| preset.name), Some("n16_boot_depth14_scale40"));
    assert_eq!(preset_for_scale(50).map(|preset| preset.name), Some("n16_boot_depth9_scale50"));
    assert_eq!(preset_for_scale(60), None);
}

#[test]
fn a_large_model_takes_the_ciphertexts_of_its_dimensions() {
    let config = published("llama-2-7b").unwrap();
    assert_eq!(config.parameters(false), 6_738_415_616, "as published");
    let grid = Grid::new(&config, 1 << 15, 128, 3968, 0);
    let (width, ffn) = (grid.activation(config.width), grid.activation(config.ffn_width));
    assert_eq!((width.ciphertexts, ffn.ciphertexts, grid.queries()), (16, 43, Packing { copies: 1, ..width }));
    // 31 tiles of public keys and one of private ones, each as large as the queries.
    assert_eq!((grid.scores(), grid.packed_factors().ciphertexts), ([496, 16], 1));
    let step = Grid::new(&config, 1 << 15, 1, 3968, 128);
    // Eight tiles of 4,096 values share a ciphertext.
    assert_eq!((step.queries().ciphertexts, step.queries().period, step.scores()), (1, 4096, [4, 1]));
}
