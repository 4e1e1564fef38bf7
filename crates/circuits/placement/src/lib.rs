#![doc = include_str!("../README.md")]

use std::collections::HashMap;

/// Levels between which tensors move.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ladder {
    /// Lowest level from which a bootstrap can start.
    pub entry: usize,
    /// Level of a bootstrap's results, the highest of the circuit.
    pub top: usize,
}

/// Level of a step's results.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Landing {
    /// This many levels below the working level.
    Below(usize),
    /// A fixed level.
    At(usize),
}

/// One way to run a step.
#[derive(Clone, Debug)]
pub struct Way {
    /// Lowest working level.
    pub least: usize,
    /// Levels that each input must be above the working level.
    pub above: Vec<usize>,
    /// Level of the results.
    pub landing: Landing,
    /// Seconds by working level, from 0 to the top.
    pub seconds: Vec<f64>,
}

impl Way {
    /// Level of the results for a working level.
    pub fn lands(&self, level: usize) -> usize {
        match self.landing {
            Landing::Below(spent) => level - spent,
            Landing::At(level) => level,
        }
    }
}

/// A step: takes tensors, makes tensors.
#[derive(Clone, Debug)]
pub struct Step {
    /// Tensors that it takes.
    pub inputs: Vec<usize>,
    /// Tensors that it makes.
    pub outputs: Vec<usize>,
    /// How it can be run.
    pub ways: Vec<Way>,
}

/// Steps in their order, from one tensor to one tensor.
#[derive(Clone, Debug)]
pub struct Segment {
    /// Levels of bootstraps.
    pub ladder: Ladder,
    /// Seconds of a bootstrap of each tensor; infinite for one that cannot be bootstrapped.
    pub refresh: Vec<f64>,
    /// The steps.
    pub steps: Vec<Step>,
    /// Seconds by which a step may cost more where its results are higher: fewer states are followed. With 0 a path is
    /// exact.
    pub tolerance: f64,
    /// The tensor that is live at the begin.
    pub input: usize,
    /// The tensor that is live at the end.
    pub output: usize,
}

/// What is done at a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Move {
    /// Number of the way.
    pub way: usize,
    /// Working level.
    pub level: usize,
    /// Inputs of the step that are refreshed first.
    pub refreshed: Vec<bool>,
}

/// A path through a segment.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// Its seconds.
    pub seconds: f64,
    /// One for each step.
    pub moves: Vec<Move>,
    /// Level of the output.
    pub level: usize,
}

/// A state that was reached, and how.
struct Reached {
    seconds: f64,
    before: usize,
    choice: Option<Move>,
}

impl Segment {
    /// For each level, the cheapest path from the input at `start` to the output at exactly that level, unless a path
    /// that ends higher costs no more.
    pub fn cheapest(&self, start: usize) -> Vec<Path> {
        self.search(start, usize::MAX)
    }

    /// The cheapest path from the input at `start` to the output at any level, followed with at most `most` states
    /// after each step: exact if there are never more. If each step has one way, which needs all its inputs at one
    /// level, `None` only if there is no path.
    pub fn cheapest_within(&self, start: usize, most: usize) -> Option<Path> {
        self.search(start, most).into_iter().min_by(|a, b| a.seconds.total_cmp(&b.seconds))
    }

    /// The paths of [`Segment::cheapest`]. Of more than `most` states after a step those are followed that cost the
    /// least, where a level of a tensor is worth its share of a bootstrap, and the one with the most levels left.
    fn search(&self, start: usize, most: usize) -> Vec<Path> {
        let mut arena = vec![Reached { seconds: 0.0, before: 0, choice: None }];
        let mut states: Vec<(Vec<usize>, usize)> = vec![(vec![start], 0)];
        let mut live = vec![self.input];
        for (position, step) in self.steps.iter().enumerate() {
            let next = self.live_after(&live, position);
            let mut found: HashMap<Vec<usize>, Reached> = HashMap::new();
            for (levels, node) in &states {
                let seconds = arena[*node].seconds;
                self.moves(step, &live, levels, |choice, more, after| {
                    let levels: Vec<usize> = next.iter().map(|&tensor| after(tensor)).collect();
                    let seconds = seconds + more;
                    if found.get(&levels).is_none_or(|known| seconds < known.seconds) {
                        found.insert(levels, Reached { seconds, before: *node, choice: Some(choice) });
                    }
                });
            }
            let mut kept = self.undominated(&next, found);
            if kept.len() > most {
                kept.sort_by(|a, b| self.worth(&next, a).total_cmp(&self.worth(&next, b)));
                let left = |at: &usize| (self.levels_left(&next, &kept[*at].0), std::cmp::Reverse(*at));
                let highest = (0..kept.len()).max_by_key(left).unwrap_or(0);
                let last = most.saturating_sub(1);
                kept.swap(last, highest.max(last));
                kept.truncate(most.max(1));
            }
            states = kept
                .into_iter()
                .map(|(levels, reached)| {
                    arena.push(reached);
                    (levels, arena.len() - 1)
                })
                .collect();
            live = next;
        }
        let mut paths: Vec<Path> = states.iter().map(|(levels, node)| path(&arena, levels[0], *node)).collect();
        paths.sort_by_key(|path| path.level);
        paths
    }

