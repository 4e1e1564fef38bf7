"""Microsoft SEAL (through tenseal) as a timed peer for CKKS and BFV encryption.

tenseal does not have SEAL's BGV. SEAL uses one thread. The protocol is in
protocol.py. `setup` takes scheme ("ckks" or "bfv"), log_n, log_qp, primes,
special_bits, scale_bits (of CKKS) and plain_modulus (of BFV), all optional: the
last prime is SEAL's special one, of special_bits if that is given; the rest of
log_qp is spread evenly over the others. `time` takes one of the operations of
`OPERATIONS`; there are no levels.
"""

import math
import os
import tempfile
import time
from importlib.metadata import version

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

import numpy as np  # noqa: E402
import tenseal.sealapi as seal  # noqa: E402
from protocol import (  # noqa: E402
    PeerError,
    integer,
    peak_memory_mb,
    serve,
    thread_count,
    time_calls,
)

# Maximum error of a slot in CKKS.
MAX_ERROR = 2.0**-12


class CkksVector:
    """Real numbers in the slots of a CKKS plaintext."""

    def __init__(self, context, slots, scale):
        self.encoder, self.scale = seal.CKKSEncoder(context), scale
        self.values = np.random.default_rng(1).uniform(-1.0, 1.0, slots).tolist()

    def encode(self):
        return self._encoded(self.values)

    def encode_one(self):
        return self._encoded(self.values[0])

    def _encoded(self, values):
        plaintext = seal.Plaintext()
        self.encoder.encode(values, self.scale, plaintext)
        return plaintext

    def error(self, plaintext):
        """Maximum error of the slots; too large an error is a failure."""
        slots = np.asarray(self.encoder.decode_double(plaintext))
        error = float(np.max(np.abs(slots - np.asarray(self.values))))
        if not error <= MAX_ERROR:
            raise PeerError(f"decrypt: off by {error}, needed at most {MAX_ERROR}")
        return error


class BfvVector:
    """Integers in the slots of a BFV plaintext."""

    def __init__(self, context, slots, plain_modulus):
        self.encoder = seal.BatchEncoder(context)
        limit = plain_modulus // 2
        self.values = np.random.default_rng(1).integers(-limit, limit, slots, endpoint=True).tolist()

    def encode(self):
        return self._encoded(self.values)

    def encode_one(self):
        return self._encoded([self.values[0]] * len(self.values))

    def _encoded(self, values):
        plaintext = seal.Plaintext()
        self.encoder.encode(values, plaintext)
        return plaintext

    def error(self, plaintext):
        """Zero; any other error is a failure."""
        if list(self.encoder.decode_int64(plaintext)) != self.values:
            raise PeerError("decrypt: other integers than those that were encrypted")
        return 0.0


