//! The layer of a run, and the command for those that are there.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// The layer that outlives the run.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Files")]
pub struct LayerArguments {
    /// Keep what the run writes to /workspace, and to a tree of --root-mode overlay, in the layer of this name, and
    /// begin with what earlier runs have kept there
    #[arg(long, value_name = "NAME", conflicts_with = "exports")]
    pub keep: Option<String>,
    /// As --keep, with the layer in this directory, which holds a layer, is empty or does not exist
    #[arg(long, value_name = "DIR", conflicts_with_all = ["keep", "exports"])]
    pub layer: Option<PathBuf>,
}

/// `turnkey layers`.
#[derive(Debug, Args)]
pub struct LayersArguments {
    /// The action; without one, the layers are listed.
    #[command(subcommand)]
    pub command: Option<LayersCommand>,
    /// For programs: one JSON object, schema turnkey.layers/v1
    #[arg(long)]
    pub json: bool,
}

/// Actions on layers.
#[derive(Debug, Subcommand)]
pub enum LayersCommand {
    /// Remove layers, with all that is in them.
    Remove {
        /// The names of the layers
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
}