    /// The path of a planner that does not look ahead: each step runs in the way that is cheapest at the highest level,
    /// and inputs are refreshed only if no way can run and leave its results where a bootstrap can start. `None` if it
    /// is stuck.
    pub fn greedy(&self, start: usize) -> Option<Path> {
        let mut levels: HashMap<usize, usize> = HashMap::from([(self.input, start)]);
        let (mut seconds, mut moves) = (0.0, Vec::new());
        for step in &self.steps {
            let mut refreshed = vec![false; step.inputs.len()];
            let choice = loop {
                let at: Vec<usize> = step.inputs.iter().map(|tensor| levels[tensor]).collect();
                let able = step.ways.iter().enumerate().filter_map(|(way, how)| {
                    let level = working_level(how, &at)?;
                    (how.lands(level) >= self.ladder.entry || how.landing == Landing::At(0)).then_some((way, level))
                });
                let price = |&(way, level): &(usize, usize)| step.ways[way].seconds[level];
                if let Some((way, level)) = able.min_by(|a, b| price(a).total_cmp(&price(b))) {
                    break Move { way, level, refreshed };
                }
                let lowest = (0..at.len()).filter(|&input| at[input] >= self.ladder.entry && !refreshed[input]);
                let lowest = lowest.min_by_key(|&input| at[input])?;
                refreshed[lowest] = true;
                levels.insert(step.inputs[lowest], self.ladder.top);
                seconds += self.refresh[step.inputs[lowest]];
            };
            let how = &step.ways[choice.way];
            seconds += how.seconds[choice.level];
            step.outputs.iter().for_each(|&tensor| {
                levels.insert(tensor, how.lands(choice.level));
            });
            moves.push(choice);
        }
        Some(Path { seconds, moves, level: levels[&self.output] })
    }

    /// Follows a path and checks that each of its moves is legal. Returns seconds and the level of each tensor when it
    /// is made; the reason if a move is not legal.
    pub fn replay(&self, start: usize, path: &Path) -> Result<(f64, Vec<usize>), String> {
        let mut levels = vec![None; self.refresh.len()];
        levels[self.input] = Some(start);
        let mut made = vec![0; self.refresh.len()];
        made[self.input] = start;
        let mut seconds = 0.0;
        for (number, (step, choice)) in self.steps.iter().zip(&path.moves).enumerate() {
            for (&input, &refreshed) in step.inputs.iter().zip(&choice.refreshed) {
                let level = levels[input].ok_or_else(|| format!("step {number}: tensor {input} is not there yet"))?;
                if refreshed && level < self.ladder.entry {
                    return Err(format!("step {number}: found tensor {input} at level {level}, too low to refresh"));
                }
                if refreshed {
                    seconds += self.refresh[input];
                    levels[input] = Some(self.ladder.top);
                }
            }
            let way = &step.ways[choice.way];
            for (&input, above) in step.inputs.iter().zip(&way.above) {
                let (found, needed) = (levels[input].unwrap_or(0), choice.level.max(way.least) + above);
                if found < needed {
                    return Err(format!("step {number}: found tensor {input} at level {found}, needed {needed}"));
                }
            }
            seconds += way.seconds[choice.level];
            for &output in &step.outputs {
                made[output] = way.lands(choice.level);
                levels[output] = Some(made[output]);
            }
        }
        if levels[self.output] != Some(path.level) || path.moves.len() != self.steps.len() {
            return Err(format!("found the result at {:?}, needed level {}", levels[self.output], path.level));
        }
        Ok((seconds, made))
    }

