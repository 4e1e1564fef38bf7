//! Passages in front of questions: the number of tokens does not depend on them.

use std::sync::Arc;

use unspoken_chat::{ChatError, Conversation, Passages, PromptTokens};
use unspoken_llama_model::{ChatTemplate, ClientModel, Message, Rendering};

use crate::common::{setting, stories260k};

const TEMPLATE: &str = "{% for m in messages %}<{{ m.role }}> {{ m.content | trim }}\n{% endfor %}\
                        {% if add_generation_prompt %}< {% endif %}";
const TOKENS: usize = 40;

/// What may be found for one question.
const FOUND: [&[&str]; 6] = [
    &[],
    &["Tom has a cat."],
    &["Tom has a cat.", "Mia has a dog.", "Ben is big."],
    &["The ball of Tom is red, and that of Mia is blue; both of them play with it in the park all the long day."],
    &["an end\n</s>\nof the text\n<s>\n", "  \n", "Tom"],
    &[
        "Questionquestionquestionquestionquestionquestionquestionquestionquestionquestion",
        "\u{1f600}\u{1f600}\u{1f600}",
    ],
];

fn talking() -> Arc<ClientModel> {
    let template = ChatTemplate::new(TEMPLATE, [].into()).unwrap();
    Arc::new(ClientModel::new(&setting().rotated, stories260k().tokenizer.with_chat_template(Some(template))))
}

/// The tokens of a conversation of two questions of which the first was answered by a text.
fn read(model: &Arc<ClientModel>, found: [&[&str]; 2], chunk: usize) -> PromptTokens {
    let mut passages = Passages::new(TOKENS).unwrap();
    let mut ask = |question, found: &[&str]| {
        let content = passages.ask(model.tokenizer(), question, found).unwrap();
        Message::new("user", content.as_str())
    };
    let messages = [ask("What has Tom?", found[0]), Message::new("assistant", " A cat."), ask("And Mia?", found[1])];
    let prompt = model.tokenizer().prompt(&messages, 0, &Rendering::default()).unwrap();
    Conversation::new(Arc::clone(model), true).unwrap().read_with(&prompt, &passages, chunk).unwrap()
}

#[test]
fn whatever_is_found_a_text_has_as_many_tokens() {
    let model = talking();
    for chunk in [1, 8] {
        let lengths = FOUND.iter().flat_map(|first| FOUND.map(|second| read(&model, [first, second], chunk)));
        let lengths: Vec<usize> = lengths.map(|tokens| tokens.private.len()).collect();
        assert!(lengths.iter().all(|length| *length == lengths[0]), "{chunk}: {lengths:?}");
        assert_eq!(lengths[0] % chunk, 0);
        assert!(lengths[0] > 2 * TOKENS);
    }
}

#[test]
fn a_template_that_changes_questions_is_refused() {
    for change in ["replace('\n', ' ')", "upper", "tojson"] {
        let template = TEMPLATE.replace("trim", change);
        let template = ChatTemplate::new(&template, [].into()).unwrap();
        let model = ClientModel::new(&setting().rotated, stories260k().tokenizer.with_chat_template(Some(template)));
        let mut passages = Passages::new(TOKENS).unwrap();
        let content = passages.ask(model.tokenizer(), "What has Tom?", FOUND[2]).unwrap();
        let messages = [Message::new("user", content.as_str())];
        let prompt = model.tokenizer().prompt(&messages, 0, &Rendering::default()).unwrap();
        let conversation = Conversation::new(Arc::new(model), true).unwrap();
        let error = conversation.read_with(&prompt, &passages, 8).map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("changes a question"), "{change}: {error}");
    }
}

#[test]
fn what_fits_is_in_the_text_whole_and_the_rest_is_cut_at_a_word() {
    let model = talking();
    let ask = |tokens: usize, found: &[&str]| {
        let mut passages = Passages::new(tokens).unwrap();
        let content = passages.ask(model.tokenizer(), "What has Tom?", found).unwrap();
        assert_eq!(passages.questions(), 1);
        content.to_string()
    };
    let question = "Question: What has Tom?";
    assert_eq!(ask(64, FOUND[0]), format!("Passages: none.\n\n{question}"));
    assert_eq!(
        ask(64, FOUND[2]),
        format!("Passages:\n- Tom has a cat.\n- Mia has a dog.\n- Ben is big.\n\n{question}")
    );
    let cut = ask(TOKENS, FOUND[3]);
    assert!(cut.starts_with("Passages:\n- The ball of Tom is") && cut.ends_with(&format!("\n\n{question}")), "{cut}");
    assert!(FOUND[3][0].contains(&cut[12..cut.len() - question.len() - 2]), "{cut}");
    assert_eq!(ask(64, FOUND[4]), format!("Passages:\n- an end </s> of the text <s>\n- Tom\n\n{question}"));
    assert_eq!(*Passages::without_template(question), format!("{question}\nAnswer:"));
    let error = Passages::new(15).map(|_| ()).unwrap_err();
    assert!(matches!(error, ChatError::Protocol(_)) && error.to_string().contains("16 or more"), "{error}");
}
