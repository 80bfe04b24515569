//! Kubernetes API types of HyperCloud Storage, group
//! `hypercloud.tmaxanc.com/v1alpha1`.
//!
//! The crate holds what the API *is*: the resources' Rust types with their
//! validation rules, the names and labels of what the coordinator makes for
//! them, and the arithmetic of conditions. It must not know a client, a
//! runtime or a clock: every time comes in as an argument.

pub mod conditions;
mod copy_status;
mod hypercloud_storage;
pub mod names;
mod node_device_cleanup;
mod node_device_inventory;
mod object_store;
pub mod quantity;
mod virtual_machine_image;
mod virtual_machine_pvc;
mod virtual_machine_volume_export;
mod virtual_machine_volume_rollback;

pub use copy_status::*;
pub use hypercloud_storage::*;
pub use node_device_cleanup::*;
pub use node_device_inventory::*;
pub use object_store::*;
pub use virtual_machine_image::*;
pub use virtual_machine_pvc::*;
pub use virtual_machine_volume_export::*;
pub use virtual_machine_volume_rollback::*;

/// API group of every resource of this project.
pub const GROUP: &str = "hypercloud.tmaxanc.com";
/// API version of every resource of this project.
pub const VERSION: &str = "v1alpha1";

/// Every custom resource definition of the project, in the order in which
/// they are installed.
pub fn custom_resource_definitions()
-> Vec<k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition>
{
    use kube::CustomResourceExt;
    vec![
        HyperCloudStorage::crd(),
        NodeDeviceCleanup::crd(),
        NodeDeviceInventory::crd(),
        VirtualMachineImage::crd(),
        VirtualMachinePvc::crd(),
        VirtualMachineVolumeExport::crd(),
        VirtualMachineVolumeRollback::crd(),
    ]
}
