"""Networks for handwritten digits, with the interface of scikit-learn."""

from __future__ import annotations

from os import PathLike
from typing import Any, Callable

import numpy as np
import numpy.typing as npt

from unspoken import _unspoken
from unspoken._estimator import Estimator
from unspoken._labels import share_right, unmasked
from unspoken.errors import ArgumentError, TrainingError

SIDE = 28


class DigitsNetwork(Estimator[_unspoken.Digits]):
    """A small convolutional network for images of digits that can be evaluated on encrypted images.

    A convolution of 7 x 7 pixels with stride 3, a square, a dense layer, a square, a dense layer:
    E2DM-lite with the default shape, E2DM with 4 channels and 64 hidden neurons. The same seed,
    data and options give the same network bit for bit.

    Images are arrays of shape (images, 28, 28) or (images, 784) of whole numbers from 0, the
    background, to 255, the ink. Images without a pixel above 1 are refused: they have another scale.

    Parameters
    ----------
    channels : int
        Channels of the convolution: 1, 2, 4 or 8.
    hidden : int
        Neurons between the dense layers: 16, 32, 64 or 128.
    seed : int
        Seed of the initial weights, the order of images and their shifts.
    epochs : int
        Number of passes over the images.
    batch : int
        Images per batch.
    rate, weight_decay : float
        Initial rate of the optimiser, and its weight decay.
    shift : int
        Maximum random shift of images in training, in pixels in each direction.
    validation_share : float
        Fraction of the images, the last ones, set aside for validation after each epoch; below 1.
    progress : bool or callable
        `True` draws a bar on standard error if that is a terminal; a callable is called with a
        `Progress` after each epoch.

    Attributes
    ----------
    classes_ : ndarray of int, shape (10,)
        The digits.
    validation_accuracy_ : float or None
        Accuracy on the validation images; `None` without any.

    Examples
    --------
    >>> import numpy as np, unspoken
    >>> images = np.zeros((40, 28, 28), dtype=np.uint8)
    >>> images[20:, 8:20, 8:20] = 255
    >>> labels = [1] * 20 + [8] * 20
    >>> network = unspoken.DigitsNetwork(hidden=16, epochs=30, validation_share=0, progress=False)
    >>> network.fit(images, labels).score(images, labels)
    1.0
    """

    _native = _unspoken.Digits

    def __init__(
        self,
        channels: int = 2,
        hidden: int = 32,
        seed: int = 0,
        *,
        epochs: int = 24,
        batch: int = 64,
        rate: float = 0.004,
        weight_decay: float = 0.002,
        shift: int = 1,
        validation_share: float = 0.03,
        progress: bool | Callable[[_unspoken.Progress], object] = True,
    ) -> None:
        self.channels = channels
        self.hidden = hidden
        self.seed = seed
        self.epochs = epochs
        self.batch = batch
        self.rate = rate
        self.weight_decay = weight_decay
        self.shift = shift
        self.validation_share = validation_share
        self.progress = progress

    def fit(self, images: npt.ArrayLike, labels: npt.ArrayLike) -> DigitsNetwork:
        """Train on images and their digits.

        Parameters
        ----------
        images : array-like, shape (images, 28, 28) or (images, 784)
        labels : array-like of int, shape (images,)
            Digits, 0 to 9.

        Returns
        -------
        DigitsNetwork
            This object.

        Raises
        ------
        TrainingError
            If an option is out of range, a label is not a digit, or the numbers of images and
            labels differ.
        KeyboardInterrupt
            On Control-C; the network is not changed.
        """
        pixels = image_rows(images)
        digits = _digits(labels)
        options = self.get_params()
        progress, share = options.pop("progress"), options.pop("validation_share")
        if not 0 <= share < 1:
            raise TrainingError(f"train: found validation_share = {share}, needed 0 to below 1; change the option")
        options["validation"] = int(share * len(pixels))
        self._keep(_unspoken.Digits.fit(pixels, digits, options, progress))
        return self

    def scores(self, images: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the plaintext score of each digit, which a service computes encrypted.

        Returns
        -------
        ndarray of float64, shape (images, 10)
        """
        return self._fitted("score images").scores(image_rows(images))

    decision_function = scores

    def predict(self, images: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Return the digit of the largest score for each image.

        Examples
        --------
        >>> network = unspoken.DigitsNetwork.load("network")  # doctest: +SKIP
        >>> network.predict(images)  # doctest: +SKIP
        array([7, 2, 1])
        """
        digits: npt.NDArray[np.int64] = self.scores(images).argmax(axis=1)
        return digits

    def score(self, images: npt.ArrayLike, labels: npt.ArrayLike) -> float:
        """Return the fraction of images whose predicted digit is the given one."""
        return share_right(self.predict(images), labels, self.classes_, "images")

    @classmethod
    def load(cls, directory: str | PathLike[str]) -> DigitsNetwork:
        """Read a network that `save` or ``unspoken digits train`` wrote.

        Options that the files do not contain have their defaults.

        Raises
        ------
        ModelError
            If the files are missing or damaged.
        """
        loaded = _unspoken.Digits.load(directory)
        network = cls(**loaded.training)
        network._keep(loaded)
        return network

    def __sklearn_tags__(self) -> Any:
        """Return scikit-learn's tags of a classifier of images. Only scikit-learn calls it."""
        from sklearn.utils import ClassifierTags, InputTags, Tags, TargetTags

        return Tags(
            estimator_type="classifier",
            target_tags=TargetTags(required=True),
            classifier_tags=ClassifierTags(),
            input_tags=InputTags(two_d_array=True, three_d_array=True),
        )

    def _keep(self, model: _unspoken.Digits) -> None:
        """Store a trained network."""
        self._model = model
        self.classes_ = np.arange(10)
        self.validation_accuracy_ = model.validation_accuracy


def image_rows(images: npt.ArrayLike) -> npt.NDArray[np.uint8]:
    """Return images as an array of shape (images, 784).

    Examples
    --------
    >>> import numpy as np
    >>> image_rows(np.zeros((3, 28, 28))).shape
    (3, 784)
    """
    given = np.asarray(unmasked(images, "images"))
    whole = (SIDE, SIDE) if given.ndim == 3 else (SIDE * SIDE,)
    if given.ndim not in (2, 3) or given.shape[1:] != whole:
        raise ArgumentError(
            f"read images: found an array of shape {given.shape}, needed (images, {SIDE}, {SIDE}) or "
            f"(images, {SIDE * SIDE}); scale and crop them, and put one image in a list"
        )
    rows = given.reshape(len(given), SIDE * SIDE)
    if rows.dtype != np.uint8:
        if rows.dtype.kind not in "buif" or not np.array_equal(rows, np.clip(np.rint(rows), 0, 255)):
            raise ArgumentError(
                f"read images: found {rows.dtype} that are not all whole numbers from 0 to 255, needed pixels of "
                "0 (ground) to 255 (ink); scale and round them"
            )
        rows = rows.astype(np.uint8)
    if rows.size and rows.max() == 1:
        raise ArgumentError(
            "read images: found no pixel above 1, needed pixels of 0 (ground) to 255 (ink); multiply them by 255"
        )
    return np.ascontiguousarray(rows)


def _digits(labels: npt.ArrayLike) -> list[int]:
    """Return labels as a list of digits."""
    given = np.asarray(unmasked(labels, "labels", TrainingError))
    if given.ndim != 1 or not np.isin(given, np.arange(10)).all():
        raise TrainingError(
            f"train: found labels of shape {given.shape} and kind {given.dtype}, needed one digit, 0 to 9, for each "
            "image; pass a flat list of them"
        )
    return [int(label) for label in given]
