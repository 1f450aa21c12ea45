//! `turnkey layers`: the caller's named layers.

use std::path::PathBuf;

use anyhow::Context as _;
use serde::Serialize;
use turnkey_supervisor::layer::{self, KeptLayer};

use crate::cli::{LayerArguments, LayersArguments, LayersCommand};
use crate::failure::Failure;
use crate::output;

#[derive(Serialize)]
struct LayersPage {
    schema: &'static str,
    directory: String,
    layers: Vec<String>,
}

/// The directory of the layer that a run asks for. To be asked before the run moves elsewhere.
pub fn wanted(arguments: &LayerArguments) -> anyhow::Result<Option<PathBuf>> {
    match (&arguments.keep, &arguments.layer) {
        (Some(name), _) => Ok(Some(layer::named(&layer::directory()?, name)?)),
        (None, Some(directory)) => {
            let absolute = std::path::absolute(directory);
            Ok(Some(
                absolute.context("could not tell the current directory")?,
            ))
        }
        (None, None) => Ok(None),
    }
}

/// Lists the layers, or removes some.
pub fn layers(arguments: &LayersArguments) -> Result<u8, Failure> {
    let directory = layer::directory()?;
    if let Some(LayersCommand::Remove { names }) = &arguments.command {
        for name in names {
            let path = layer::named(&directory, name)?;
            KeptLayer::remove(&path).map_err(anyhow::Error::from)?;
        }
        return Ok(0);
    }
    let layers = layer::list(&directory)?;
    let text = if arguments.json {
        let page = LayersPage {
            schema: "turnkey.layers/v1",
            directory: turnkey_report::escape(directory.as_os_str().as_encoded_bytes()),
            layers,
        };
        serde_json::to_string_pretty(&page).context("the list is no JSON")? + "\n"
    } else {
        let shown = layers
            .iter()
            .map(|name| turnkey_report::escape(name.as_bytes()));
        shown.map(|name| name + "\n").collect()
    };
    output::page(text.as_bytes()).context("could not write the list")?;
    Ok(0)
}
