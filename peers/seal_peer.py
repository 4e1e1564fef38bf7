"""Microsoft SEAL (through tenseal) as a timed peer for CKKS encryption.

SEAL uses one thread. The protocol is in protocol.py. `setup` takes log_n,
log_qp, primes, special_bits and scale_bits (all optional): the last prime is
SEAL's special one, of special_bits if that is given; the rest of log_qp is
spread evenly over the others. `time` takes one of the operations of
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

# Maximum error of a slot.
MAX_ERROR = 2.0**-12


class SealPeer:
    """One CKKS context, its keys and one encoded vector."""

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

        start = time.perf_counter()
        n = 1 << log_n
        low, wide = divmod(log_qp - special_bits, primes - 1)
        bits = [low + 1] * wide + [low] * (primes - 1 - wide) + [special_bits]
        parameters = seal.EncryptionParameters(seal.SCHEME_TYPE.CKKS)
        parameters.set_poly_modulus_degree(n)
        moduli = seal.CoeffModulus.Create(n, bits)
        parameters.set_coeff_modulus(moduli)
        level = "TC128"
        context = seal.SEALContext(parameters, True, seal.SEC_LEVEL_TYPE.TC128)
        if not context.parameters_set() and log_n < 13:
            level = "none"
            context = seal.SEALContext(parameters, True, seal.SEC_LEVEL_TYPE.NONE)
        if not context.parameters_set():
            raise PeerError(f"setup: SEAL refused the parameters: {context.parameters_error_message()}")

        self.context = context
        self.scale = 2.0**scale_bits
        self.encoder = seal.CKKSEncoder(context)
        generator = seal.KeyGenerator(context)
        public_key = seal.PublicKey()
        generator.create_public_key(public_key)
        secret_key = generator.secret_key()
        self.encryptor = seal.Encryptor(context, public_key, secret_key)
        self.decryptor = seal.Decryptor(context, secret_key)
        self.values = np.random.default_rng(1).uniform(-1.0, 1.0, n // 2).tolist()
        self.plaintext = self._encode()
        logs = [math.log2(modulus.value()) for modulus in moduli]
        reply = {
            "peer": "SEAL",
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
        plaintext = seal.Plaintext()
        self.encoder.encode(self.values, self.scale, plaintext)
        return plaintext

    def _encode_one(self):
        plaintext = seal.Plaintext()
        self.encoder.encode(self.values[0], self.scale, plaintext)
        return plaintext

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
        """Maximum error of the slots after encryption; too large an error is a failure."""
        plaintext = seal.Plaintext()
        self.decryptor.decrypt(getattr(self, f"_{operation}")(), plaintext)
        slots = np.asarray(self.encoder.decode_double(plaintext))
        error = float(np.max(np.abs(slots - np.asarray(self.values))))
        if not error <= MAX_ERROR:
            raise PeerError(f"{operation}: off by {error}, needed at most {MAX_ERROR}")
        return error

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
