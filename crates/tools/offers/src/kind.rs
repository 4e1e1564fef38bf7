//! What a kind of applications is.

use unspoken_server::Applications;

use crate::offer::Offer;

/// One kind of application.
pub struct Kind {
    /// Name of the kind in offers.
    pub name: &'static str,
    /// Description, for the help text.
    pub about: &'static str,
    /// Default name in the service's URL; `{directory}` is replaced by the last part of the offer's path.
    pub default_name: &'static str,
    /// Options of offers of this kind.
    pub options: &'static [KindOption],
    /// How its answers are computed.
    pub serving: Serving,
    /// What asks it.
    pub clients: &'static [ClientKind],
    /// Loads the files of an offer and adds the application.
    pub load: fn(&Offer, Applications) -> anyhow::Result<Applications>,
}

/// How answers of a kind are computed, and what that lets a cluster do.
pub struct Serving {
    /// On the device of the service, if it has one.
    pub on_device: bool,
    /// What an answer depends on besides query, keys and files.
    pub state: State,
    /// Whether other processes can compute parts of an answer.
    pub in_parts: bool,
    /// Whether an answer takes so long that clients are told how far it is.
    pub slow: bool,
    /// Queries of several clients that one computation answers.
    pub together: u32,
}

impl Serving {
    /// On the processor, from query, keys and files alone, one query after the other.
    pub const PLAIN: Serving =
        Serving { on_device: false, state: State::None, in_parts: false, slow: false, together: 1 };
}

/// What answers of a kind depend on besides query, keys and files.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Nothing: any process gives the same answer, now or later.
    None,
    /// The newest version of files that change. Processes that read the same files agree.
    Files,
    /// What one process remembers, such as sessions. Another process lacks it.
    Process,
    /// A directory that one process locks.
    Directory,
}

/// A kind of clients: what asks an application.
pub struct ClientKind {
    /// The kind of application in descriptions. It stays when kinds of offers are renamed.
    pub wire: &'static str,
    /// The same, as people know it.
    pub kind: &'static str,
    /// Description, for messages.
    pub about: &'static str,
    /// The command that asks it.
    pub command: &'static str,
    /// The class of Python that asks it.
    pub class: &'static str,
}

/// An option of a kind.
pub struct KindOption {
    /// Name of the option in offers.
    pub name: &'static str,
    /// Description, for the help text.
    pub about: &'static str,
}

impl Kind {
    /// Checks that the kind has the option.
    pub fn check_option(&self, option: &str) -> anyhow::Result<()> {
        if self.options.iter().any(|known| known.name == option) {
            return Ok(());
        }
        let names = self.options.iter().map(|option| option.name).collect::<Vec<_>>().join(", ");
        let has = if names.is_empty() { "none".into() } else { names };
        anyhow::bail!("offers of kind {} have no option {option:?}; they have: {has}", self.name)
    }
}
