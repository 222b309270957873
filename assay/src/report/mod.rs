//! Evidence and what was found in it → text for a terminal, a pull request, code scanning, programs. Pure.

pub mod basis;
pub mod controls;
pub mod diff;
pub mod export;
pub mod first_screen;
pub mod forest;
pub mod gate;
pub mod html;
pub mod json;
pub mod markdown;
pub mod plain;
pub mod sarif;
pub mod show;
pub mod text;
