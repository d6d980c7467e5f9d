//! A bench shown: policies beside what a user would pick instead, a panel for each load and limit.

pub(crate) mod text;
