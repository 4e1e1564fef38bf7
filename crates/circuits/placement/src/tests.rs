//! Paths against an exhaustive search.

use std::collections::BTreeMap;

use super::*;

/// Numbers of a linear congruential generator (Knuth's MMIX).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }
}

const LADDER: Ladder = Ladder { entry: 1, top: 4 };

/// A random segment: each step takes one or two earlier tensors.
fn segment(numbers: &mut Numbers, steps: usize) -> Segment {
    let mut made = Vec::new();
    for number in 0..steps {
        let mut inputs = vec![number.saturating_sub(numbers.below(3).min(number))];
        let second = numbers.below(number + 1);
        if numbers.below(2) == 1 && !inputs.contains(&second) {
            inputs.push(second);
        }
        let mut ways = Vec::new();
        for _ in 0..1 + numbers.below(2) {
            let (least, landing) = match numbers.below(4) {
                0 => (LADDER.entry, Landing::At(LADDER.top)),
                spent => (spent - 1, Landing::Below(spent - 1)),
            };
            let above = inputs.iter().map(|_| numbers.below(4) / 3).collect();
            let base = 1 + numbers.below(30);
            let seconds = (0..=LADDER.top).map(|level| (base * (level + 2)) as f64).collect();
            ways.push(Way { least, above, landing, seconds });
        }
        made.push(Step { inputs, outputs: vec![number + 1], ways });
    }
    let refresh = (0..=steps).map(|_| (5 + numbers.below(120)) as f64).collect();
    Segment { ladder: LADDER, refresh, steps: made, tolerance: 0.0, input: 0, output: steps }
}

/// The least seconds by level of the output: every order of bootstraps, ways and working levels, nothing pruned but
/// equal states.
fn exhaustive(segment: &Segment, start: usize) -> BTreeMap<usize, f64> {
    let mut states: BTreeMap<Vec<Option<usize>>, f64> = BTreeMap::new();
    let mut first = vec![None; segment.refresh.len()];
    first[segment.input] = Some(start);
    states.insert(first, 0.0);
    for step in &segment.steps {
        // Any tensors that are there may be refreshed, whether the step takes them or not.
        for tensor in 0..segment.refresh.len() {
            let refreshed: Vec<_> = states
                .iter()
                .filter(|(levels, _)| levels[tensor].is_some_and(|level| level >= segment.ladder.entry))
                .map(|(levels, seconds)| {
                    let mut levels = levels.clone();
                    levels[tensor] = Some(segment.ladder.top);
                    (levels, seconds + segment.refresh[tensor])
                })
                .collect();
            refreshed.into_iter().for_each(|(levels, seconds)| keep(&mut states, levels, seconds));
        }
        let mut next = BTreeMap::new();
        for (levels, seconds) in &states {
            for way in &step.ways {
                for level in way.least..=segment.ladder.top {
                    let legal = |(input, above): (&usize, &usize)| levels[*input].is_some_and(|l| l >= level + above);
                    if step.inputs.iter().zip(&way.above).all(legal) {
                        let mut levels = levels.clone();
                        step.outputs.iter().for_each(|&output| levels[output] = Some(way.lands(level)));
                        keep(&mut next, levels, seconds + way.seconds[level]);
                    }
                }
            }
        }
        states = next;
    }
    let mut best = BTreeMap::new();
    for (levels, seconds) in states {
        if let Some(level) = levels[segment.output] {
            let least = best.entry(level).or_insert(seconds);
            *least = seconds.min(*least);
        }
    }
    best
}

fn keep(states: &mut BTreeMap<Vec<Option<usize>>, f64>, levels: Vec<Option<usize>>, seconds: f64) {
    let least = states.entry(levels).or_insert(seconds);
    *least = seconds.min(*least);
}

/// Seconds for the output at a level or above; with a bootstrap of it, if that is cheaper.
fn at_least(best: &BTreeMap<usize, f64>, segment: &Segment, level: usize) -> f64 {
    let raised = |(&at, &seconds): (&usize, &f64)| match at {
        at if at >= level => seconds,
        at if at >= segment.ladder.entry => seconds + segment.refresh[segment.output],
        _ => f64::INFINITY,
    };
    best.iter().map(raised).fold(f64::INFINITY, f64::min)
}

#[test]
fn no_other_placement_is_cheaper() {
    let mut numbers = Numbers(1);
    let (mut solved, mut better) = (0, 0);
    for _ in 0..300 {
        let steps = 2 + numbers.below(4);
        let segment = segment(&mut numbers, steps);
        for start in [2, LADDER.top] {
            let (paths, all) = (segment.cheapest(start), exhaustive(&segment, start));
            let found: BTreeMap<usize, f64> = paths.iter().map(|path| (path.level, path.seconds)).collect();
            for level in 0..=LADDER.top {
                assert_eq!(at_least(&found, &segment, level), at_least(&all, &segment, level), "{segment:?}");
            }
            for path in &paths {
                let (seconds, _) = segment.replay(start, path).unwrap();
                assert!((seconds - path.seconds).abs() < 1e-9);
            }
            solved += usize::from(!paths.is_empty());
            // Few states: legal, and never cheaper than the best.
            let least = paths.iter().map(|path| path.seconds).fold(f64::INFINITY, f64::min);
            assert_eq!(segment.cheapest_within(start, 1000).map_or(f64::INFINITY, |path| path.seconds), least);
            if let Some(narrow) = segment.cheapest_within(start, 2) {
                assert!(segment.replay(start, &narrow).is_ok() && narrow.seconds >= least);
            }
            if let Some(greedy) = segment.greedy(start) {
                assert!(segment.replay(start, &greedy).is_ok() && least <= greedy.seconds);
                better += usize::from(least < greedy.seconds);
            }
        }
    }
    assert!(solved > 400 && better > 100, "{solved} {better}");
}

