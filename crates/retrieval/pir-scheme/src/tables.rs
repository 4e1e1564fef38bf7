//! The tables of a database: how its cells are cut into pieces, one in each plane, and what queries to them cost.

use unspoken_ring::Device;

use crate::dense::{self, DenseQuery, DenseResponse, DenseSplit, MaskSeed};
use crate::error::{SchemeError, range};
use crate::layout::Layout;
use crate::mode::Mode;
use crate::parameters::{MAX_LOG2_FAILURE, PirParameters};
use crate::query::Query;
use crate::response::Response;
use crate::table_kind::{PlaneShape, TableKind};

/// A layout of records in cells, and the kind and shape of the tables of these cells. All numbers have been checked.
#[derive(Clone, Debug)]
pub struct Tables {
    parameters: PirParameters,
    layout: Layout,
    kind: TableKind,
    shape: PlaneShape,
    planes: usize,
}

impl Tables {
    /// The tables of a layout, which may be from an untrusted source. Dense ones have the masks that databases of
    /// earlier releases share: a new database needs [`Tables::with_masks`].
    ///
    /// # Errors
    /// As for [`Layout::check`].
    pub fn new(parameters: &PirParameters, layout: Layout, kind: TableKind) -> Result<Self, SchemeError> {
        layout.check(parameters, kind)?;
        let shape = kind.shape(parameters, layout.cells(), layout.cell_bytes())?;
        let planes = layout.planes(parameters, kind);
        Ok(Tables { parameters: parameters.clone(), layout, kind, shape, planes })
    }

    /// The same tables with public masks of their own.
    ///
    /// # Errors
    /// If the tables are not dense: others have no such masks.
    pub fn with_masks(self, masks: MaskSeed) -> Result<Self, SchemeError> {
        match self.shape {
            PlaneShape::Dense(shape) => Ok(Tables { shape: PlaneShape::Dense(shape.with_masks(masks)), ..self }),
            _ => Err(SchemeError::format("tables with a seed of masks", self.kind, "dense ones; leave the seed out")),
        }
    }

    /// The seed of the public masks; `None` if the tables are not dense, or have the masks that databases of earlier
    /// releases share.
    pub fn masks(&self) -> Option<MaskSeed> {
        match self.shape {
            PlaneShape::Dense(shape) => shape.masks(),
            _ => None,
        }
    }

    /// The same tables with their parameters on a device, or as they are without one.
    ///
    /// # Errors
    /// As for [`PirParameters::on_device`].
    pub fn on_device(self, device: Option<&Device>) -> Result<Self, SchemeError> {
        let parameters = match device {
            Some(device) => self.parameters.on_device(device)?,
            None => self.parameters,
        };
        Ok(Tables { parameters, ..self })
    }

    /// The parameters.
    pub fn parameters(&self) -> &PirParameters {
        &self.parameters
    }

    /// The layout of records in cells.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The kind of the tables.
    pub fn kind(&self) -> TableKind {
        self.kind
    }

    /// The shape of each plane.
    pub fn shape(&self) -> PlaneShape {
        self.shape
    }

    /// Bytes of the largest part that a device has whole while it computes an answer.
    pub fn part_bytes(&self) -> u64 {
        let ring = self.parameters.ring();
        (match self.shape {
            PlaneShape::Transformed(shape) => ring.table_words(shape.table(&self.parameters)) * size_of::<u32>(),
            PlaneShape::Dense(shape) => {
                shape.group_bytes(&self.parameters).max(dense::Packing::memory_bytes(&self.parameters))
            }
            PlaneShape::Encrypted(_) => 0,
        }) as u64
    }

    /// Number of planes: pieces of a cell, and responses to a query.
    pub fn planes(&self) -> usize {
        self.planes
    }

    /// Bytes of a piece of a cell; the last piece of a cell is padded with zeros.
    pub fn piece_bytes(&self) -> usize {
        self.kind.piece_bytes(&self.parameters, self.layout.cell_bytes())
    }

    /// Number of queries that one question needs: one for each cell that its record may be in.
    pub fn queries(&self) -> usize {
        match self.layout {
            Layout::Index { .. } => 1,
            Layout::Keys { candidates, .. } => candidates as usize,
        }
    }

    /// Bytes of a query of a mode.
    pub fn query_bytes(&self, mode: Mode) -> usize {
        match self.shape {
            PlaneShape::Transformed(shape) | PlaneShape::Encrypted(shape) => {
                Query::byte_len(&self.parameters, mode, shape)
            }
            PlaneShape::Dense(shape) => DenseQuery::byte_len(&self.parameters, shape),
        }
    }

    /// Bytes of the response of one plane.
    pub fn response_bytes(&self) -> usize {
        match self.shape {
            PlaneShape::Transformed(_) | PlaneShape::Encrypted(_) => Response::byte_len(&self.parameters),
            PlaneShape::Dense(shape) => DenseResponse::byte_len(&self.parameters, shape),
        }
    }

    /// Cuts the tables of all planes into a number of shards.
    ///
    /// # Errors
    /// If the tables are not dense, they cannot be cut into `shards` shards, or answers that are added from the shards
    /// would be wrong too often.
    pub fn split(&self, shards: usize) -> Result<DenseSplit, SchemeError> {
        let PlaneShape::Dense(shape) = self.shape else {
            return Err(SchemeError::format(
                "tables to cut into shards",
                self.kind,
                "dense or wide ones: rebuild with --tables dense",
            ));
        };
        let split = DenseSplit::new(&self.parameters, shape, shards)?;
        let responses = (self.queries() * self.planes) as f64;
        let found = dense::log2_failure(&self.parameters, split)? + responses.log2();
        match found <= MAX_LOG2_FAILURE {
            true => Ok(split),
            false => {
                let needed = format!("so few that an answer is wrong at most once in 2^{:.0}", -MAX_LOG2_FAILURE);
                Err(range("cut dense tables: shards", shards as u64, needed))
            }
        }
    }

    /// `log2` of the probability that the answer to a question is wrong: one of its responses.
    ///
    /// # Errors
    /// If a gadget does not fit the ring, which does not happen with the named parameters.
    pub fn log2_failure(&self, mode: Mode) -> Result<f64, SchemeError> {
        let responses = (self.queries() * self.planes) as f64;
        Ok(self.shape.log2_failure(&self.parameters, mode)? + responses.log2())
    }
}

/// Tables are equal if a client's queries for one of them are queries for the other.
impl PartialEq for Tables {
    fn eq(&self, other: &Self) -> bool {
        let of = |tables: &Tables| (tables.parameters.fingerprint(), tables.layout, tables.kind, tables.masks());
        of(self) == of(other)
    }
}
