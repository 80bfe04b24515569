//! What is known not to be a reason. Each of these lists is as short as the
//! sources let it be: tidy finds what is named in vain.

/// Folders whose words come to no status: the protocol, what is said at a
/// terminal. Tests are left out everywhere.
pub(super) const ELSEWHERE: &[&str] = &["bench/", "cli/", "proto/", "xtask/"];

/// Words that are no reasons, by the folder or file that they stand in.
pub(super) const OTHERS: &[(&str, &str)] = &[
    // Of Kubernetes and its storage: kinds, and values of fields.
    (
        "coordinator/",
        "AdmissionReview Always Apply Block ClusterFirstWithHostNet ConfigMap ContainerCreating
        CustomResourceDefinition Deployment DoesNotExist ErrImagePull Exists Failure False
        IfNotPresent Image Job Lost Namespace Never NoExecute Node NotIn ObjectBucketClaim
        Opaque Pending PersistentVolumeClaim PodInitializing PodScheduled ReadWriteOnce Retain
        Running RuntimeDefault Secret Succeeded True Unschedulable VirtualMachineImage
        VolumeSnapshot VolumeSnapshotClass VolumeSnapshotContent Warning",
    ),
    // Of the resources: columns of lists, types, phases, values of fields.
    (
        "api/",
        "Age Block Capacity Ceph Clone CloneAndHandOver Copy Device Devices Disk False Filesystem
        Heartbeat HyperCloudStorage HyperCloudStorageStatus Message Method Node
        NodeDeviceCleanup NodeDeviceCleanupStatus NodeDeviceInventory NodeDeviceInventoryStatus
        PartialEq Pending Phase Progress ReadOnlyMany ReadWriteMany ReadWriteOnce
        ReadWriteOncePod Restore Rook Size Snapshot Stale State Succeeded True
        VirtualMachineImage VirtualMachineImageStatus VirtualMachinePvc VirtualMachinePvcStatus
        VirtualMachineVolumeExport VirtualMachineVolumeExportStatus VirtualMachineVolumeRollback
        VirtualMachineVolumeRollbackStatus Warning",
    ),
    // The agents' calls, and how far a job is.
    (
        "coordinator/src/agents",
        "CancelJob CleanDevice ClientTls DiscardUpload Finalizing GetNode PresignObject
        ProbeSource StartJob Transferring Verifying WatchJobs",
    ),
    // For the log and the metrics alone.
    ("coordinator/src/admission/review.rs", "Allowed Refused"),
    (
        "coordinator/src/shell/error.rs",
        "AccessUnreadable Conflict Malformed StatusFailed",
    ),
    // What is told of a device is its message.
    ("coordinator/src/cleanup/withhold.rs", "BeingCleaned"),
    // By which Events of one reason are told apart.
    ("coordinator/src/storage/", "Change Deletion Storage"),
    // Names of types that are not printed.
    ("coordinator/src/access", "Content WantedHeader"),
    ("node-agent/", "Access CoordinatorOnly String Url"),
    ("transfer/src/checksum.rs", "String"),
    // Kinds, and what Rook, CDI and Kubernetes say of their objects.
    (
        "storage/",
        "BlockUninstallIfWorkloadsExist CSIDriver Ceph CephBlockPool CephCluster CephConnection
        CephObjectStore CephObjectStoreUser ClientProfile ClientProfileMapping ClusterRole
        ClusterRoleBinding ConfigMap Connected Connecting Created Creating
        CustomResourceDefinition DaemonSet Delete DeletionIsBlocked Deployed Deploying Deployment
        Driver Error Established Failure False FoundNewReplicaSet HonorWaitForFirstConsumer
        IPv4 IPv6 IfNotPresent Immediate Job NamesAccepted Namespace NewReplicaSetCreated ObjectBucketClaim
        OperatorConfig PersistentVolume PersistentVolumeClaim ProgressDeadlineExceeded Remaining
        ReplicaSetUpdated Role RoleBinding Rook ServiceAccount StorageClass True Updating
        VolumeSnapshotClass VolumeSnapshotContent",
    ),
    // What object stores say, and where credentials come from.
    (
        "transfer/src/object_store/",
        "AccountProblem AllAccessDisabled Authorization AuthorizationHeaderMalformed
        AuthorizationQueryParametersError BadDigest Code ConditionalRequestConflict Container
        EntityTooLarge EntityTooSmall Environment Error ExpiredToken
        IllegalLocationConstraintException IncompleteBody InstanceMetadata InsufficientStorage
        InvalidAccessKeyId InvalidArgument InvalidObjectState InvalidPart InvalidPartOrder
        InvalidRequest Message NoSuchVersion NotImplemented NotSignedUp OperationAborted
        PermanentRedirect PreconditionFailed Profile QuotaExceeded Region RequestExpired
        RequestLimitExceeded RequestTimeTooSkewed RequestTimeout ServiceUnavailable
        TemporaryRedirect Throttling TokenRefreshRequired WebIdentityToken
        XAmzContentSHA256Mismatch XMinioStorageFull",
    ),
    // What is in an image or on a device.
    ("disk/", "BZh Header WithouFreSpacExt WithoutFreeSpace"),
    ("inventory/", "BitLocker Stratis"),
];

/// Files that put words together, and the reasons that come of it.
pub(super) const APART: &[(&str, &str)] = &[
    (
        "coordinator/src/access.rs",
        "ConfigMapNotFound InvalidConfigMap InvalidSecret SecretNotFound",
    ),
    // The number of a try, by which Events are told apart.
    ("coordinator/src/shell/report.rs", ""),
];