    /// Tensors that are live after a step, in ascending order.
    fn live_after(&self, live: &[usize], position: usize) -> Vec<usize> {
        let step = &self.steps[position];
        let later = |tensor: &usize| {
            *tensor == self.output || self.steps[position + 1..].iter().any(|step| step.inputs.contains(tensor))
        };
        let mut next: Vec<usize> = live.iter().chain(&step.outputs).copied().filter(later).collect();
        next.sort_unstable();
        next.dedup();
        next
    }

    /// Calls `visit` with every move, its seconds, and the levels after it.
    fn moves(
        &self,
        step: &Step,
        live: &[usize],
        levels: &[usize],
        mut visit: impl FnMut(Move, f64, &dyn Fn(usize) -> usize),
    ) {
        let level_of = |tensor: usize| live.binary_search(&tensor).map_or(0, |place| levels[place]);
        let before: Vec<usize> = step.inputs.iter().map(|&tensor| level_of(tensor)).collect();
        for refreshed in self.refreshes(step, &before) {
            let at = |input: usize| if refreshed[input] { self.ladder.top } else { before[input] };
            let at: Vec<usize> = (0..before.len()).map(at).collect();
            let paid = step.inputs.iter().zip(&refreshed).filter(|(_, refreshed)| **refreshed);
            let paid: f64 = paid.map(|(&tensor, _)| self.refresh[tensor]).sum();
            for (way, how) in step.ways.iter().enumerate() {
                let Some(highest) = working_level(how, &at) else { continue };
                // A fixed landing gains nothing from a higher working level, but may cost less at a lower one.
                for level in how.least..=highest {
                    let after = |tensor: usize| {
                        let input = step.inputs.iter().position(|&input| input == tensor);
                        match (step.outputs.contains(&tensor), input) {
                            (true, _) => how.lands(level),
                            (false, Some(input)) => at[input],
                            (false, None) => level_of(tensor),
                        }
                    };
                    let choice = Move { way, level, refreshed: refreshed.clone() };
                    visit(choice, paid + how.seconds[level], &after);
                }
            }
        }
    }
}

impl Segment {
    /// Seconds of a state, and of the parts of bootstraps that raise its tensors to the top.
    fn worth(&self, live: &[usize], (levels, reached): &(Vec<usize>, Reached)) -> f64 {
        let Ladder { entry, top } = self.ladder;
        let share = |(&tensor, &level): (&usize, &usize)| {
            let seconds = self.refresh[tensor];
            if seconds.is_finite() { seconds * (top - level) as f64 / (top - entry).max(1) as f64 } else { 0.0 }
        };
        reached.seconds + live.iter().zip(levels).map(share).sum::<f64>()
    }

    /// The levels that tensors have, or that a bootstrap can give them. With one way for each step some state has the
    /// most of each tensor, so whatever path there is continues from it.
    fn levels_left(&self, live: &[usize], levels: &[usize]) -> usize {
        let Ladder { entry, top } = self.ladder;
        let of_tensor = |(&tensor, &level): (&usize, &usize)| match level >= entry && self.refresh[tensor].is_finite() {
            true => top,
            false => level,
        };
        live.iter().zip(levels).map(of_tensor).sum()
    }

    /// The sets of inputs of a step, at these levels, that are worth a refresh before it: for some way, all inputs that
    /// are too low for a working level. A refresh of another input can wait for a later step.
    fn refreshes(&self, step: &Step, before: &[usize]) -> Vec<Vec<bool>> {
        let possible =
            |input: usize| before[input] >= self.ladder.entry && self.refresh[step.inputs[input]].is_finite();
        let mut sets = vec![vec![false; before.len()]];
        for how in &step.ways {
            let room = |input: usize| before[input] as i64 - how.above[input] as i64;
            for limit in 0..before.len() {
                let set: Vec<bool> = (0..before.len()).map(|input| room(input) <= room(limit)).collect();
                if set.iter().enumerate().all(|(input, refreshed)| !refreshed || possible(input)) {
                    sets.push(set);
                }
            }
        }
        // The last input first, so that equal costs always give the same plan.
        sets.sort_by(|a, b| a.iter().rev().cmp(b.iter().rev()));
        sets.dedup();
        sets
    }
}

