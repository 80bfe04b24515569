//! How the system gets into a cluster: by Helm and by kustomize.
//!
//! What the chart and the overlays say is compared without a cluster. The test
//! that installs takes away what is installed, and everything that it manages:
//! it is for the local cluster alone, and comes last.

mod chart;
mod installation;
mod overlays;
mod programs;
