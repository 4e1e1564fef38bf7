//! The test vectors of RFC 9497, appendix A.1.2: ristretto255-SHA512, mode VOPRF.

use rand_core_of_voprf::{CryptoRng, RngCore};
use zeroize::Zeroizing;

use crate::client::{Blinded, outputs};
use crate::oprf::MAX_ELEMENTS;
use crate::service::ServiceKey;

/// The secret key and the public key of all vectors.
const SECRET: &str = "e6f73f344b79b379f1a0dd37e07ff62e38d9f71345ce62ae3a9bc60b04ccd909";
const PUBLIC: &str = "c803e2cc6b05fc15064549b5920659ca4a77b2cca6f04f6b357009335476ad4e";

/// Inputs and their outputs.
const INPUTS: [&str; 2] = ["00", "5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a"];
const OUTPUTS: [&str; 2] = [
    "b58cfbe118e0cb94d79b5fd6a6dafb98764dff49c14e1770b566e42402da1a7da4d8527693914139caee5bd03903af43a491351d23b430948\
     dd50cde10d32b3c",
    "8a9a2f3c7f085b65933594309041fc1898d42d0858e59f90814ae90571a6df60356f4610bf816f27afdd84f47719e480906d27ecd99498589\
     0e5f539e7ea74b6",
];

struct Vector {
    /// Positions of the inputs.
    inputs: &'static [usize],
    blinds: &'static [&'static str],
    request: &'static [&'static str],
    evaluated: &'static [&'static str],
    proof: &'static str,
    proof_scalar: &'static str,
}

const BLIND: &str = "64d37aed22a27f5191de1c1d69fadb899d8862b58eb4220029e036ec4c1f6706";

const VECTORS: [Vector; 3] = [
    Vector {
        inputs: &[0],
        blinds: &[BLIND],
        request: &["863f330cc1a1259ed5a5998a23acfd37fb4351a793a5b3c090b642ddc439b945"],
        evaluated: &["aa8fa048764d5623868679402ff6108d2521884fa138cd7f9c7669a9a014267e"],
        proof: "ddef93772692e535d1a53903db24367355cc2cc78de93b3be5a8ffcc6985dd066d4346421d17bf5117a2a1ff0fcb2a759f58a5\
                39dfbe857a40bce4cf49ec600d",
        proof_scalar: "222a5e897cf59db8145db8d16e597e8facb80ae7d4e26d9881aa6f61d645fc0e",
    },
    Vector {
        inputs: &[1],
        blinds: &[BLIND],
        request: &["cc0b2a350101881d8a4cba4c80241d74fb7dcbfde4a61fde2f91443c2bf9ef0c"],
        evaluated: &["60a59a57208d48aca71e9e850d22674b611f752bed48b36f7a91b372bd7ad468"],
        proof: "401a0da6264f8cf45bb2f5264bc31e109155600babb3cd4e5af7d181a2c9dc0a67154fabf031fd936051dec80b0b6ae29c9503\
                493dde7393b722eafdf5a50b02",
        proof_scalar: "222a5e897cf59db8145db8d16e597e8facb80ae7d4e26d9881aa6f61d645fc0e",
    },
    Vector {
        inputs: &[0, 1],
        blinds: &[BLIND, "222a5e897cf59db8145db8d16e597e8facb80ae7d4e26d9881aa6f61d645fc0e"],
        request: &[
            "863f330cc1a1259ed5a5998a23acfd37fb4351a793a5b3c090b642ddc439b945",
            "90a0145ea9da29254c3a56be4fe185465ebb3bf2a1801f7124bbbadac751e654",
        ],
        evaluated: &[
            "aa8fa048764d5623868679402ff6108d2521884fa138cd7f9c7669a9a014267e",
            "cc5ac221950a49ceaa73c8db41b82c20372a4c8d63e5dded2db920b7eee36a2a",
        ],
        proof: "cc203910175d786927eeb44ea847328047892ddf8590e723c37205cb74600b0a5ab5337c8eb4ceae0494c2cf89529dcf94572e\
                d267473d567aeed6ab873dee08",
        proof_scalar: "419c4f4f5052c53c45f3da494d2b67b220d02118e0857cdbcf037f9ea84bbe0c",
    },
];

/// A generator that returns the given bytes.
struct Given(Vec<u8>);

impl RngCore for Given {
    fn next_u32(&mut self) -> u32 {
        unreachable!("only bytes are taken")
    }

    fn next_u64(&mut self) -> u64 {
        unreachable!("only bytes are taken")
    }

    fn fill_bytes(&mut self, to: &mut [u8]) {
        let rest = self.0.split_off(to.len());
        to.copy_from_slice(&std::mem::replace(&mut self.0, rest));
    }
}

impl CryptoRng for Given {}

fn decode(hex: &str) -> Vec<u8> {
    hex::decode(hex).unwrap()
}

fn decode_all(hex: &[&str]) -> Vec<u8> {
    decode(&hex.concat())
}

#[test]
fn messages_and_outputs_are_those_of_the_standard() {
    let service = ServiceKey::of_scalar([7; 16], 1, &decode(SECRET)).unwrap();
    assert_eq!(service.sealing().public_key().to_vec(), decode(PUBLIC));
    for Vector { inputs, blinds, request, evaluated, proof, proof_scalar } in VECTORS {
        let mut blinding = Given(decode_all(blinds));
        let blind = |&input: &usize| Blinded::of_input(Zeroizing::new(decode(INPUTS[input])), &mut blinding).unwrap();
        let names: Vec<Blinded> = inputs.iter().map(blind).collect();
        let sent = Blinded::request(&names);
        assert_eq!(sent, decode_all(request));
        let response = service.evaluate_with(&sent, MAX_ELEMENTS, &mut Given(decode(proof_scalar))).unwrap();
        assert_eq!(response, [decode_all(evaluated), decode(proof)].concat());
        let found = outputs(service.sealing().public_element(), &names, &response).unwrap();
        for (&input, found) in inputs.iter().zip(&found) {
            assert_eq!(found.to_vec(), decode(OUTPUTS[input]));
            assert_eq!(**found, *service.output(&decode(INPUTS[input])).unwrap());
        }
        assert_eq!(found.len(), inputs.len());
    }
}
