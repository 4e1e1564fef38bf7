//! Encrypted vectors of integers (BFV and BGV): keys, encryption, sums, products with plaintexts, decryption.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use unspoken_encrypt::ClientKey;
use unspoken_exact::{
    Ciphertext, Encoder, Encrypted, Evaluator, ExactError, ExactParameters, Plaintext, Preset, Scheme,
};
use unspoken_ring::SecretRng;
use unspoken_rlwe::{PublicKey, SecretKey};
use zeroize::Zeroizing;

use crate::exact_pool::ExactPool;
use crate::failure::Failure;
use crate::interruptible;
use crate::progress::Reporter;

/// The parameters that this process has built: data of two objects with the same numbers do not fit together.
static BUILT: LazyLock<Mutex<HashMap<(&'static str, Scheme), Encoder>>> = LazyLock::new(Mutex::default);

/// The encoder of a secure preset.
fn encoder(preset: &str, scheme: &str) -> Result<Encoder, Failure> {
    let refuse = |reason: String| Failure::from(ExactError::Literal { name: preset.into(), reason });
    let scheme = match scheme {
        "bfv" => Scheme::Bfv,
        "bgv" => Scheme::Bgv,
        other => return Err(refuse(format!("found scheme {other:?}; needed \"bfv\" or \"bgv\""))),
    };
    let preset = Preset::find(preset)?;
    if preset.is_insecure() {
        return Err(refuse("it is for tests; use a secure one".into()));
    }
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = built.get(&(preset.name, scheme)) {
        return Ok(known.clone());
    }
    let made = Encoder::new(&preset.build(scheme)?);
    built.insert((preset.name, scheme), made.clone());
    Ok(made)
}

/// The values as a plaintext of slots.
fn encoded(encoder: &Encoder, values: &PyReadonlyArray1<'_, i64>) -> Result<Plaintext, ExactError> {
    let values = Zeroizing::new(values.as_array().to_vec());
    encoder.encode_slots(&values)
}

/// Encrypts a vector, with an encryption of zero of the pool if there is one.
fn encrypt(
    py: Python<'_>,
    encoder: &Encoder,
    key: &ClientKey,
    values: &PyReadonlyArray1<'_, i64>,
    pool: Option<&ExactPool>,
) -> PyResult<ExactVector> {
    let length = values.as_array().len();
    let plaintext = encoded(encoder, values).map_err(Failure::from)?;
    interruptible::run(py, Reporter::Silent, |_, _| {
        let zero = pool.map(|pool| pool.take(key)).transpose()?.flatten();
        let ciphertext = match (zero, key) {
            (Some(zero), _) => encoder.encrypt_with(&plaintext, zero)?.expand()?,
            (None, ClientKey::Secret(key)) => {
                Encrypted::Seeded(encoder.encrypt(&plaintext, key, &mut SecretRng::from_os()?)?).expand()?
            }
            (None, ClientKey::Public(key)) => encoder.encrypt_public(&plaintext, key, &mut SecretRng::from_os()?)?,
        };
        Ok(ExactVector { ciphertext, length })
    })
}

fn scheme_name(parameters: &ExactParameters) -> &'static str {
    match parameters.scheme() {
        Scheme::Bfv => "bfv",
        Scheme::Bgv => "bgv",
    }
}

/// A secret key of an exact scheme.
#[pyclass(frozen, module = "unspoken._unspoken")]
pub(crate) struct ExactSecret {
    encoder: Encoder,
    secret: Arc<SecretKey>,
}

impl ExactSecret {
    fn client_key(&self) -> ClientKey {
        ClientKey::Secret(Arc::clone(&self.secret))
    }
}

#[pymethods]
impl ExactSecret {
    #[staticmethod]
    fn generate(py: Python<'_>, preset: &str, scheme: &str) -> PyResult<Self> {
        interruptible::run(py, Reporter::Silent, |_, _| {
            let encoder = encoder(preset, scheme)?;
            let secret = SecretKey::generate(encoder.parameters().rlwe(), &mut SecretRng::from_os()?)?;
            Ok(ExactSecret { encoder, secret: Arc::new(secret) })
        })
    }

