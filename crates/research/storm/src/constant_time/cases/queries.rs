//! Queries of indices, which the classifier and the embedding lookup share.

use std::path::Path;
use std::sync::Arc;

use unspoken_encrypt::{ClientKey, Encryptor};
use unspoken_query::{QueryCodec, QueryForm, QueryShape, ShortCompact, ShortQuery};

use super::ckks::{BOOTSTRAPPED, parameters, secret_key};
use crate::constant_time::memcheck::mark_secret;

pub fn run(_: &Path) -> anyhow::Result<()> {
    let parameters = parameters(BOOTSTRAPPED)?;
    for (form, columns) in [(QueryForm::Direct, 256), (QueryForm::OneHot, 4), (QueryForm::Compact, 256)] {
        let shape = QueryShape { parameters: parameters.clone(), subtables: 2, columns, level: 2 };
        let codec = QueryCodec::new(form, shape.clone())?;
        let key = ClientKey::Secret(Arc::new(secret_key(&parameters)?));
        let mut seed = [7u64];
        mark_secret(&mut seed);
        let encryptor = Encryptor::insecure_from_seed(&parameters, key, seed[0]);
        let mut indices: Vec<Vec<Option<usize>>> = (0..2)
            .map(|table| (0..100).map(|slot| (slot % 3 != 2).then_some((slot * 7 + table) % columns)).collect())
            .collect();
        indices.iter_mut().for_each(|list| mark_secret(list));
        codec.encrypt(&encryptor, &indices)?;
        if form == QueryForm::Compact {
            QueryCodec::ShortCompact(ShortCompact::new(shape, 128)?).encrypt(&encryptor, &indices)?;
        } else if form == QueryForm::Direct {
            ShortQuery::new(shape, 128)?.encrypt(&encryptor, &indices)?;
        }
    }
    Ok(())
}
