"""OpenFHE CKKS as a timed peer, one thread. The protocol is in protocol.py.

`setup` takes log_n, log_qp, digits, scale_bits and first_bits (all optional)
and picks the number of primes that brings log2 QP nearest to log_qp. `time`
takes one of the operations of `OPERATIONS` and a level: "full", "half" (half
of the primes), "lowest" (two primes: the last level from which a product can
still be rescaled) or a number of primes.

The first use of an operation at a level runs it once untimed and decrypts
the result: a wrong result is an error, not a timing.
"""

import os

# Before the libraries are loaded: OpenMP and BLAS read these only once.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

import math  # noqa: E402
import mmap  # noqa: E402
import struct  # noqa: E402
import tempfile  # noqa: E402
import time  # noqa: E402
from importlib.metadata import version  # noqa: E402

import numpy as np  # noqa: E402
import openfhe  # noqa: E402
from protocol import (  # noqa: E402
    PeerError,
    integer,
    peak_memory_mb,
    serve,
    thread_count,
    time_calls,
)

# Bits of OpenFHE's auxiliary (special) primes in 64-bit builds.
AUX_PRIME_BITS = 60
# The only rotation with a key is the rotation by one slot.
ROTATION = 1
# Maximum error of a slot.
MAX_ERROR = 2.0**-12


