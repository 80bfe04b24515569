//! The plan's items, in order: the zeros of a window, then its jobs.
//!
//! Windows are loaded ahead of their time where the source can be read
//! anywhere; a stream's tables come when what lies before them was asked for.

use std::sync::Arc;

use futures::stream::{self, StreamExt, TryStreamExt};
use hypercloud_disk::Extent;
use hypercloud_disk::plan::{Plan, Window};
use tokio_util::task::AbortOnDropHandle;

use super::ledger::Position;
use crate::buffer::Memory;
use crate::error::TransferError;
use crate::source::Source;

/// How many tables are read at once.
const TABLES: usize = 8;

/// What comes next.
pub(super) enum Next {
    /// The zeros of a window.
    Zeros(Position),
    /// A job of a window.
    Job {
        position: Position,
        window: Arc<Window>,
        index: usize,
        /// The stretch of the source that it reads.
        source: Extent,
        /// How large a buffer it needs.
        length: usize,
    },
    /// Nothing before the next window is loaded.
    Loading,
    /// Nothing.
    End,
}

impl Next {
    /// How large a buffer it needs: none but a job does.
    pub(super) fn length(&self) -> usize {
        match self {
            Self::Job { length, .. } => *length,
            _ => 0,
        }
    }
}

pub(super) struct Items {
    source: Arc<Source>,
    plan: Arc<Plan>,
    memory: Arc<Memory>,
    /// The item to be begun next.
    position: Position,
    window: Option<Arc<Window>>,
    /// The next window to be loaded.
    ahead: u64,
    loading: Option<AbortOnDropHandle<Result<Window, TransferError>>>,
}

impl Items {
    pub(super) fn new(
        source: Arc<Source>,
        plan: Arc<Plan>,
        memory: Arc<Memory>,
        start: Position,
    ) -> Self {
        let ahead = start.window;
        Self {
            source,
            plan,
            memory,
            position: start,
            window: None,
            ahead,
            loading: None,
        }
    }

    pub(super) fn source(&self) -> &Source {
        &self.source
    }

    pub(super) fn position(&self) -> Position {
        self.position
    }

    /// What comes next. Begins to load a window when it is time.
    pub(super) fn next(&mut self) -> Next {
        let items = self
            .window
            .as_ref()
            .map(|window| 1 + window.jobs().len() as u64);
        if items.is_some_and(|items| self.position.item >= items) {
            self.window = None;
            self.position = Position {
                window: self.position.window + 1,
                item: 0,
            };
        }
        let early = self.window.is_some() && !self.source.is_stream();
        if (self.window.is_none() || early) && self.loading.is_none() {
            self.load();
        }
        let Some(window) = &self.window else {
            return if self.loading.is_some() {
                Next::Loading
            } else {
                Next::End
            };
        };
        let Some(index) = self.position.item.checked_sub(1) else {
            return Next::Zeros(self.position);
        };
        let index = index as usize;
        let source = window
            .jobs()
            .get(index)
            .map_or(Extent::between(0, 0), |job| job.source);
        Next::Job {
            position: self.position,
            window: Arc::clone(window),
            index,
            source,
            // Room for a raw source's last piece to be padded.
            length: source.length.next_multiple_of(512) as usize,
        }
    }

    /// The last of [`Self::next`] was begun.
    pub(super) fn began(&mut self) {
        self.position.item += 1;
    }

    /// The zeros of the window at hand.
    pub(super) fn zeros(&self) -> Vec<Extent> {
        self.window
            .as_ref()
            .map(|window| window.zeros.clone())
            .unwrap_or_default()
    }

    fn load(&mut self) {
        let window = self.ahead;
        if window >= self.plan.windows() {
            return;
        }
        self.ahead += 1;
        let (source, plan) = (Arc::clone(&self.source), Arc::clone(&self.plan));
        let memory = Arc::clone(&self.memory);
        let task = tokio::spawn(async move { load(&source, &plan, &memory, window).await });
        self.loading = Some(AbortOnDropHandle::new(task));
    }

    /// Waits for the window that is being loaded. May be dropped and called
    /// again.
    pub(super) async fn loaded(&mut self) -> Result<(), TransferError> {
        if let Some(loading) = &mut self.loading {
            let window = loading.await.unwrap_or(Err(TransferError::Worker));
            self.loading = None;
            self.window = Some(Arc::new(window?));
        }
        Ok(())
    }
}

async fn load(
    source: &Source,
    plan: &Plan,
    memory: &Arc<Memory>,
    window: u64,
) -> Result<Window, TransferError> {
    let mut builder = plan.begin(window);
    // Several at once, or a distant source would answer one table after the
    // other; taken in their order, which decides the window's pieces.
    let mut tables = stream::iter(builder.reads())
        .map(|read| async move {
            let buffer = memory.take(read.source.length as usize).await;
            let buffer = source.read(read.source, buffer).await;
            buffer.map(|buffer| (read, buffer))
        })
        .buffered(if source.is_stream() { 1 } else { TABLES });
    while let Some((read, buffer)) = tables.try_next().await? {
        let length = read.source.length as usize;
        builder.accept(&read, buffer.get(..length).unwrap_or_default())?;
    }
    drop(tables);
    Ok(builder.finish())
}
