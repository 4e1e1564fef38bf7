"""OpenFHE's CKKS bootstrapping as a timed peer, one thread. The protocol is in protocol.py.

`setup` takes log_n, levels (those left after a bootstrap), scale_bits,
first_bits, digits, budget (levels of the two linear maps) and secret
("uniform_ternary" or "sparse_encapsulated"), all optional. `time` takes the
operation "bootstrap".

All N/2 slots hold complex numbers, each part in [-1, 1]. The first bootstrap
runs untimed and is decrypted: a wrong result is an error, not a timing. At N =
2^16 a process needs 12 to 17 GB, so a driver runs it alone.
"""

import math
import time
from importlib.metadata import version

# Import this before other libraries: it sets the number of threads.
from openfhe_peer import serialised_keys  # isort: skip

import numpy as np
import openfhe
from protocol import (
    PeerError,
    integer,
    peak_memory_mb,
    serve,
    thread_count,
    time_calls,
)

SECRETS = {
    "uniform_ternary": openfhe.SecretKeyDist.UNIFORM_TERNARY,
    "sparse_encapsulated": openfhe.SecretKeyDist.SPARSE_ENCAPSULATED,
}
# From this number of slots on, 128 bits of security are required. Smaller rings cannot reach them with any bootstrap;
# they are for tests.
SECURE_SLOTS = 1 << 14
# Maximum error of a slot.
MAX_ERROR = 2.0**-6


def secret_name(command):
    """The requested distribution of the secret."""
    name = command.get("secret", "sparse_encapsulated")
    if name not in SECRETS:
        raise PeerError(f"secret: found {name!r}, needed one of {', '.join(SECRETS)}")
    return name


def level_budget(command):
    """Levels of coefficients to slots, and of slots to coefficients."""
    budget = command.get("budget", [4, 4])
    if not isinstance(budget, list) or len(budget) != 2:
        raise PeerError(f"budget: found {budget!r}, needed two integers")
    return [integer({"budget": part}, "budget", 4, 1, 8) for part in budget]


