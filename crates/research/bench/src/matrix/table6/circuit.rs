//! Interface that all circuits share.

use unspoken_ckks::{Arithmetic, CkksError, Complex64};
use unspoken_cnn::PlainWeightsCircuit;
use unspoken_digits_model::{CLASSES, Image, Network, Shape};
use unspoken_papers::{EncryptedNetwork, EncryptedWeightsCircuit};

/// Encrypts slots at a given level and scale.
pub(super) type Encrypt<'a, V> = &'a mut dyn FnMut(&[Complex64], usize, f64) -> Result<V, CkksError>;

/// A network evaluated on encrypted images.
pub(super) trait Circuit: Sync {
    const NAME: &'static str;

    /// The network's weights, encrypted or simulated.
    type Weights<V: Send + Sync>: Send + Sync;

    fn shape(&self) -> Shape;

    fn batch(&self) -> usize;

    /// Levels from inputs to scores, which are at level 0.
    fn levels(&self) -> usize;

    fn encrypt<V: Send + Sync>(&self, network: &Network, encrypt: Encrypt<'_, V>) -> anyhow::Result<Self::Weights<V>>;

    fn arrange(&self, images: &[Image]) -> anyhow::Result<Vec<Vec<Complex64>>>;

    fn evaluate<A: Arithmetic>(
        &self,
        arithmetic: &A,
        weights: &Self::Weights<A::Vector>,
        inputs: &[A::Vector],
    ) -> anyhow::Result<Vec<A::Vector>>;

    /// The scores of a full batch.
    fn scores(&self, slots: &[Vec<Complex64>]) -> anyhow::Result<Vec<[f64; CLASSES]>>;
}

impl Circuit for EncryptedWeightsCircuit {
    const NAME: &'static str = "ours";
    type Weights<V: Send + Sync> = EncryptedNetwork<V>;

    fn shape(&self) -> Shape {
        self.layout().shape()
    }

    fn batch(&self) -> usize {
        self.layout().batch()
    }

    fn levels(&self) -> usize {
        self.input_level()
    }

    fn encrypt<V: Send + Sync>(
        &self,
        network: &Network,
        encrypt: Encrypt<'_, V>,
    ) -> anyhow::Result<EncryptedNetwork<V>> {
        Ok(self.encrypt_network(network, encrypt)?)
    }

    fn arrange(&self, images: &[Image]) -> anyhow::Result<Vec<Vec<Complex64>>> {
        Ok(self.layout().arrange(images)?)
    }

    fn evaluate<A: Arithmetic>(
        &self,
        arithmetic: &A,
        weights: &EncryptedNetwork<A::Vector>,
        inputs: &[A::Vector],
    ) -> anyhow::Result<Vec<A::Vector>> {
        Ok(EncryptedWeightsCircuit::evaluate(self, arithmetic, weights, inputs)?)
    }

    fn scores(&self, slots: &[Vec<Complex64>]) -> anyhow::Result<Vec<[f64; CLASSES]>> {
        Ok(self.layout().scores(slots, self.batch())?)
    }
}

impl Circuit for PlainWeightsCircuit {
    const NAME: &'static str = "ours, weights known";
    type Weights<V: Send + Sync> = ();

    fn shape(&self) -> Shape {
        self.layout().shape()
    }

    fn batch(&self) -> usize {
        self.layout().batch()
    }

    fn levels(&self) -> usize {
        self.input_level()
    }

    fn encrypt<V: Send + Sync>(&self, _: &Network, _: Encrypt<'_, V>) -> anyhow::Result<()> {
        Ok(())
    }

    fn arrange(&self, images: &[Image]) -> anyhow::Result<Vec<Vec<Complex64>>> {
        Ok(self.layout().arrange(images)?)
    }

    fn evaluate<A: Arithmetic>(&self, arithmetic: &A, (): &(), inputs: &[A::Vector]) -> anyhow::Result<Vec<A::Vector>> {
        Ok(vec![PlainWeightsCircuit::evaluate(self, arithmetic, inputs)?])
    }

    fn scores(&self, slots: &[Vec<Complex64>]) -> anyhow::Result<Vec<[f64; CLASSES]>> {
        let slots = slots.first().map_or(&[][..], Vec::as_slice);
        Ok(self.layout().scores(slots, self.batch())?)
    }
}