/// The highest working level of a way for inputs at these levels; `None` if they are too low.
fn working_level(way: &Way, inputs: &[usize]) -> Option<usize> {
    let highest = inputs.iter().zip(&way.above).map(|(level, above)| level.checked_sub(*above)).min().flatten()?;
    let highest = highest.min(way.seconds.len() - 1);
    (highest >= way.least).then_some(highest)
}

impl Segment {
    /// The states that no other state equals or beats. A state beats another if it costs no more, counting bootstraps
    /// of all its tensors that are lower than in the other state.
    fn undominated(&self, live: &[usize], found: HashMap<Vec<usize>, Reached>) -> Vec<(Vec<usize>, Reached)> {
        let seconds = |reached: &Reached| match self.tolerance > 0.0 {
            true => (reached.seconds / self.tolerance).floor() * self.tolerance,
            false => reached.seconds,
        };
        let mut sorted: Vec<(Vec<usize>, Reached)> = found.into_iter().collect();
        let height = |levels: &[usize]| levels.iter().sum::<usize>();
        sorted.sort_by(|a, b| {
            let heights = height(&b.0).cmp(&height(&a.0)).then_with(|| b.0.cmp(&a.0));
            seconds(&a.1).total_cmp(&seconds(&b.1)).then(heights)
        });
        let mut kept: Vec<(Vec<usize>, Reached)> = Vec::new();
        for (levels, reached) in sorted {
            let beats = |(other, before): &(Vec<usize>, Reached)| {
                let lower = live.iter().zip(other.iter().zip(&levels)).filter(|(_, (other, level))| other < level);
                let raised = lower.map(|(&tensor, (&other, _))| match other >= self.ladder.entry {
                    true => self.refresh[tensor],
                    false => f64::INFINITY,
                });
                seconds(before) + raised.sum::<f64>() <= seconds(&reached)
            };
            if !kept.iter().any(beats) {
                kept.push((levels, reached));
            }
        }
        kept
    }
}

fn path(arena: &[Reached], level: usize, mut node: usize) -> Path {
    let seconds = arena[node].seconds;
    let mut moves = Vec::new();
    while let Some(choice) = &arena[node].choice {
        moves.push(choice.clone());
        node = arena[node].before;
    }
    moves.reverse();
    Path { seconds, moves, level }
}

/// The paths of a chain: number of the segment, level at its begin, number of its path.
type Taken = Vec<(usize, usize, usize)>;

/// Joins repeated segments: the cheapest chain of paths, each beginning at the level where the one before it ends.
/// `segments` lists the segments in their order by number.
pub fn chain(segments: &[Segment], order: &[usize], start: usize) -> Option<(f64, Vec<Path>)> {
    let mut known: HashMap<(usize, usize), Vec<Path>> = HashMap::new();
    // For each level that is reached: seconds, and the paths so far.
    let mut reached: Vec<(usize, f64, Taken)> = vec![(start, 0.0, Vec::new())];
    for &segment in order {
        let mut next: HashMap<usize, (f64, Taken)> = HashMap::new();
        for (level, seconds, taken) in &reached {
            let paths = known.entry((segment, *level)).or_insert_with(|| segments[segment].cheapest(*level));
            for (number, path) in paths.iter().enumerate() {
                let total = seconds + path.seconds;
                if next.get(&path.level).is_none_or(|(best, _)| total < *best) {
                    let taken = taken.iter().copied().chain([(segment, *level, number)]).collect();
                    next.insert(path.level, (total, taken));
                }
            }
        }
        reached = next.into_iter().map(|(level, (seconds, taken))| (level, seconds, taken)).collect();
        // A fixed order, so that equal costs always give the same plan.
        reached.sort_by_key(|(level, _, _)| std::cmp::Reverse(*level));
    }
    let (_, seconds, taken) = reached.into_iter().min_by(|a, b| a.1.total_cmp(&b.1))?;
    let paths = taken.into_iter().map(|(segment, level, number)| known[&(segment, level)][number].clone());
    Some((seconds, paths.collect()))
}

#[cfg(test)]
mod tests;
