//! Attributes of a node, each of which must be understood.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::external::Folder;
use super::tensor::read_tensor;
use crate::constant::Constant;
use crate::error::{Refusal, quoted};
use crate::proto::AttributeProto;
use crate::proto::attribute_proto::AttributeType;

/// The attributes of a node. Reading one marks it as understood.
pub(crate) struct Attributes<'a> {
    all: BTreeMap<&'a str, &'a AttributeProto>,
    understood: RefCell<BTreeSet<&'a str>>,
    folder: &'a Folder,
}

impl<'a> Attributes<'a> {
    /// The attributes of a node.
    ///
    /// # Errors
    /// If two have one name, or one refers to an attribute of a function.
    pub fn of(attributes: &'a [AttributeProto], folder: &'a Folder) -> Result<Self, Refusal> {
        let mut all = BTreeMap::new();
        for attribute in attributes {
            let name = quoted(&attribute.name);
            if !attribute.ref_attr_name.is_empty() {
                let found = format!("attribute {name}, which refers to an attribute of a function");
                return Err(Refusal::new(found, "a value", "inline the functions of the model"));
            }
            if all.insert(attribute.name.as_str(), attribute).is_some() {
                return Err(Refusal::broken(format!("attribute {name} twice"), "each attribute once"));
            }
        }
        Ok(Attributes { all, understood: RefCell::default(), folder })
    }

    /// Checks that each attribute was understood.
    ///
    /// # Errors
    /// Names the first that was not.
    pub fn check_all_understood(&self) -> Result<(), Refusal> {
        let understood = self.understood.borrow();
        match self.all.keys().find(|name| !understood.contains(**name)) {
            None => Ok(()),
            Some(name) => {
                let found = format!("attribute {}", quoted(name));
                let needed = "attributes that this reader understands";
                Err(Refusal::new(found, needed, "export with an operator set of 11 to 23, without this option"))
            }
        }
    }

    /// Whether there is an attribute of this name.
    pub fn has(&self, name: &str) -> bool {
        self.all.contains_key(name)
    }

    /// An integer.
    ///
    /// # Errors
    /// If it has another type.
    pub fn int(&self, name: &str) -> Result<Option<i64>, Refusal> {
        Ok(self.find(name, AttributeType::Int)?.map(|attribute| attribute.i))
    }

    /// A finite number.
    ///
    /// # Errors
    /// If it has another type or is not finite.
    pub fn float(&self, name: &str) -> Result<Option<f32>, Refusal> {
        let number = self.find(name, AttributeType::Float)?.map(|attribute| attribute.f);
        number.map(|number| finite(name, number)).transpose()
    }

    /// Finite numbers.
    ///
    /// # Errors
    /// If it has another type, or a number is not finite.
    pub fn floats(&self, name: &str) -> Result<Option<Vec<f32>>, Refusal> {
        let Some(attribute) = self.find(name, AttributeType::Floats)? else { return Ok(None) };
        attribute.floats.iter().map(|&number| finite(name, number)).collect::<Result<_, _>>().map(Some)
    }

    /// Integers.
    ///
    /// # Errors
    /// If it has another type.
    pub fn ints(&self, name: &str) -> Result<Option<&'a [i64]>, Refusal> {
        Ok(self.find(name, AttributeType::Ints)?.map(|attribute| attribute.ints.as_slice()))
    }

    /// A text.
    ///
    /// # Errors
    /// If it has another type or is not UTF-8.
    pub fn text(&self, name: &str) -> Result<Option<&'a str>, Refusal> {
        self.find(name, AttributeType::String)?.map(|attribute| utf8(name, &attribute.s)).transpose()
    }

    /// Texts.
    ///
    /// # Errors
    /// If it has another type, or one is not UTF-8.
    pub fn texts(&self, name: &str) -> Result<Option<Vec<&'a str>>, Refusal> {
        let Some(attribute) = self.find(name, AttributeType::Strings)? else { return Ok(None) };
        attribute.strings.iter().map(|text| utf8(name, text)).collect::<Result<_, _>>().map(Some)
    }

    /// A tensor.
    ///
    /// # Errors
    /// If it has another type, or cannot be read.
    pub fn tensor(&self, name: &str) -> Result<Option<Constant>, Refusal> {
        let Some(attribute) = self.find(name, AttributeType::Tensor)? else { return Ok(None) };
        let tensor = attribute.t.clone();
        let missing = || Refusal::broken(format!("attribute {} without a tensor", quoted(name)), "a tensor");
        read_tensor(tensor.ok_or_else(missing)?, self.folder).map(Some)
    }

    fn find(&self, name: &str, needed: AttributeType) -> Result<Option<&'a AttributeProto>, Refusal> {
        let Some((&name, attribute)) = self.all.get_key_value(name) else { return Ok(None) };
        self.understood.borrow_mut().insert(name);
        if attribute.r#type() == needed {
            return Ok(Some(attribute));
        }
        let found = format!("attribute {} of type {}", quoted(name), attribute.r#type().as_str_name());
        Err(Refusal::broken(found, format!("type {}", needed.as_str_name())))
    }
}

fn finite(name: &str, number: f32) -> Result<f32, Refusal> {
    if number.is_finite() {
        return Ok(number);
    }
    Err(Refusal::new(format!("{number} in attribute {}", quoted(name)), "finite numbers", "train or export again"))
}

fn utf8<'a>(name: &str, text: &'a [u8]) -> Result<&'a str, Refusal> {
    let wrong = |_| Refusal::broken(format!("attribute {} that is not UTF-8", quoted(name)), "a text in UTF-8");
    std::str::from_utf8(text).map_err(wrong)
}