#[test]
fn a_chain_is_as_cheap_as_all_its_layers_at_once() {
    let mut numbers = Numbers(7);
    let mut compared = 0;
    for _ in 0..40 {
        let layer = segment(&mut numbers, 3);
        // The second layer takes tensor 3 for its input: the same steps with other numbers.
        let shifted = |step: &Step| Step {
            inputs: step.inputs.iter().map(|input| input + 3).collect(),
            outputs: step.outputs.iter().map(|output| output + 3).collect(),
            ..step.clone()
        };
        // Layers hand over one tensor: its bootstrap costs the same on both sides.
        let mut layer = layer;
        layer.refresh[3] = layer.refresh[0];
        let steps = layer.steps.iter().cloned().chain(layer.steps.iter().map(shifted)).collect();
        let refresh = layer.refresh.iter().chain(&layer.refresh[1..]).copied().collect();
        let both = Segment { steps, refresh, output: 6, ..layer.clone() };
        let all = exhaustive(&both, LADDER.top).values().copied().fold(f64::INFINITY, f64::min);
        match chain(std::slice::from_ref(&layer), &[0, 0], LADDER.top) {
            Some((seconds, paths)) => {
                assert_eq!((seconds, paths.len()), (all, 2));
                compared += 1;
            }
            None => assert_eq!(all, f64::INFINITY),
        }
    }
    assert!(compared > 20, "{compared}");
}

/// Of many states some are not followed, but never the one from which a path continues if any does: also a path
/// without bootstraps, where bootstraps are not possible.
#[test]
fn a_path_is_found_if_there_is_one() {
    let mut numbers = Numbers(11);
    let (mut found, mut none) = ([0, 0], [0, 0]);
    for _ in 0..2000 {
        let steps = 4 + numbers.below(8);
        let mut segment = segment(&mut numbers, steps);
        segment.ladder.entry = 1 + numbers.below(3);
        segment.steps.iter_mut().for_each(|step| {
            step.ways.truncate(1);
            step.ways[0].above.fill(0);
        });
        for without in [false, true] {
            if without {
                segment.refresh.fill(f64::INFINITY);
            }
            let is_there = !segment.cheapest(LADDER.top).is_empty();
            for most in [1, 2, 3] {
                let path = segment.cheapest_within(LADDER.top, most);
                assert_eq!(path.is_some(), is_there, "{most} {segment:?}");
                if let Some(path) = path {
                    let refreshed = path.moves.iter().flat_map(|choice| &choice.refreshed).any(|one| *one);
                    assert!(segment.replay(LADDER.top, &path).is_ok() && !(without && refreshed));
                }
            }
            let count = if is_there { &mut found } else { &mut none };
            count[usize::from(without)] += 1;
        }
    }
    assert!(found.iter().chain(&none).all(|count| *count > 100), "{found:?} {none:?}");
}

#[test]
fn a_change_of_cost_changes_the_choice() {
    let way = |spent, cost: f64| Way {
        least: spent,
        above: vec![0],
        landing: Landing::Below(spent),
        seconds: vec![cost; LADDER.top + 1],
    };
    let step = |number: usize, ways| Step { inputs: vec![number], outputs: vec![number + 1], ways };
    let segment = |refresh: f64| Segment {
        ladder: LADDER,
        refresh: vec![refresh; 3],
        // Deep and cheap, or shallow and dear.
        steps: vec![step(0, vec![way(3, 1.0), way(1, 20.0)]), step(1, vec![way(2, 1.0)])],
        tolerance: 0.0,
        input: 0,
        output: 2,
    };
    let best =
        |refresh| segment(refresh).cheapest(LADDER.top).into_iter().min_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let (rare, often) = (best(100.0).unwrap(), best(5.0).unwrap());
    assert_eq!((rare.seconds, rare.moves[0].way, rare.moves[1].refreshed[0]), (21.0, 1, false));
    assert_eq!((often.seconds, often.moves[0].way, often.moves[1].refreshed[0]), (7.0, 0, true));
}

#[test]
fn illegal_paths_are_found() {
    let mut numbers = Numbers(3);
    let segment = segment(&mut numbers, 4);
    let path = segment.cheapest(LADDER.top).remove(0);
    let mut high = path.clone();
    high.moves[3].level = LADDER.top + 1;
    assert!(segment.replay(LADDER.top, &high).is_err());
    let short = Path { moves: path.moves[..3].to_vec(), ..path };
    assert!(segment.replay(LADDER.top, &short).is_err());
}
