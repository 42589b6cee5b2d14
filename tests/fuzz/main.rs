//! Decoders under millions of damaged inputs, on a stable compiler and without another tool.
//!
//! Each decoder that reads what a peer or a former process has written is one file here: where its
//! inputs begin, and what must hold of whatever it is fed. `engine` damages the inputs, keeps those
//! that led to something new, and goes on from them.
//!
//! A run takes about a second for each decoder. For a long one:
//!
//! ```text
//! MOORING_FUZZ_SECONDS=3600 cargo test --release --test fuzz
//! ```
//!
//! With `MOORING_FUZZ_CORPUS=FOLDER` a run begins with the inputs that former ones have kept in the files
//! of this folder, `DECODER.txt` each, and keeps what led to something new for the next one.
//!
//! An input that breaks a decoder is printed in hexadecimal. Give it a line in
//! `tests/fixtures/fuzz/DECODER.txt`, where every later run begins with it.

#![allow(clippy::unwrap_used, reason = "a test that unwraps says where it failed")]

mod engine;
mod http;
mod mooncake;
mod query;
mod quic;

/// The pages of the metadata store, and what stands before them.
#[allow(dead_code, reason = "the file has more than is fed here")]
#[path = "../../src/metadata_store.rs"]
mod metadata_store;

#[allow(dead_code, reason = "the files have more than is fed here")]
#[path = "../../src/admin"]
mod admin {
    pub(crate) mod connections;
    pub(crate) mod guard;
    pub(crate) mod query;
}

/// What is logged, as `/log_level` is told.
#[path = "../../src/logging"]
mod logging {
    #[path = "../../tests/fuzz/levels.rs"]
    mod fuzz;
    mod levels;
}

/// What a collector of OpenTelemetry answers.
#[allow(dead_code, reason = "the file has more than is fed here")]
#[path = "../../src/telemetry"]
mod telemetry {
    mod answer;
    #[path = "../../tests/fuzz/collector.rs"]
    mod fuzz;
}

/// What one master leaves for the next.
#[allow(dead_code, reason = "the files have more than is fed here")]
#[path = "../../src/handoff"]
mod handoff {
    mod bytes;
    mod error;
    mod format;
    #[path = "../../tests/fuzz/handoff.rs"]
    mod fuzz;
    mod manifest;
    mod notes;
    mod reason;
    mod record;

    use error::ReadError;
}

/// The file of flags of this program.
#[allow(dead_code, reason = "the file has more than is fed here")]
#[path = "../../src/config"]
mod config {
    mod file;
    #[path = "../../tests/fuzz/config.rs"]
    mod fuzz;
}

/// The file of flags of the existing master.
#[allow(dead_code, reason = "the files have more than is fed here")]
#[path = "../../src/mooncake_master"]
mod mooncake_master {
    mod file;
    mod flags;
    #[path = "../../tests/fuzz/mooncake_config.rs"]
    mod fuzz;
    mod given;
    mod values;
}

/// What readers of files say of wrong ones.
mod command {
    #[derive(Debug)]
    pub(crate) enum CommandError {
        Arguments(String),
    }

    impl CommandError {
        /// For the tests beside the readers.
        pub(crate) fn exit_code(&self) -> u8 {
            2
        }
    }

    impl std::fmt::Display for CommandError {
        fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            let CommandError::Arguments(text) = self;
            formatter.write_str(text)
        }
    }
}

#[allow(dead_code, reason = "the file has more than is fed here")]
#[path = "../../src/regular_file.rs"]
mod regular_file;

#[path = "../../proto/tests/counting/mod.rs"]
mod counting;
