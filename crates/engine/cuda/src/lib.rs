#![doc = include_str!("../README.md")]

mod driver;

pub use driver::{Found, devices, open};

/// The compiled kernels: machine code for some cards, and PTX for later ones.
const IMAGE: &[u8] = include_bytes!("../images/kernels.fatbin");

#[cfg(test)]
mod tests {
    use unspoken_device::{DeviceError, SOURCES};

    /// The hash of the sources that the compiled kernels are of, as `scripts/device_kernels.sh` computes it.
    const COMPILED: &str = include_str!("../images/sources.blake3");

    #[test]
    fn the_compiled_kernels_are_those_of_the_sources() {
        let found = blake3::hash(SOURCES.map(|(_, text)| text).concat().as_bytes()).to_hex();
        assert_eq!(COMPILED.trim(), found.as_str(), "compile the kernels again: scripts/device_kernels.sh");
    }

    #[test]
    fn names_of_other_devices_are_refused() {
        for name in ["cuda", "cuda:", "cuda:x", "cuda:-1", "rocm:0", ""] {
            let error = super::open(name).unwrap_err();
            assert!(matches!(&error, DeviceError::Unavailable { .. }), "{error}");
            assert!(error.to_string().contains("cuda:0"), "{error}");
        }
    }

    #[test]
    fn a_machine_without_a_driver_says_so() {
        match super::devices() {
            Ok(found) => assert!(found.iter().enumerate().all(|(i, found)| found.name == format!("cuda:{i}"))),
            Err(error) => {
                assert!(error.to_string().contains("driver"), "{error}");
                assert!(super::open("cuda:0").unwrap_err().to_string().contains("driver"));
            }
        }
    }
}