    #[staticmethod]
    fn from_bytes(py: Python<'_>, preset: &str, scheme: &str, data: &[u8]) -> PyResult<Self> {
        interruptible::run(py, Reporter::Silent, |_, _| {
            let encoder = encoder(preset, scheme)?;
            let secret = SecretKey::from_bytes(encoder.parameters().rlwe(), data)?;
            Ok(ExactSecret { encoder, secret: Arc::new(secret) })
        })
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        Ok(PyBytes::new(py, &self.secret.to_bytes().map_err(Failure::from)?))
    }

    fn public_key(&self, py: Python<'_>) -> PyResult<ExactPublicKey> {
        interruptible::run(py, Reporter::Silent, |_, _| {
            let key = PublicKey::generate(&self.secret, &mut SecretRng::from_os()?)?;
            Ok(ExactPublicKey { encoder: self.encoder.clone(), key: Arc::new(key) })
        })
    }

    fn encrypt(
        &self,
        py: Python<'_>,
        values: PyReadonlyArray1<'_, i64>,
        pool: Option<&ExactPool>,
    ) -> PyResult<ExactVector> {
        encrypt(py, &self.encoder, &self.client_key(), &values, pool)
    }

    fn decrypt<'py>(&self, py: Python<'py>, vector: &ExactVector) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let values = interruptible::run(py, Reporter::Silent, |_, _| {
            let plaintext = self.encoder.decrypt(&vector.ciphertext, &self.secret)?;
            Ok(self.encoder.decode_slots(&plaintext)?[..vector.length].to_vec())
        })?;
        Ok(values.into_pyarray(py))
    }

    /// A pool of encryptions of zero with this key, in memory, or in a file with its sealing key.
    fn pool(&self, py: Python<'_>, capacity: u32, file: Option<(String, [u8; 32])>) -> PyResult<ExactPool> {
        ExactPool::open(py, self.client_key(), capacity, file)
    }

    #[getter]
    fn preset(&self) -> &str {
        self.encoder.parameters().name()
    }

    #[getter]
    fn scheme(&self) -> &'static str {
        scheme_name(self.encoder.parameters())
    }

    /// Largest length of a vector.
    #[getter]
    fn slots(&self) -> usize {
        self.encoder.parameters().slots()
    }

    /// Largest magnitude of a value.
    #[getter]
    fn largest(&self) -> u32 {
        self.encoder.parameters().plain_modulus() / 2
    }
}

/// A public key of an exact scheme: encrypts, and cannot decrypt.
#[pyclass(frozen, module = "unspoken._unspoken")]
pub(crate) struct ExactPublicKey {
    encoder: Encoder,
    key: Arc<PublicKey>,
}

impl ExactPublicKey {
    fn client_key(&self) -> ClientKey {
        ClientKey::Public(Arc::clone(&self.key))
    }
}

#[pymethods]
impl ExactPublicKey {
    #[staticmethod]
    fn from_bytes(py: Python<'_>, preset: &str, scheme: &str, data: &[u8]) -> PyResult<Self> {
        interruptible::run(py, Reporter::Silent, |_, _| {
            let encoder = encoder(preset, scheme)?;
            let key = PublicKey::from_bytes(encoder.parameters().rlwe(), data)?;
            Ok(ExactPublicKey { encoder, key: Arc::new(key) })
        })
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.key.to_bytes())
    }

    fn encrypt(
        &self,
        py: Python<'_>,
        values: PyReadonlyArray1<'_, i64>,
        pool: Option<&ExactPool>,
    ) -> PyResult<ExactVector> {
        encrypt(py, &self.encoder, &self.client_key(), &values, pool)
    }

    /// Largest magnitude of a value.
    #[getter]
    fn largest(&self) -> u32 {
        self.encoder.parameters().plain_modulus() / 2
    }

    /// A pool of encryptions of zero with this key, in memory, or in a file with its sealing key.
    fn pool(&self, py: Python<'_>, capacity: u32, file: Option<(String, [u8; 32])>) -> PyResult<ExactPool> {
        ExactPool::open(py, self.client_key(), capacity, file)
    }

    #[getter]
    fn preset(&self) -> &str {
        self.encoder.parameters().name()
    }

    #[getter]
    fn scheme(&self) -> &'static str {
        scheme_name(self.encoder.parameters())
    }
}

