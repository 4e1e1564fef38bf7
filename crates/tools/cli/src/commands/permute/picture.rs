//! Pictures of permutations.

use svg::Document;
use svg::node::element::path::Data;
use svg::node::element::{Circle, Group, Path, Rectangle, Text};
use unspoken_permute::{Diagonals, Edge, Network, Source};

/// Pixels of a matrix, of the room around it, and of a line of text.
const PANEL: f64 = 220.0;
const MARGIN: f64 = 28.0;
const LINE: f64 = 15.0;

/// Most shifts that a caption lists; for more, it shows their number only.
const LISTED: usize = 7;

/// The matrices of a permutation and of its factors side by side. Each entry is a dot; each diagonal has a colour.
pub fn diagonals_picture(title: &str, panels: &[(String, Diagonals)]) -> Document {
    let width = MARGIN + panels.len() as f64 * (PANEL + MARGIN);
    let height = MARGIN + 4.0 * LINE + PANEL + MARGIN;
    let drawn = panels.iter().enumerate().map(|(i, (name, diagonals))| {
        let left = MARGIN + i as f64 * (PANEL + MARGIN);
        matrix(name, diagonals).set("transform", format!("translate({left} {})", MARGIN + LINE))
    });
    drawn.fold(page(title, width, height), Document::add)
}

fn page(title: &str, width: f64, height: f64) -> Document {
    Document::new()
        .set("viewBox", (0, 0, width, height))
        .set("width", width)
        .set("height", height)
        .set("font-family", "sans-serif")
        .set("font-size", 11)
        .add(Rectangle::new().set("width", width).set("height", height).set("fill", "white"))
        .add(Text::new(title).set("x", MARGIN).set("y", MARGIN - 8.0).set("font-size", 14))
}

fn matrix(name: &str, diagonals: &Diagonals) -> Group {
    let cell = PANEL / diagonals.length() as f64;
    let count = diagonals.len();
    let shifts: Vec<String> = diagonals.iter().map(|(shift, _)| shift.to_string()).collect();
    let caption = if count > LISTED { format!("{count} diagonals") } else { format!("{count}: {}", shifts.join(", ")) };
    let frame = Rectangle::new().set("y", 2.0 * LINE).set("width", PANEL).set("height", PANEL);
    let mut group = Group::new()
        .add(Text::new(name).set("y", LINE * 0.7))
        .add(Text::new(caption).set("y", LINE * 1.7).set("fill", "#555"))
        .add(frame.set("fill", "#f6f6f6").set("stroke", "#999"));
    for (i, (shift, positions)) in diagonals.iter().enumerate() {
        let colour = COLOURS[i % COLOURS.len()];
        for &row in positions {
            let column = f64::from(row) + shift as f64;
            let (x, y) = (column * cell, 2.0 * LINE + f64::from(row) * cell);
            let dot = Rectangle::new().set("x", x).set("y", y).set("width", cell).set("height", cell);
            group = group.add(dot.set("fill", colour));
        }
    }
    group
}

/// Colours of the diagonals; neighbouring ones are distinct for colour-blind readers too.
const COLOURS: [&str; 7] = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000", "#e69f00", "#56b4e9"];

/// Pixels between the levels of a network, pixels between its nodes, and radius of a node.
const LEVEL: f64 = 84.0;
const COLUMN: f64 = 96.0;
const RADIUS: f64 = 19.0;

/// A network, from the input at the top to the result at the bottom. A circle is one rotation. A line carries the
/// entries of one mask; the number of entries is printed beside it.
pub fn network_picture(title: &str, network: &Network) -> Document {
    let mut levels: Vec<usize> = Vec::new();
    let mut columns: Vec<usize> = Vec::new();
    let mut filled: Vec<usize> = vec![0];
    for node in &network.nodes {
        let before = node.edges.iter().map(|edge| match edge.from {
            Source::Input(_) => 0,
            Source::Node(from) => levels.get(from).copied().unwrap_or(0),
        });
        let level = 1 + before.max().unwrap_or(0);
        filled.resize(filled.len().max(level + 1), 0);
        levels.push(level);
        columns.push(filled[level]);
        filled[level] += 1;
    }
    let widest = filled.iter().copied().max().unwrap_or(1).max(3);
    let bottom = 50.0 + LEVEL * filled.len() as f64;
    let middle = MARGIN + COLUMN * widest as f64 / 2.0;
    let place = |node: usize| {
        let room = COLUMN * widest as f64 / filled[levels[node]].max(1) as f64;
        (MARGIN + room * (columns[node] as f64 + 0.5), 50.0 + LEVEL * levels[node] as f64)
    };
    let start = |edge: &Edge| match edge.from {
        Source::Input(_) => (middle, 50.0),
        Source::Node(node) => place(node),
    };
    let mut lines = Group::new().set("stroke", "#aaa").set("fill", "none");
    let mut labels = Group::new().set("fill", "#777").set("text-anchor", "middle").set("font-size", 9);
    let into =
        network.nodes.iter().enumerate().flat_map(|(i, node)| node.edges.iter().map(move |edge| (edge, Some(i))));
    let out = network.leaves.values().flatten().map(|edge| (edge, None));
    for (edge, to) in into.chain(out) {
        let ((x0, y0), (x1, y1)) = (start(edge), to.map_or((middle, bottom), place));
        // A line that skips levels is curved, so that it does not pass behind their nodes.
        let bend = (((y1 - y0) / LEVEL).round() - 1.0) * COLUMN * if x0 + x1 > 2.0 * middle { 0.5 } else { -0.5 };
        let (xm, ym) = ((x0 + x1) / 2.0 + bend, (y0 + y1) / 2.0);
        let curve = Data::new().move_to((x0, y0)).quadratic_curve_to((xm, ym, x1, y1));
        lines = lines.add(Path::new().set("d", curve));
        let entries = edge.mask.as_ref().map_or("all".to_owned(), |mask| mask.len().to_string());
        let label = Text::new(entries).set("x", x0 / 4.0 + xm / 2.0 + x1 / 4.0 + 6.0);
        labels = labels.add(label.set("y", y0 / 4.0 + ym / 2.0 + y1 / 4.0));
    }
    let mut nodes = Group::new().set("text-anchor", "middle");
    let named = network.nodes.iter().enumerate().map(|(i, node)| (place(i), format!("rot {}", node.rotation)));
    let ends = [((middle, 50.0), "input".to_owned()), ((middle, bottom), "sum".to_owned())];
    for ((x, y), name) in named.chain(ends) {
        let circle = Circle::new().set("cx", x).set("cy", y).set("r", RADIUS);
        nodes = nodes.add(circle.set("fill", "#e8eef8").set("stroke", "#446"));
        nodes = nodes.add(Text::new(name).set("x", x).set("y", y + 4.0));
    }
    let size = (2.0 * MARGIN + COLUMN * widest as f64, bottom + 2.0 * MARGIN);
    page(title, size.0, size.1).add(lines).add(labels).add(nodes)
}
