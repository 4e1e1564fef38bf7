//! Strings that end a text.

use zeroize::Zeroizing;

/// A text that comes in pieces and ends before the first stop string. Text that may be the beginning of a stop string
/// is held back until it is known.
pub struct StopStream {
    stops: Vec<String>,
    held: Zeroizing<String>,
    stopped: bool,
}

impl StopStream {
    /// A stream that ends before one of these strings. Empty ones are ignored.
    pub fn new(stops: impl IntoIterator<Item = String>) -> Self {
        let stops = stops.into_iter().filter(|stop| !stop.is_empty()).collect();
        StopStream { stops, held: Zeroizing::new(String::new()), stopped: false }
    }

    /// Takes a piece, and returns the text that is known to come before any stop string.
    pub fn push(&mut self, piece: &str) -> String {
        if self.stopped {
            return String::new();
        }
        self.held.push_str(piece);
        if let Some(place) = self.stops.iter().filter_map(|stop| self.held.find(stop.as_str())).min() {
            self.stopped = true;
            self.held.truncate(place);
            return self.rest();
        }
        let beginning = |place: usize| self.stops.iter().any(|stop| stop.starts_with(&self.held[place..]));
        let keep = self.held.char_indices().map(|(place, _)| place).find(|&place| beginning(place));
        let shown = self.held[..keep.unwrap_or(self.held.len())].to_owned();
        self.held.drain(..shown.len());
        shown
    }

    /// What was held back: the end of the text, if no further piece comes.
    pub fn rest(&mut self) -> String {
        let rest = self.held.to_string();
        self.held.clear();
        rest
    }

    /// Whether a stop string has come: then the text ends before it, whatever follows.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text that is shown piece by piece, and whether it was stopped.
    fn shown(stops: &[&str], pieces: &[&str]) -> (Vec<String>, String, bool) {
        let mut stream = StopStream::new(stops.iter().map(|stop| (*stop).to_owned()));
        let shown = pieces.iter().map(|piece| stream.push(piece)).collect();
        let rest = stream.rest();
        (shown, rest, stream.is_stopped())
    }

    #[test]
    fn text_ends_before_the_first_stop_string() {
        let (pieces, rest, stopped) = shown(&["\n\n", "User:"], &["Hel", "lo\n", "\nUs", "er: more"]);
        assert_eq!((pieces.concat() + &rest, stopped), ("Hello".into(), true));
        let (pieces, rest, stopped) = shown(&["b", "ab"], &["xab"]);
        assert_eq!((pieces.concat() + &rest, stopped), ("x".into(), true));
    }

    #[test]
    fn only_what_may_begin_a_stop_string_is_held_back() {
        let (pieces, rest, stopped) = shown(&["END"], &["aE", "N", "x", "äE"]);
        assert_eq!(pieces, ["a", "", "ENx", "ä"]);
        assert_eq!((rest.as_str(), stopped), ("E", false));
        let (pieces, rest, _) = shown(&["aab"], &["aa", "ab"]);
        assert_eq!((pieces.concat(), rest.as_str()), ("a".into(), ""));
        let (pieces, ..) = shown(&[""], &["anything"]);
        assert_eq!(pieces, ["anything"]);
    }
}