class SealPeer:
    """One context, its keys and one encoded vector."""

    OPERATIONS = (
        "encode",
        "encode_one",
        "encrypt_public",
        "encrypt_public_zero_of_all_primes",
        "encrypt_symmetric",
        "encrypt_symmetric_seeded",
    )

    def __init__(self):
        self.context = None

    def setup(self, command):
        """Makes the context and the keys; answers with the real parameters."""
        log_n = integer(command, "log_n", 15, 11, 15)
        primes = integer(command, "primes", 16, 2, 40)
        log_qp = integer(command, "log_qp", 881, 30 * primes, 60 * primes)
        special_bits = integer(command, "special_bits", -(-log_qp // primes), log_n + 2, 60)
        scale_bits = integer(command, "scale_bits", 50, 20, 60)
        plain_modulus = integer(command, "plain_modulus", 65537, 2, 1 << 30)
        scheme = command.get("scheme", "ckks")
        if scheme not in ("ckks", "bfv"):
            raise PeerError(f"scheme: found {scheme!r}, needed ckks or bfv; tenseal has no other")

        start = time.perf_counter()
        n = 1 << log_n
        low, wide = divmod(log_qp - special_bits, primes - 1)
        bits = [low + 1] * wide + [low] * (primes - 1 - wide) + [special_bits]
        exact = scheme == "bfv"
        parameters = seal.EncryptionParameters(seal.SCHEME_TYPE.BFV if exact else seal.SCHEME_TYPE.CKKS)
        parameters.set_poly_modulus_degree(n)
        moduli = seal.CoeffModulus.Create(n, bits)
        parameters.set_coeff_modulus(moduli)
        if exact:
            parameters.set_plain_modulus(plain_modulus)
        level = "TC128"
        context = seal.SEALContext(parameters, True, seal.SEC_LEVEL_TYPE.TC128)
        if not context.parameters_set() and log_n < 13:
            level = "none"
            context = seal.SEALContext(parameters, True, seal.SEC_LEVEL_TYPE.NONE)
        if not context.parameters_set():
            raise PeerError(f"setup: SEAL refused the parameters: {context.parameters_error_message()}")

        self.context = context
        generator = seal.KeyGenerator(context)
        public_key = seal.PublicKey()
        generator.create_public_key(public_key)
        secret_key = generator.secret_key()
        self.encryptor = seal.Encryptor(context, public_key, secret_key)
        self.decryptor = seal.Decryptor(context, secret_key)
        vector = BfvVector(context, n, plain_modulus) if exact else CkksVector(context, n // 2, 2.0**scale_bits)
        self.vector, self.plaintext = vector, vector.encode()
        logs = [math.log2(modulus.value()) for modulus in moduli]
        reply = {
            "peer": "SEAL",
            "scheme": scheme,
            "version": f"tenseal {version('tenseal')}",
            "n": n,
            "towers": primes - 1,
            "special_towers": 1,
            "log2_q": sum(logs[:-1]),
            "log2_qp": sum(logs),
            "scale_bits": scale_bits,
            "secret": "uniform ternary",
            "security_level": level,
            "setup_s": time.perf_counter() - start,
        }
        return {
            **reply,
            "max_error": {name: self._error_of(name) for name in ("encrypt_public", "encrypt_symmetric")},
            "ciphertext_bytes": {
                name: self._bytes_of(name)
                for name in ("encrypt_public", "encrypt_symmetric", "encrypt_symmetric_seeded")
            },
            "peak_memory_mb": peak_memory_mb(),
            "threads": thread_count(),
        }

    def _encode(self):
        return self.vector.encode()

    def _encode_one(self):
        return self.vector.encode_one()

    def _encrypt_public(self):
        ciphertext = seal.Ciphertext()
        self.encryptor.encrypt(self.plaintext, ciphertext)
        return ciphertext

    def _encrypt_public_zero_of_all_primes(self):
        # At the level of the keys, SEAL neither divides by the special prime nor adds a plaintext.
        ciphertext = seal.Ciphertext()
        self.encryptor.encrypt_zero(self.context.key_parms_id(), ciphertext)
        return ciphertext

    def _encrypt_symmetric(self):
        ciphertext = seal.Ciphertext()
        self.encryptor.encrypt_symmetric(self.plaintext, ciphertext)
        return ciphertext

    def _encrypt_symmetric_seeded(self):
        return self.encryptor.encrypt_symmetric(self.plaintext)

    def _error_of(self, operation):
        """Maximum error of the slots after encryption."""
        plaintext = seal.Plaintext()
        self.decryptor.decrypt(getattr(self, f"_{operation}")(), plaintext)
        return self.vector.error(plaintext)

    def _bytes_of(self, operation):
        """Bytes of SEAL's own serialisation, with its default compression."""
        with tempfile.TemporaryDirectory(prefix="unspoken-seal-") as folder:
            path = os.path.join(folder, "ciphertext")
            getattr(self, f"_{operation}")().save(path)
            return os.path.getsize(path)

    def time(self, command, reps):
        """Times one operation; each repetition makes one ciphertext or plaintext."""
        if self.context is None:
            raise PeerError("time: there is no context yet: send setup first")
        name = command.get("op")
        if name not in self.OPERATIONS:
            raise PeerError(f"op: found {name!r}, needed one of {', '.join(self.OPERATIONS)}")
        return {
            **time_calls(getattr(self, f"_{name}"), reps),
            "op": name,
            "peak_memory_mb": peak_memory_mb(),
            "threads": thread_count(),
        }


if __name__ == "__main__":
    serve(SealPeer())
