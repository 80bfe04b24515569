//! The block devices of this node: looked at, shown, and cleaned.
//!
//! [`eyes`] looks, one look at a time; [`watching`] says when, on a thread of
//! its own; [`board`] is what watchers see; [`cleaning`] removes what a device
//! carries. What a device is and whether it may be cleaned is decided in the
//! crate `inventory`.

pub mod board;
pub mod cleaning;
mod eyes;
mod watching;

use std::io;
use std::path::Path;
use std::sync::Arc;

use hypercloud_inventory::{Policy, Tree};

use self::board::DeviceBoard;
use self::cleaning::Cleaner;
use self::eyes::Eyes;
use self::watching::Watching;

/// The devices of this node. Clones are the same.
#[derive(Clone)]
pub struct Devices {
    /// What they look like.
    pub board: DeviceBoard,
    /// What cleans them.
    pub cleaner: Cleaner,
    /// Ends with the last of the clones.
    _watching: Arc<Watching>,
}

impl Devices {
    /// Begins to watch the devices of the node whose files are in `tree`, and
    /// judges them by `policy`; which orders were begun is kept in the folder
    /// `state`.
    ///
    /// # Errors
    /// There is no thread or descriptor to watch with, or no such folder.
    pub fn start(tree: Tree, policy: Policy, state: &Path) -> io::Result<Self> {
        let eyes = Arc::new(Eyes::new(tree, policy));
        let board = DeviceBoard::default();
        let watching = Watching::start(Arc::clone(&eyes), board.clone())?;
        Ok(Self {
            board,
            cleaner: Cleaner::new(eyes, watching.bell(), state)?,
            _watching: Arc::new(watching),
        })
    }
}
