//! Reading of decrypted data without an early end.

/// The results of all items, or the first error, after every item was evaluated: the time until an error is returned
/// does not tell which item caused it.
///
/// # Errors
/// The first error of the items.
pub fn read_every<T, E>(items: impl Iterator<Item = Result<T, E>>) -> Result<Vec<T>, E> {
    let read: Vec<_> = items.collect();
    read.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_evaluated_before_an_error_is_returned() {
        let mut evaluated = 0;
        let mut item = |i: u32| {
            evaluated += 1;
            if i % 3 == 1 { Err(i) } else { Ok(i) }
        };
        assert_eq!(read_every((0..9).map(&mut item)), Err(1));
        assert_eq!(read_every([0, 2, 3].into_iter().map(&mut item)), Ok(vec![0, 2, 3]));
        assert_eq!(evaluated, 12);
    }
}
