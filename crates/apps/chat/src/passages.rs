//! Passages of documents in front of questions, in a number of tokens that does not depend on them.

use unspoken_llama_model::Tokenizer;
use zeroize::Zeroizing;

use crate::error::ChatError;

/// What stands in front of passages, and what stands there if nothing was found.
const FRONT: &str = "Passages:\n";
const NONE: &str = "Passages: none.\n\n";

/// Fewest tokens for passages.
const LEAST_TOKENS: usize = 16;

/// Passages of documents in front of the questions of a conversation. Passages reveal what was asked, so they are
/// private text. Those of a question take a fixed number of tokens: longer ones are cut, and what is missing is filled
/// up with dots. So what a service sees does not depend on what was found.
#[derive(Clone, Default)]
pub struct Passages {
    /// Tokens of the passages of a question; 0 for none.
    tokens: usize,
    /// The texts in front of the questions so far.
    blocks: Vec<Zeroizing<String>>,
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
            let passage = cleaned(passage.as_ref(), &controls);
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
        self.blocks.push(block);
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
        let (mut done, mut place) = (bytes, 0);
        for block in &self.blocks {
            let Some(begin) = text[place..].find(block.as_str()).map(|begin| place + begin) else { continue };
            place = begin + block.len();
            if begin >= bytes {
                add(&text[done..begin], usize::MAX)?;
                missing += self.tokens - add(block, self.tokens)?;
                done = place;
            }
        }
        add(&text[done..], usize::MAX)?;
        Ok((tokens, missing))
    }

    /// Whether there are any.
    pub(crate) fn is_used(&self) -> bool {
        !self.blocks.is_empty()
    }
}

/// A passage in one line, without the names of control tokens.
fn cleaned(passage: &str, controls: &[String]) -> Zeroizing<String> {
    let mut text = Zeroizing::new(passage.to_owned());
    loop {
        *text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        // Without one name, the rest may be another.
        match controls.iter().find(|control| !control.is_empty() && text.contains(control.as_str())) {
            Some(control) => *text = text.replace(control, ""),
            None => return text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_control_tokens_are_left_out_also_if_they_are_nested() {
        let controls = ["<|im_end|>".to_owned(), "</s>".to_owned()];
        assert_eq!(*cleaned(" a\n\n b<|im_<|im_end|>end|> </s>c\t", &controls), "a b c");
        assert_eq!(*cleaned("\n", &controls), "");
    }
}
