//! The `test-cluster` command.

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::ExitCode;
use test_cluster::images::Recipe;
use test_cluster::settings::Settings;
use test_cluster::{binaries, images, node, smoke};

/// A real Kubernetes on this machine, with storage.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Bring the cluster up; what is up already stays
    Up {
        /// How many nodes
        #[arg(long)]
        nodes: Option<usize>,
    },
    /// Take the cluster away, whatever part of it is there
    Down,
    /// Show what runs
    Status,
    /// Print the path of the administrator's kubeconfig
    Kubeconfig,
    /// Print the directory of kubectl and the other Kubernetes programs
    Bin,
    /// Print the path of a built program
    Program {
        /// snapshot-controller, etcd, ...
        name: String,
    },
    /// Build the programs only
    Build,
    /// Print the path of Helm, which is built if it is not yet
    Helm,
    /// Try volumes, clones and snapshots in pods
    Smoke,
    /// Run a command in a node's namespaces
    Exec {
        /// node-a, node-b, ...
        node: String,
        /// The command
        #[arg(required = true, trailing_var_arg = true)]
        command: Vec<String>,
    },
    /// Container images
    #[command(subcommand)]
    Image(ImageAction),
}

#[derive(Subcommand)]
enum ImageAction {
    /// Build an image around programs and load it into every node
    Load {
        /// NAME:TAG
        name: String,
        /// Another name of the image; more may follow
        #[arg(long = "alias")]
        aliases: Vec<String>,
        /// A program as PATH[=/DESTINATION], with its libraries; more may follow
        #[arg(long = "bin", required = true)]
        programs: Vec<String>,
        /// Another file as PATH[=/DESTINATION]
        #[arg(long = "file")]
        files: Vec<String>,
        /// A symbolic link as /NAME=/TARGET
        #[arg(long = "link")]
        links: Vec<String>,
        /// A word of the command; none: the first program
        #[arg(long, allow_hyphen_values = true)]
        entrypoint: Vec<String>,
        /// UID[:GID]; none: root
        #[arg(long)]
        user: Option<String>,
    },
    /// Build the image that boots disks, QEMU and the program that drives it,
    /// and load it into every node
    Machine {
        /// The program
        program: PathBuf,
    },
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let settings = Settings::from_environment()?;
    match Arguments::parse().action {
        Action::Up { nodes } => test_cluster::up(&settings, nodes),
        Action::Down => test_cluster::down(&settings),
        Action::Status => test_cluster::status(&settings),
        Action::Kubeconfig => {
            println!("{}", settings.kubeconfig().display());
            Ok(())
        }
        Action::Bin => {
            let kubectl = binaries::built(&settings)?.path("kubectl")?;
            println!("{}", kubectl.trim_end_matches("/kubectl"));
            Ok(())
        }
        Action::Program { name } => {
            println!("{}", binaries::built(&settings)?.path(&name)?);
            Ok(())
        }
        Action::Build => binaries::build(&settings).map(drop),
        Action::Helm => {
            println!("{}", binaries::helm(&settings)?);
            Ok(())
        }
        Action::Smoke => smoke::run(&settings),
        Action::Exec { node, command } => {
            let nodes = test_cluster::nodes(&settings)?;
            let found = nodes
                .iter()
                .find(|each| each.name == node)
                .with_context(|| format!("there is no node {node}"))?;
            Err(node::execute(&settings, found, &command)?.exec().into())
        }
        Action::Image(ImageAction::Load {
            name,
            aliases,
            programs,
            files,
            links,
            entrypoint,
            user,
        }) => {
            let recipe = Recipe {
                name,
                aliases,
                programs,
                files,
                links,
                entrypoint,
                user,
            };
            images::load(&settings, &test_cluster::nodes(&settings)?, &recipe)
        }
        Action::Image(ImageAction::Machine { program }) => {
            images::load_machine(&settings, &test_cluster::nodes(&settings)?, &program)
        }
    }
}
