//! Where plans of permutations are kept.

use unspoken_files::user_directory;
use unspoken_matrix::PlanCache;

/// The cache of the user: `unspoken/plans` in `$XDG_CACHE_HOME`, or in `~/.cache`; none if the user has no home
/// directory. The Python package has the same.
pub fn plan_cache() -> Option<PlanCache> {
    let parent = user_directory(std::env::var_os("XDG_CACHE_HOME"), std::env::home_dir(), ".cache")?;
    Some(PlanCache::new(parent.join("unspoken/plans")))
}