def prime_counts(primes, digits, scale_bits, first_bits):
    """(log2 QP, digits in use) of a chain of `primes` primes.

    OpenFHE puts ceil(primes / digits) primes into each digit and takes enough
    60-bit special primes to cover the widest digit.
    """
    per_digit = -(-primes // digits)
    widest = max(first_bits, scale_bits) + (per_digit - 1) * scale_bits
    special = -(-widest // AUX_PRIME_BITS)
    log_q = first_bits + (primes - 1) * scale_bits
    return log_q + special * AUX_PRIME_BITS, -(-primes // per_digit)


def choose_primes(log_qp, digits, scale_bits, first_bits):
    """The number of primes whose log2 QP is nearest to `log_qp`."""
    fitting = [
        (abs(total - log_qp), primes)
        for primes in range(2, 200)
        for total, used in [prime_counts(primes, digits, scale_bits, first_bits)]
        if used == digits
    ]
    return min(fitting)[1]


def moduli_in_key_file(path, n):
    """The primes in a serialised key, in the order of their appearance: Q, then P.

    OpenFHE writes each ring as its cyclotomic order 2N and its degree N (32
    bits each) followed by its modulus (64 bits), with a version number (32
    bits) before the very first one. The Python module has no call that lists
    the special primes, hence this scan.
    """
    mark = struct.pack("<II", 2 * n, n)
    found = []
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        at = data.find(mark)
        while 0 <= at <= len(data) - 20:
            for offset in (8, 12):
                (modulus,) = struct.unpack_from("<Q", data, at + offset)
                if modulus % (2 * n) == 1:
                    if modulus not in found:
                        found.append(modulus)
                    break
            at = data.find(mark, at + len(mark))
    return found


def serialised_keys(context, n):
    """(relinearisation key bytes, rotation key bytes, moduli), serialised. There must be one rotation key."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "key")
        if not context.SerializeEvalMultKey(path, openfhe.BINARY, ""):
            raise PeerError("setup: OpenFHE could not serialise the relinearisation key")
        relin_bytes = os.path.getsize(path)
        if not context.SerializeEvalAutomorphismKey(path, openfhe.BINARY):
            raise PeerError("setup: OpenFHE could not serialise the rotation key")
        return relin_bytes, os.path.getsize(path), moduli_in_key_file(path, n)


class OpenFhePeer:
    """One CKKS context, its keys and two encrypted vectors."""

    def __init__(self):
        self.context = None

    # -- setup ------------------------------------------------------------

    def setup(self, command):
        """Makes the context and the keys; answers with the real parameters.

        A setup that fails leaves no context behind.
        """
        try:
            return self._setup(command)
        except BaseException:
            self.context = None
            raise

    def _setup(self, command):
        log_n = integer(command, "log_n", 16, 10, 17)
        log_qp = integer(command, "log_qp", 1550, 150, 4000)
        digits = integer(command, "digits", 5, 1, 20)
        scale_bits = integer(command, "scale_bits", 50, 30, 59)
        first_bits = integer(command, "first_bits", 60, scale_bits, 60)
        primes = choose_primes(log_qp, digits, scale_bits, first_bits)

        start = time.perf_counter()
        self.n = 1 << log_n
        # Release an earlier context first: two sets of keys need not coexist.
        self.levels, self.calls, self.keys, self.context = {}, {}, None, None
        openfhe.ReleaseAllContexts()
        self.context, security = self._make_context(primes, digits, scale_bits, first_bits)
        for feature in ("PKE", "KEYSWITCH", "LEVELEDSHE"):
            self.context.Enable(getattr(openfhe.PKESchemeFeature, feature))
        self.keys = self.context.KeyGen()
        self.context.EvalMultKeyGen(self.keys.secretKey)
        self.context.EvalRotateKeyGen(self.keys.secretKey, [ROTATION])
        self._encrypt_inputs()
        seconds = time.perf_counter() - start

        relin_bytes, rotation_bytes, moduli = serialised_keys(self.context, self.n)
        self.q, p = moduli[:primes], moduli[primes:]
        # Two ring elements per digit, one 8-byte word per coefficient and prime.
        expected = 2 * digits * self.n * 8 * len(moduli)
        if not expected <= rotation_bytes < 1.1 * expected:
            raise PeerError(
                f"setup: a rotation key has {rotation_bytes} bytes, needed about {expected} "
                f"for {digits} digits of {len(moduli)} primes: the parameters are not those asked for"
            )
        return {
            "peer": "OpenFHE",
            "version": version("openfhe"),
            "native_bits": openfhe.get_native_int(),
            "n": self.n,
            "towers": primes,
            "special_towers": len(p),
            "levels": primes - 1,
            "digits": digits,
            "log2_q": self._log2_q(primes),
            "log2_qp": sum(math.log2(modulus) for modulus in moduli),
            "scale_bits": scale_bits,
            "first_bits": first_bits,
            "secret": "uniform ternary",
            "security_level": security,
            "scaling": "FIXEDMANUAL",
            "key_switch": "HYBRID",
            "level_towers": {name: self._towers(name) for name in ("full", "half", "lowest")},
            "level_log2_q": {name: self._log2_q(self._towers(name)) for name in ("full", "half", "lowest")},
            "rotation_key_bytes": rotation_bytes,
            "relin_key_bytes": relin_bytes,
            "setup_s": seconds,
            "peak_memory_mb": peak_memory_mb(),
            "threads": thread_count(),
        }

    def _make_context(self, primes, digits, scale_bits, first_bits):
        """The context and the name of the security level OpenFHE granted it.

        Asks for 128 bits first. OpenFHE refuses where N is too small for the
        modulus (test sizes): then the level is not set, and the answer says so.
        """
        refused = None
        for level in ("HEStd_128_classic", "HEStd_NotSet"):
            parameters = openfhe.CCParamsCKKSRNS()
            parameters.SetSecurityLevel(getattr(openfhe.SecurityLevel, level))
            parameters.SetSecretKeyDist(openfhe.SecretKeyDist.UNIFORM_TERNARY)
            parameters.SetRingDim(self.n)
            parameters.SetBatchSize(self.n // 2)
            parameters.SetMultiplicativeDepth(primes - 1)
            parameters.SetScalingModSize(scale_bits)
            parameters.SetFirstModSize(first_bits)
            parameters.SetScalingTechnique(openfhe.ScalingTechnique.FIXEDMANUAL)
            parameters.SetKeySwitchTechnique(openfhe.KeySwitchTechnique.HYBRID)
            parameters.SetNumLargeDigits(digits)
            try:
                return openfhe.GenCryptoContext(parameters), level
            except RuntimeError as error:
                refused = error
        raise PeerError(f"setup: OpenFHE refused the parameters: {refused}")

    def _encrypt_inputs(self):
        generator = np.random.default_rng(1)
        self.a, self.b = (generator.uniform(-1.0, 1.0, self.n // 2) for _ in range(2))
        self.inputs = tuple(
            self.context.Encrypt(self.keys.publicKey, self.context.MakeCKKSPackedPlaintext(values))
            for values in (self.a, self.b)
        )

    # -- levels -----------------------------------------------------------

    def _towers(self, level):
        """Primes left at a named level."""
        full = len(self.q)
        named = {"full": full, "half": max(2, full // 2), "lowest": 2}
        towers = named.get(level, level) if isinstance(level, str) else level
        if isinstance(towers, bool) or not isinstance(towers, int) or not 1 <= towers <= full:
            raise PeerError(f"level: found {level!r}, needed full, half, lowest or a number of primes from 1 to {full}")
        return towers

    def _log2_q(self, towers):
        return sum(math.log2(modulus) for modulus in self.q[:towers])

    def _at(self, towers):
        """Both inputs with `towers` primes left."""
        if towers not in self.levels:
            drop = len(self.q) - towers
            self.levels[towers] = tuple(
                self.context.LevelReduce(ciphertext, None, drop) if drop else ciphertext for ciphertext in self.inputs
            )
        return self.levels[towers]

    # -- operations: each returns (the call to time, the slots it should give) --

    def _rotate(self, towers):
        a, _ = self._at(towers)
        return lambda: self.context.EvalRotate(a, ROTATION), np.roll(self.a, -ROTATION)

    def _hoist(self, towers):
        a, _ = self._at(towers)
        return lambda: self.context.EvalFastRotationPrecompute(a), None

    def _hoisted_rotation(self, towers):
        a, _ = self._at(towers)
        digits = self.context.EvalFastRotationPrecompute(a)
        return (
            lambda: self.context.EvalFastRotation(a, ROTATION, digits),
            np.roll(self.a, -ROTATION),
        )

    def _mult_relin(self, towers):
        a, b = self._at(towers)
        return lambda: self.context.EvalMult(a, b), self.a * self.b

    def _rescale(self, towers):
        if towers < 2:
            raise PeerError("rescale: found 1 prime left, needed 2: ask for a higher level")
        a, b = self._at(towers)
        product = self.context.EvalMult(a, b)
        return lambda: self.context.Rescale(product), self.a * self.b

    def _mult_plain(self, towers):
        a, _ = self._at(towers)
        plaintext = self.context.MakeCKKSPackedPlaintext(self.b, 1, len(self.q) - towers)
        return lambda: self.context.EvalMult(a, plaintext), self.a * self.b

    def _add(self, towers):
        a, b = self._at(towers)
        return lambda: self.context.EvalAdd(a, b), self.a + self.b

    OPERATIONS = {
        "rotate": _rotate,
        "mult_relin": _mult_relin,
        "rescale": _rescale,
        "hoist": _hoist,
        "hoisted_rotation": _hoisted_rotation,
        "mult_plain": _mult_plain,
        "add": _add,
    }

    def _error_of(self, ciphertext, expected):
        """Largest distance of the decrypted slots from `expected`."""
        plaintext = self.context.Decrypt(self.keys.secretKey, ciphertext)
        plaintext.SetLength(self.n // 2)
        return float(np.max(np.abs(np.asarray(plaintext.GetRealPackedValue()) - expected)))

    def time(self, command, reps):
        """Times one operation at one level; each repetition is one OpenFHE call."""
        if self.context is None:
            raise PeerError("time: there is no context yet: send setup first")
        name = command.get("op")
        if name not in self.OPERATIONS:
            raise PeerError(f"op: found {name!r}, needed one of {', '.join(self.OPERATIONS)}")
        towers = self._towers(command.get("level", "full"))
        if (name, towers) not in self.calls:
            call, expected = self.OPERATIONS[name](self, towers)
            result = call()
            error = None
            # With a single prime there is no room for a product and nothing to decrypt.
            product = name in ("mult_relin", "mult_plain")
            if expected is not None and not (product and towers < 2):
                error = self._error_of(result, expected)
                if not error <= MAX_ERROR:
                    raise PeerError(f"{name}: the result is off by {error}, needed at most {MAX_ERROR}")
            self.calls[name, towers] = call, error
        call, error = self.calls[name, towers]
        return {
            **time_calls(call, reps),
            "op": name,
            "towers": towers,
            "log2_q": self._log2_q(towers),
            "max_error": error,
            "peak_memory_mb": peak_memory_mb(),
            "threads": thread_count(),
        }


if __name__ == "__main__":
    serve(OpenFhePeer())
