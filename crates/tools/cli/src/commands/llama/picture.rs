//! The residual stream of a model as a picture.

use svg::Document;
use svg::node::element::path::Data;
use svg::node::element::{Circle, Group, Path, Rectangle, Text};

/// Largest absolute values along the layers of a model.
pub struct Line {
    pub name: &'static str,
    /// Layer and value; the place between attention and feed-forward network is half a layer.
    pub points: Vec<(f64, f64)>,
}

/// Pixels of the plot, of the room at its sides, and of a line of text.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 76.0;
const TOP: f64 = 64.0;
const BOTTOM: f64 = 56.0;
const LEGEND: f64 = 176.0;
const TEXT: f64 = 18.0;

/// Colours that colour-blind readers can tell apart.
const COLOURS: [&str; 4] = ["#d55e00", "#0072b2", "#e69f00", "#009e73"];

/// Maximum number of labelled layers.
const LABELS: usize = 12;

/// A line for each form of the model: the layer to the right, the largest absolute value upwards by powers of ten.
pub fn residual_picture(title: &str, lines: &[Line]) -> Document {
    let points = || lines.iter().flat_map(|line| &line.points).filter(|(_, value)| *value > 0.0 && value.is_finite());
    let layers = points().map(|(layer, _)| *layer).fold(1.0, f64::max);
    let least = points().map(|(_, value)| value.log10().floor()).fold(f64::INFINITY, f64::min);
    let most = points().map(|(_, value)| value.log10().ceil()).fold(f64::NEG_INFINITY, f64::max);
    let (least, most) = if least < most { (least, most) } else { (0.0, 1.0) };
    let scale = Scale { layers, least, most };
    let size = (LEFT + WIDTH + LEGEND, TOP + HEIGHT + BOTTOM);
    let page = Document::new()
        .set("viewBox", (0, 0, size.0, size.1))
        .set("width", size.0)
        .set("height", size.1)
        .set("font-family", "sans-serif")
        .set("font-size", 12)
        .add(Rectangle::new().set("width", size.0).set("height", size.1).set("fill", "white"))
        .add(Text::new(title).set("x", LEFT).set("y", 26).set("font-size", 15))
        .add(Text::new("largest absolute value of all coordinates and tokens").set("x", LEFT).set("y", 46));
    lines.iter().enumerate().fold(page.add(axes(&scale)), |page, (i, line)| {
        let colour = COLOURS[i % COLOURS.len()];
        page.add(curve(&scale, line, colour)).add(legend(i, line, colour))
    })
}

/// Places of layers and powers of ten.
struct Scale {
    layers: f64,
    least: f64,
    most: f64,
}

impl Scale {
    fn x(&self, layer: f64) -> f64 {
        LEFT + WIDTH * layer / self.layers
    }

    fn y(&self, power: f64) -> f64 {
        TOP + HEIGHT * (self.most - power) / (self.most - self.least)
    }
}

/// Frame, lines at powers of ten, and labels.
fn axes(scale: &Scale) -> Group {
    let mut group = Group::new().set("fill", "#333");
    let mut power = scale.least;
    while power <= scale.most {
        let y = scale.y(power);
        let line = Data::new().move_to((LEFT, y)).line_to((LEFT + WIDTH, y));
        let label = if power.abs() <= 5.0 { format!("{}", 10f64.powf(power)) } else { format!("1e{power}") };
        group = group
            .add(Path::new().set("d", line).set("stroke", "#ddd"))
            .add(Text::new(label).set("x", LEFT - 8.0).set("y", y + 4.0).set("text-anchor", "end"));
        power += 1.0;
    }
    let step = (scale.layers as usize).div_ceil(LABELS).max(1);
    for layer in (0..=scale.layers as usize).step_by(step) {
        let (x, y) = (scale.x(layer as f64), TOP + HEIGHT);
        let tick = Data::new().move_to((x, y)).line_to((x, y + 5.0));
        group = group
            .add(Path::new().set("d", tick).set("stroke", "#333"))
            .add(Text::new(layer.to_string()).set("x", x).set("y", y + 20.0).set("text-anchor", "middle"));
    }
    let frame = Rectangle::new().set("x", LEFT).set("y", TOP).set("width", WIDTH).set("height", HEIGHT);
    let (middle, side) = (LEFT + WIDTH / 2.0, TOP + HEIGHT / 2.0);
    let upwards = Text::new("largest |residual|").set("text-anchor", "middle");
    group
        .add(frame.set("fill", "none").set("stroke", "#333"))
        .add(Text::new("layer").set("x", middle).set("y", TOP + HEIGHT + 42.0).set("text-anchor", "middle"))
        .add(upwards.set("transform", format!("translate(22 {side}) rotate(-90)")))
}

/// A line with a dot at each point.
fn curve(scale: &Scale, line: &Line, colour: &str) -> Group {
    let mut data = Data::new();
    let mut dots = Group::new().set("fill", colour);
    for (i, (layer, value)) in line.points.iter().filter(|(_, value)| *value > 0.0).enumerate() {
        let (x, y) = (scale.x(*layer), scale.y(value.log10()));
        data = if i == 0 { data.move_to((x, y)) } else { data.line_to((x, y)) };
        dots = dots.add(Circle::new().set("cx", x).set("cy", y).set("r", 2));
    }
    let path = Path::new().set("d", data).set("fill", "none").set("stroke", colour).set("stroke-width", 2);
    Group::new().add(path).add(dots)
}

/// The name of a line, beside a piece of it.
fn legend(place: usize, line: &Line, colour: &str) -> Group {
    let (x, y) = (LEFT + WIDTH + 16.0, TOP + 12.0 + TEXT * place as f64);
    let piece = Data::new().move_to((x, y)).line_to((x + 22.0, y));
    Group::new()
        .add(Path::new().set("d", piece).set("stroke", colour).set("stroke-width", 3))
        .add(Text::new(line.name).set("x", x + 30.0).set("y", y + 4.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_ten_times_as_large_is_one_power_higher() {
        let line = Line { name: "original", points: vec![(0.0, 1.0), (0.5, 10.0), (1.0, 100.0)] };
        let drawn = residual_picture("title", &[line]).to_string().replace('\n', "");
        for part in ["title", "original", "largest |residual|", ">layer<", ">100<"] {
            assert!(drawn.contains(part), "{part}: {drawn}");
        }
        let (bottom, middle, top) = (TOP + HEIGHT, TOP + HEIGHT / 2.0, TOP);
        for (x, y) in [(LEFT, bottom), (LEFT + WIDTH / 2.0, middle), (LEFT + WIDTH, top)] {
            assert!(drawn.contains(&format!("cx=\"{x}\" cy=\"{y}\"")), "{x} {y}: {drawn}");
        }
    }

    #[test]
    fn lines_without_values_are_drawn_as_nothing() {
        let drawn = residual_picture("empty", &[Line { name: "original", points: vec![(0.0, 0.0)] }]).to_string();
        assert!(!drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
    }
}
