"""The named parameter sets."""

from __future__ import annotations

from dataclasses import dataclass

from unspoken import _unspoken


@dataclass(frozen=True)
class SecuredObject:
    """A kind of ciphertext or key that an observer sees, with its security level.

    Attributes
    ----------
    what : str
        Kind of object.
    n : int
        Ring degree.
    log2_q : float
        Bits of its modulus.
    secret : str
        How the secret's coefficients are drawn.
    sigma : float
        Standard deviation of the errors.
    security_bits : float
        Bits of security; 128 means 128 or more.
    """

    what: str
    n: int
    log2_q: float
    secret: str
    sigma: float
    security_bits: float


@dataclass(frozen=True)
class Preset:
    """A named parameter set.

    Attributes
    ----------
    name : str
        Ring degree, depth and bits of the scale.
    purpose : str
        Intended use.
    slots : int
        Numbers in one ciphertext.
    levels : int
        Number of successive multiplications.
    scale_bits : float
        Bits of the scale.
    objects : tuple of SecuredObject
        All objects that the secret key protects.
    """

    name: str
    purpose: str
    slots: int
    levels: int
    scale_bits: float
    objects: tuple[SecuredObject, ...]

    @property
    def security_bits(self) -> float:
        """Security of the weakest object."""
        return min(each.security_bits for each in self.objects)


def presets() -> list[Preset]:
    """List the parameter sets, without those for tests.

    Examples
    --------
    >>> import unspoken
    >>> all(preset.security_bits >= 128 for preset in unspoken.presets())
    True
    """
    return [
        Preset(
            name=each["name"],
            purpose=each["purpose"],
            slots=each["slots"],
            levels=each["levels"],
            scale_bits=each["scale_bits"],
            objects=tuple(SecuredObject(**fields) for fields in each["objects"]),
        )
        for each in _unspoken.presets()
    ]
