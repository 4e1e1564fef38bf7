//! Generated text on standard output.

use std::io::{self, IsTerminal, Write};

use anyhow::Context;

use crate::progress::Bars;

/// Characters of a line of text, and of the text to the right of a progress bar.
const LINE: usize = 80;
const TAIL: usize = 40;

/// Text that is printed as it comes. On a terminal, where a bar would overwrite an unfinished line, lines are printed
/// when they are complete, and the end of the last line is shown to the right of the bar.
pub struct Printed {
    pub text: String,
    /// What was not printed yet.
    line: String,
    by_lines: bool,
    silent: bool,
}

impl Printed {
    pub fn new(silent: bool) -> Self {
        let by_lines = io::stdout().is_terminal() && io::stderr().is_terminal();
        Printed { text: String::new(), line: String::new(), by_lines, silent }
    }

    /// Prints a piece.
    pub fn push(&mut self, new: &str, bars: &mut Bars) -> anyhow::Result<()> {
        self.text += new;
        self.line.extend(new.chars().map(printable));
        self.show(bars)
    }

    fn show(&mut self, bars: &mut Bars) -> anyhow::Result<()> {
        if self.silent {
            return Ok(());
        }
        if !self.by_lines {
            print!("{}", std::mem::take(&mut self.line));
            return io::stdout().flush().context("cannot write to standard output");
        }
        while let Some(cut) = cut(&self.line) {
            let rest = self.line.split_off(cut);
            let line = std::mem::replace(&mut self.line, rest);
            bars.finish();
            println!("{}", line.trim_end_matches('\n'));
        }
        let skipped = self.line.chars().count().saturating_sub(TAIL);
        bars.message(&self.line.chars().skip(skipped).collect::<String>());
        Ok(())
    }

    /// Prints the rest.
    pub fn finish(&mut self, bars: &mut Bars) -> anyhow::Result<()> {
        bars.finish();
        if !self.silent {
            println!("{}", std::mem::take(&mut self.line));
        }
        io::stdout().flush().context("cannot write to standard output")
    }
}

/// A character of generated text for the terminal. The service decides which tokens come, and they must not control it.
fn printable(character: char) -> char {
    match character {
        '\n' | '\t' => character,
        control if control.is_control() => char::REPLACEMENT_CHARACTER,
        _ => character,
    }
}

/// Where the first complete line of a text ends.
fn cut(text: &str) -> Option<usize> {
    if let Some(place) = text.find('\n') {
        return Some(place + 1);
    }
    let (full, _) = text.char_indices().nth(LINE)?;
    Some(text[..full].rfind(' ').map_or(full, |place| place + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_text_does_not_control_the_terminal() {
        let printed = |text: &str| text.chars().map(printable).collect::<String>();
        assert_eq!(printed("a\tb\nÄ "), "a\tb\nÄ ");
        assert_eq!(printed("\u{1b}[2J\r\u{9b}x\u{7f}"), "\u{fffd}[2J\u{fffd}\u{fffd}x\u{fffd}");
    }
}
