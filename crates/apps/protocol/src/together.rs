//! Requests of several clients that are answered together: a request that cannot be answered leaves the others their
//! answers.
//!
//! Waiting requests of all clients to dense tables are answered together, in one pass over the tables
//! (`ServerHalf::answer_together`), each with its client's keys. A request that is malformed or fails leaves the others
//! their answers.

use crate::error::ProtocolError;

/// The answers to some requests, in their order. `answer` gets the requests that can be read, and returns an answer for
/// each.
pub fn answer_readable<R, Q, E: From<ProtocolError>>(
    requests: &[R],
    read: impl Fn(&R) -> Result<Q, E>,
    answer: impl FnOnce(&[(&R, &Q)]) -> Vec<Result<Vec<u8>, E>>,
) -> Vec<Result<Vec<u8>, E>> {
    let read: Vec<Result<Q, E>> = requests.iter().map(read).collect();
    let readable = requests.iter().zip(&read).filter_map(|(request, read)| Some((request, read.as_ref().ok()?)));
    let mut answers = answer(&readable.collect::<Vec<_>>()).into_iter();
    read.into_iter().map(|read| read.and_then(|_| answers.next().unwrap_or_else(|| Err(lost())))).collect()
}

/// The answers of one computation for all requests. If it fails, each request is answered alone, because a single
/// request may have caused the error.
pub fn answer_all_or_each<T, E>(
    requests: &[T],
    answer: &impl Fn(&[T]) -> Result<Vec<Vec<u8>>, E>,
) -> Vec<Result<Vec<u8>, E>> {
    match answer(requests) {
        Ok(answers) => answers.into_iter().map(Ok).collect(),
        Err(error) if requests.len() == 1 => vec![Err(error)],
        Err(_) => requests.chunks(1).flat_map(|one| answer_all_or_each(one, answer)).collect(),
    }
}

/// The answer to the only request.
///
/// # Errors
/// If the request has none, or no answer is there, which does not happen.
pub fn only<E: From<ProtocolError>>(answers: Vec<Result<Vec<u8>, E>>) -> Result<Vec<u8>, E> {
    answers.into_iter().next().unwrap_or_else(|| Err(lost()))
}

/// The error of a request without an answer, which does not happen.
fn lost<E: From<ProtocolError>>() -> E {
    ProtocolError::mismatch("answers", "fewer than requests", "one for each").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(what: &'static str) -> ProtocolError {
        ProtocolError::mismatch(what, "found", "needed")
    }

    #[test]
    fn what_cannot_be_read_or_answered_leaves_the_others_their_answers() {
        let read = |&number: &u8| if number == 9 { Err(wrong("unreadable")) } else { Ok(number + 1) };
        // Fails for all if there is a 4.
        let answer = |some: &[(&u8, &u8)]| match some.iter().any(|(number, _)| **number == 4) {
            true => Err(wrong("unanswerable")),
            false => Ok(some.iter().map(|(number, read)| vec![**number, **read]).collect()),
        };
        let answers = answer_readable(&[1, 9, 4, 2], read, |some| answer_all_or_each(some, &answer));
        let answers: Vec<String> = answers
            .into_iter()
            .map(|answer| answer.map_or_else(|error| error.to_string(), |a| format!("{a:?}")))
            .collect();
        assert_eq!((answers[0].as_str(), answers[3].as_str()), ("[1, 2]", "[2, 3]"));
        assert!(answers[1].starts_with("unreadable") && answers[2].starts_with("unanswerable"), "{answers:?}");
    }
}