/// An encrypted vector of integers. Computing with it needs no key.
#[pyclass(frozen, module = "unspoken._unspoken")]
pub(crate) struct ExactVector {
    ciphertext: Ciphertext,
    length: usize,
}

impl ExactVector {
    fn of(&self, ciphertext: Ciphertext) -> ExactVector {
        ExactVector { ciphertext, length: self.length }
    }

    /// Runs work that needs an encoder and an evaluator of this vector's parameters.
    fn compute(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&Encoder, &Evaluator) -> Result<Ciphertext, ExactError> + Send,
    ) -> PyResult<ExactVector> {
        interruptible::run(py, Reporter::Silent, |_, _| {
            let parameters = self.ciphertext.parameters();
            Ok(self.of(work(&encoder(parameters.name(), scheme_name(parameters))?, &Evaluator::new(parameters))?))
        })
    }
}

#[pymethods]
impl ExactVector {
    #[staticmethod]
    fn from_bytes(py: Python<'_>, preset: &str, scheme: &str, length: usize, data: &[u8]) -> PyResult<Self> {
        interruptible::run(py, Reporter::Silent, |_, _| {
            let encoder = encoder(preset, scheme)?;
            let (found, needed) = (length, encoder.parameters().slots());
            if found > needed {
                return Err(ExactError::Shape { operation: "read an encrypted vector", found, needed }.into());
            }
            let ciphertext = Ciphertext::from_bytes(encoder.parameters(), data)?;
            Ok(ExactVector { ciphertext, length })
        })
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.ciphertext.to_bytes())
    }

    fn add(&self, py: Python<'_>, other: &ExactVector) -> PyResult<Self> {
        self.compute(py, |_, evaluator| evaluator.add(&self.ciphertext, &other.ciphertext))
    }

    fn subtract(&self, py: Python<'_>, other: &ExactVector) -> PyResult<Self> {
        self.compute(py, |_, evaluator| evaluator.sub(&self.ciphertext, &other.ciphertext))
    }

    fn add_plain(&self, py: Python<'_>, values: PyReadonlyArray1<'_, i64>) -> PyResult<Self> {
        let values = Zeroizing::new(values.as_array().to_vec());
        self.compute(py, |encoder, evaluator| evaluator.add_plain(&self.ciphertext, &encoder.encode_slots(&values)?))
    }

    fn multiply_plain(&self, py: Python<'_>, values: PyReadonlyArray1<'_, i64>) -> PyResult<Self> {
        let values = Zeroizing::new(values.as_array().to_vec());
        self.compute(py, |encoder, evaluator| evaluator.mul_plain(&self.ciphertext, &encoder.encode_slots(&values)?))
    }

    fn __len__(&self) -> usize {
        self.length
    }

    #[getter]
    fn preset(&self) -> &str {
        self.ciphertext.parameters().name()
    }

    #[getter]
    fn scheme(&self) -> &'static str {
        scheme_name(self.ciphertext.parameters())
    }

    /// Largest magnitude of an entry.
    #[getter]
    fn largest(&self) -> u32 {
        self.ciphertext.parameters().plain_modulus() / 2
    }

    #[getter]
    fn budget_bits(&self) -> f64 {
        self.ciphertext.budget_bits()
    }
}
