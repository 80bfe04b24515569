//! The removal, from top to bottom.

/// What goes at once, before what stands below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// Nothing goes while claims, volumes, snapshots or buckets are there.
    Users,
    /// Everything that a stage installed, but for definitions.
    Stage(&'static str),
    /// Objects of these kinds that a stage installed.
    Kinds(&'static str, &'static [&'static str]),
    /// The CephCluster, and its data with it.
    CephCluster,
    /// Rook's jobs, which clean the nodes.
    CleanupJobs,
    /// What the CSI operator makes drivers of; it has to be there to take
    /// them away.
    CsiResources,
    /// What the CSI operator leaves behind of its drivers.
    CsiDrivers,
    /// The snapshot controller, where nobody else needs it.
    SnapshotController,
    /// Custom resource definitions, by the policy.
    Definitions,
}

/// The order.
pub const ORDER: &[Layer] = &[
    Layer::Users,
    Layer::Stage("cdi"),
    Layer::Stage("cdi-operator"),
    Layer::Stage("toolbox"),
    Layer::Kinds("object-store", &["ObjectBucketClaim"]),
    Layer::Kinds("object-store", &["CephObjectStoreUser"]),
    Layer::Stage("object-store"),
    Layer::Stage("block-storage"),
    Layer::CephCluster,
    Layer::CleanupJobs,
    Layer::CsiResources,
    Layer::Stage("csi-operator"),
    Layer::CsiDrivers,
    Layer::Stage("rook-operator"),
    Layer::Stage("rook-common"),
    Layer::SnapshotController,
    Layer::Definitions,
];
