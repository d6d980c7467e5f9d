//! `flifo iobench`: what the storage under a database can really do.

pub mod results;
