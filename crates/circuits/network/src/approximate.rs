//! The polynomials of one function of a value.

use unspoken_ckks::Polynomial;

use crate::design::Options;
use crate::encoding::Encoding;
use crate::error::NetworkError;
use crate::fit::{Fit, Target};
use crate::function::Function;
use crate::ranges::{BINS, Histograms, Interval};

/// A function of the slots of a value.
pub(crate) struct Wanted<'a> {
    pub(crate) function: Function,
    /// The slots of the argument.
    pub(crate) encoding: &'a Encoding,
    pub(crate) histograms: Option<&'a Histograms>,
    /// Whether the range of the result must have 0 in the middle.
    pub(crate) around_zero: bool,
    pub(crate) options: &'a Options,
}

/// Polynomials of one degree: one if all elements have the same, else one for each element.
pub(crate) struct Fits {
    pub(crate) fits: Vec<Fit>,
    /// The slots of the result.
    pub(crate) output: Encoding,
}

impl Fits {
    /// Levels that an evaluation uses.
    pub(crate) fn depth(&self) -> usize {
        self.fits.iter().map(|fit| fit.polynomial.depth()).max().unwrap_or(0)
    }

    /// The largest degree.
    pub(crate) fn degree(&self) -> usize {
        self.fits.iter().map(|fit| fit.polynomial.degree()).max().unwrap_or(0)
    }

    /// The largest of an error of all polynomials.
    pub(crate) fn worst(&self, error: fn(&Fit) -> f64) -> f64 {
        self.fits.iter().map(error).fold(0.0, f64::max)
    }

    pub(crate) fn into_polynomials(self) -> Vec<Polynomial> {
        self.fits.into_iter().map(|fit| fit.polynomial).collect()
    }
}

impl Wanted<'_> {
    /// The polynomials of the smallest degree that are near enough, if there are some.
    ///
    /// # Errors
    /// If the function is not finite in a range.
    pub(crate) fn fits(&self) -> Result<Option<Fits>, NetworkError> {
        let size = self.encoding.radius.len();
        let count = if self.is_scaled() || self.encoding.is_uniform() { 1 } else { size };
        let image = self.image(count);
        let target = Encoding::common(image, 1, 1.0, self.around_zero || self.is_scaled());
        let degrees = (1..usize::BITS).map(|bits| (1usize << bits) - 1);
        for degree in degrees.take_while(|degree| *degree <= self.options.most_degree) {
            if let Some(fits) = self.of_degree(degree, count, &target)? {
                return Ok(Some(Fits { fits, output: self.output(&target) }));
            }
        }
        Ok(None)
    }

    /// Whether a factor of the argument is a factor of the result: then all elements have the function of the slots
    /// themselves.
    fn is_scaled(&self) -> bool {
        self.function.is_homogeneous() && self.encoding.is_around_zero()
    }

    /// The function of a slot of an element.
    fn value(&self, element: usize, slot: f64) -> f64 {
        self.function.value(if self.is_scaled() { slot } else { self.encoding.value(element, slot) })
    }

    /// The range of the results of the first `count` elements.
    fn image(&self, count: usize) -> Interval {
        let units = (0..=256).map(|k| f64::from(k) / 128.0 - 1.0);
        let values = (0..count).flat_map(|element| units.clone().map(move |x| self.value(element, x)));
        values.map(|y| Interval { low: y, high: y }).fold(Interval::EMPTY, Interval::join)
    }

    /// Polynomials of a degree for the first `count` elements, if all are near enough.
    fn of_degree(&self, degree: usize, count: usize, target: &Encoding) -> Result<Option<Vec<Fit>>, NetworkError> {
        let method = self.method();
        let mut fits = Vec::with_capacity(count);
        for element in 0..count {
            let fit = method.fit(|x| target.slot(0, self.value(element, x)), degree)?;
            let is_near = match method {
                Target::Kink { .. } => fit.rms <= self.options.kink_error,
                Target::Smooth => fit.largest <= self.options.smooth_error,
            };
            if !is_near {
                return Ok(None);
            }
            fits.push(fit);
        }
        Ok(Some(fits))
    }

    fn method(&self) -> Target<'_> {
        if !self.function.has_kink() {
            return Target::Smooth;
        }
        let histogram = match self.histograms {
            Some(Histograms { symmetric, .. }) if self.encoding.is_around_zero() => symmetric,
            Some(Histograms { common, .. }) if self.encoding.is_uniform() => common,
            _ => &[0.0; BINS][..],
        };
        Target::Kink { histogram, stretch: self.options.margin.recip() }
    }

    /// The slots of the result. The radius of a scaled one is a factor.
    fn output(&self, target: &Encoding) -> Encoding {
        let Encoding { middle, radius } = self.encoding;
        if self.is_scaled() {
            Encoding { middle: middle.clone(), radius: radius.iter().map(|radius| radius * target.radius[0]).collect() }
        } else {
            Encoding { middle: vec![target.middle[0]; middle.len()], radius: vec![target.radius[0]; radius.len()] }
        }
    }
}
