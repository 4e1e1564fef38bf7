//! Passages of documents in front of questions, in a number of tokens that does not depend on them.

use unspoken_llama_model::Tokenizer;
use zeroize::Zeroizing;

use crate::error::ChatError;

/// What stands in front of passages, and what stands there if nothing was found.
const FRONT: &str = "Passages:\n";
const NONE: &str = "Passages: none.\n\n";

/// Bytes of a document that are looked at, for each token of passages: more than tokens have.
const BYTES_OF_TOKEN: usize = 16;

/// Rounds in which names of control tokens are left out of a passage: a name may appear where another one was.
const ROUNDS: usize = 8;

/// Fewest tokens for passages.
const LEAST_TOKENS: usize = 16;

/// Passages of documents in front of the questions of a conversation. Passages reveal what was asked, so they are
/// private text. Those of a question take a fixed number of tokens: longer ones are cut, and what is missing is filled
/// up with dots. So what a service sees does not depend on what was found.
#[derive(Clone, Default)]
pub struct Passages {
    /// Tokens of the passages of a question; 0 for none.
    tokens: usize,
    /// The questions so far with what stands in front of them, and the number of bytes of the latter.
    blocks: Vec<(Zeroizing<String>, usize)>,
}

impl Passages {
    /// Passages of `tokens` tokens for each question.
    ///
    /// # Errors
    /// If these are fewer than 16.
    pub fn new(tokens: usize) -> Result<Self, ChatError> {
        if tokens < LEAST_TOKENS {
            let needed = format!("{LEAST_TOKENS} or more");
            return Err(ChatError::mismatch("tokens of passages", tokens, needed));
        }
        Ok(Passages { tokens, blocks: Vec::new() })
    }

    /// The number of questions so far.
    pub fn questions(&self) -> usize {
        self.blocks.len()
    }

    /// Forgets all but the first `count` questions.
    pub fn truncate(&mut self, count: usize) {
        self.blocks.truncate(count);
    }

    /// A question with what was found in front, the best first: the content of a message. Names of control tokens are
    /// left out of passages, because a text with them is refused, and nobody may learn from that what was found. Line
    /// breaks become spaces.
    ///
    /// # Errors
    /// If the tokenizer refuses a text, or has more than the tokens of the passages for the words "Passages: none."
    pub fn ask<T: AsRef<str>>(
        &mut self,
        tokenizer: &Tokenizer,
        question: &str,
        found: &[T],
    ) -> Result<Zeroizing<String>, ChatError> {
        let controls: Vec<String> =
            tokenizer.controls().into_iter().filter_map(|id| tokenizer.token_text(id)).collect();
        let count = |block: &str| Ok::<_, ChatError>(Zeroizing::new(tokenizer.encode_continuation(block)?).len());
        let least = count(NONE)?;
        if least > self.tokens {
            return Err(ChatError::mismatch("tokens of passages", self.tokens, format!("{least} for \"none\"")));
        }
        let mut block = Zeroizing::new(NONE.to_owned());
        let mut before = Zeroizing::new(FRONT.to_owned());
        for passage in found {
            let passage = cleaned(cut(passage.as_ref(), BYTES_OF_TOKEN * self.tokens), &controls);
            // Where its words end.
            let ends: Vec<usize> = passage.match_indices(' ').map(|(end, _)| end).chain([passage.len()]).collect();
            let with = |end: usize| Zeroizing::new(format!("{}- {}\n\n", *before, &passage[..end]));
            let (mut fits, mut fails) = (0, ends.len() + 1);
            if count(&with(passage.len()))? <= self.tokens {
                (fits, fails) = (ends.len(), ends.len() + 1);
            }
            while fails - fits > 1 {
                let middle = usize::midpoint(fits, fails);
                match count(&with(ends[middle - 1]))? <= self.tokens {
                    true => fits = middle,
                    false => fails = middle,
                }
            }
            if let (false, Some(last)) = (passage.is_empty(), fits.checked_sub(1)) {
                block = with(ends[last]);
                *before = format!("{}- {}\n", *before, *passage);
            }
            if fits < ends.len() {
                break;
            }
        }
        let content = Zeroizing::new(format!("{}Question: {question}", *block));
        self.blocks.push((content.clone(), block.len()));
        Ok(content)
    }

    /// The text that a model without a template of conversations continues.
    pub fn without_template(content: &str) -> Zeroizing<String> {
        Zeroizing::new(format!("{content}\nAnswer:"))
    }

    /// The tokens of a text after its first `bytes` bytes, and the number of tokens that fill its passages up.
    pub(crate) fn encode(
        &self,
        tokenizer: &Tokenizer,
        text: &str,
        bytes: usize,
    ) -> Result<(Zeroizing<Vec<u32>>, usize), ChatError> {
        let (mut tokens, mut missing) = (Zeroizing::new(Vec::new()), 0);
        let mut add = |piece: &str, most: usize| {
            let mut new = Zeroizing::new(tokenizer.encode_continuation(piece)?);
            new.truncate(most);
            // So that no copy stays in memory.
            let mut all = Zeroizing::new(Vec::with_capacity(tokens.len() + new.len()));
            all.extend_from_slice(&tokens);
            all.extend_from_slice(&new);
            tokens = all;
            Ok::<_, ChatError>(new.len())
        };
        // Passages are encoded alone, so that the number of the other tokens does not depend on them.
        let (mut done, mut place, mut is_last) = (bytes, 0, self.blocks.is_empty());
        for (number, (content, length)) in self.blocks.iter().enumerate() {
            // Templates cut white space off the ends of messages.
            let content = content.trim_end();
            let Some(begin) = text[place..].find(content).map(|begin| place + begin) else { continue };
            place = begin + content.len();
            is_last = number + 1 == self.blocks.len();
            if begin >= bytes {
                let block = &content[..*length];
                add(&text[done..begin], usize::MAX)?;
                missing += self.tokens - add(block, self.tokens)?;
                done = begin + block.len();
            }
        }
        if !is_last {
            let needed = "one that leaves the text of messages as it is: the number of tokens would depend on passages";
            return Err(ChatError::mismatch("template", "one that changes a question with passages", needed));
        }
        add(&text[done..], usize::MAX)?;
        Ok((tokens, missing))
    }

    /// Whether there are any.
    pub(crate) fn is_used(&self) -> bool {
        !self.blocks.is_empty()
    }
}

/// The begin of a text, at most so many bytes.
fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// A passage in one line, without the names of control tokens. None of it, if names are nested too often.
fn cleaned(passage: &str, controls: &[String]) -> Zeroizing<String> {
    let mut text = Zeroizing::new(passage.to_owned());
    for _ in 0..ROUNDS {
        *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        // Without one name, the rest may be another.
        match controls.iter().find(|control| !control.is_empty() && text.contains(control.as_str())) {
            Some(control) => *text = text.replace(control, ""),
            None => return text,
        }
    }
    Zeroizing::default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_control_tokens_are_left_out_also_if_they_are_nested() {
        let controls = ["<|im_end|>".to_owned(), "</s>".to_owned()];
        assert_eq!(*cleaned(" a\n\n b<|im_<|im_end|>end|> </s>c\t", &controls), "a b c");
        assert_eq!(*cleaned("\n", &controls), "");
        // Names within names within names.
        let nested = (0..20).fold("</s>".to_owned(), |inner, _| format!("</{inner}s>"));
        assert_eq!(*cleaned(&nested, &controls), "");
        assert_eq!((cut("ab\u{e4}", 3), cut("ab\u{e4}", 4), cut("a", 9)), ("ab", "ab\u{e4}", "a"));
    }
}