class BootstrapPeer:
    """One CKKS context with its bootstrapping keys and an encrypted vector."""

    def __init__(self):
        self.context, self.errors = None, None

    def setup(self, command):
        """Makes the context and the keys; answers with the real parameters."""
        if self.context is not None:
            raise PeerError("setup: there is a context already, and memory for one only: start another process")
        log_n = integer(command, "log_n", 16, 11, 17)
        levels = integer(command, "levels", 4, 1, 20)
        scale_bits = integer(command, "scale_bits", 59, 40, 59)
        first_bits = integer(command, "first_bits", 60, scale_bits, 60)
        digits = integer(command, "digits", 4, 1, 20)
        budget, secret = level_budget(command), secret_name(command)
        self.scale_bits = scale_bits
        self.depth = levels + openfhe.CryptoContext.GetBootstrapDepth(budget, SECRETS[secret])

        start = time.perf_counter()
        self.slots = 1 << (log_n - 1)
        context, security = self._make_context(scale_bits, first_bits, digits, SECRETS[secret])
        for feature in ("PKE", "KEYSWITCH", "LEVELEDSHE", "ADVANCEDSHE", "FHE"):
            context.Enable(getattr(openfhe.PKESchemeFeature, feature))
        self.keys = context.KeyGen()
        context.EvalMultKeyGen(self.keys.secretKey)
        relin_bytes, rotation_bytes, moduli = self._measure_keys(context)
        context.EvalBootstrapSetup(budget, [0, 0], self.slots)
        context.EvalBootstrapKeyGen(self.keys.secretKey, self.slots)
        indices = context.GetExistingEvalAutomorphismKeyIndices(self.keys.secretKey.GetKeyTag())
        self.context = context
        self._encrypt_input()
        return {
            "peer": "OpenFHE",
            "version": version("openfhe"),
            "n": 2 * self.slots,
            "slots": self.slots,
            "towers": self.depth + 1,
            "special_towers": len(moduli) - self.depth - 1,
            "levels": levels,
            "budget": budget,
            "digits": digits,
            "scale_bits": scale_bits,
            "first_bits": first_bits,
            "log2_q": sum(math.log2(modulus) for modulus in moduli[: self.depth + 1]),
            "log2_qp": sum(math.log2(modulus) for modulus in moduli),
            "secret": secret,
            "security_level": security,
            "scaling": "FLEXIBLEAUTO",
            "switching_keys": len(indices) + 1,
            # The keys are not serialised, which would need the same memory again: all have the size of one.
            "key_bytes": len(indices) * rotation_bytes + relin_bytes,
            "rotation_key_bytes": rotation_bytes,
            "setup_s": time.perf_counter() - start,
            "peak_memory_mb": peak_memory_mb(),
            "threads": thread_count(),
        }

    def _make_context(self, scale_bits, first_bits, digits, secret):
        """The context and the name of the security level OpenFHE granted it: 128 bits, none at test sizes."""
        refused = None
        for level in ("HEStd_128_classic", "HEStd_NotSet")[: 1 if self.slots >= SECURE_SLOTS else 2]:
            parameters = openfhe.CCParamsCKKSRNS()
            parameters.SetSecurityLevel(getattr(openfhe.SecurityLevel, level))
            parameters.SetSecretKeyDist(secret)
            parameters.SetRingDim(2 * self.slots)
            parameters.SetBatchSize(self.slots)
            parameters.SetMultiplicativeDepth(self.depth)
            parameters.SetScalingModSize(scale_bits)
            parameters.SetFirstModSize(first_bits)
            parameters.SetScalingTechnique(openfhe.ScalingTechnique.FLEXIBLEAUTO)
            parameters.SetKeySwitchTechnique(openfhe.KeySwitchTechnique.HYBRID)
            parameters.SetNumLargeDigits(digits)
            parameters.SetCKKSDataType(openfhe.CKKSDataType.COMPLEX)
            try:
                return openfhe.GenCryptoContext(parameters), level
            except RuntimeError as error:
                refused = error
        raise PeerError(f"setup: OpenFHE refused the parameters: {refused}")

    def _measure_keys(self, context):
        """(relinearisation key bytes, rotation key bytes, moduli), from one rotation key that is dropped again."""
        context.EvalRotateKeyGen(self.keys.secretKey, [1])
        measured = serialised_keys(context, 2 * self.slots)
        openfhe.CryptoContext.ClearEvalAutomorphismKeys()
        return measured

    def _encrypt_input(self):
        generator = np.random.default_rng(1)
        real, imaginary = (generator.uniform(-1.0, 1.0, self.slots) for _ in range(2))
        self.values = real + 1j * imaginary
        plaintext = self.context.MakeCKKSPackedPlaintext(self.values, 1, self.depth - 1)
        self.input = self.context.Encrypt(self.keys.publicKey, plaintext)

    def _measure_errors(self, output):
        plaintext = self.context.Decrypt(self.keys.secretKey, output)
        plaintext.SetLength(self.slots)
        errors = np.abs(np.asarray(plaintext.GetCKKSPackedValue()) - self.values)
        worst = float(np.max(errors))
        if not worst <= MAX_ERROR:
            raise PeerError(f"bootstrap: the result is off by {worst}, needed at most {MAX_ERROR}")
        levels = self.depth - output.GetLevel() - (output.GetNoiseScaleDeg() - 1)
        return {
            "rms_error": float(np.sqrt(np.mean(errors**2))),
            "mean_error": float(np.mean(errors)),
            "worst_error": worst,
            "levels_left": levels,
            "modulus_left": float(levels * self.scale_bits),
        }

    def time(self, command, reps):
        """Times the bootstrap; each repetition is one OpenFHE call."""
        if self.context is None:
            raise PeerError("time: there is no context yet: send setup first")
        name = command.get("op")
        if name != "bootstrap":
            raise PeerError(f"op: found {name!r}, needed bootstrap")
        if self.errors is None:
            self.errors = self._measure_errors(self.context.EvalBootstrap(self.input))
        return {
            **time_calls(lambda: self.context.EvalBootstrap(self.input), reps),
            **self.errors,
            "op": name,
            "peak_memory_mb": peak_memory_mb(),
            "threads": thread_count(),
        }


if __name__ == "__main__":
    serve(BootstrapPeer())
