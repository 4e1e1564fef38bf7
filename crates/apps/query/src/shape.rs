//! The shape of a query.

use unspoken_ckks::CkksParameters;
use unspoken_lookup::Lookup;

/// The shape of a query.
#[derive(Clone, Debug)]
pub struct QueryShape {
    /// The CKKS parameters.
    pub parameters: CkksParameters,
    /// Number of subtables `l`.
    pub subtables: usize,
    /// Number of columns `p`, padded as a [`Table`](unspoken_lookup::Table) pads them.
    pub columns: usize,
    /// Level of the query's vectors; their scale is [`query_scale`](unspoken_lookup::query_scale).
    pub level: usize,
}

impl QueryShape {
    pub(crate) fn of(lookup: &Lookup) -> Self {
        let (subtables, _, columns) = lookup.shape();
        QueryShape { parameters: lookup.parameters().clone(), subtables, columns, level: lookup.input_level() }
    }
}
