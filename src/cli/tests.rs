use clap::CommandFactory;

use super::{Cli, environment};

fn each_command(command: &clap::Command, path: &str, visit: &mut impl FnMut(&str, &clap::Command)) {
    visit(path, command);
    for subcommand in command.get_subcommands() {
        let below = format!("{path} {}", subcommand.get_name());
        each_command(subcommand, &below, visit);
    }
}

#[test]
fn the_command_line_is_consistent() {
    environment::name_variables(Cli::command()).debug_assert();
}

#[test]
fn every_flag_has_a_help_and_an_environment_variable() {
    let command = environment::name_variables(Cli::command());
    each_command(&command, "mooring", &mut |path, command| {
        for arg in command.get_arguments() {
            let id = arg.get_id();
            assert!(arg.get_help().is_some(), "{path}: {id} has no help");
            if arg.get_long().is_some() {
                let name = arg.get_env().and_then(|name| name.to_str()).unwrap_or_default();
                // OpenTelemetry has names of its own, which hold for every program.
                let known = ["MOORING_", "OTEL_", "TRACEPARENT"];
                let is_known = known.iter().any(|start| name.starts_with(start));
                assert!(is_known, "{path}: {id} has the variable {name:?}");
            }
        }
    });
}

#[test]
fn the_help_says_when_a_silent_client_loses_its_segments() {
    let command = Cli::command();
    let master = command.find_subcommand("master").unwrap();
    let ttl = master.get_arguments().find(|arg| arg.get_long() == Some("client-ttl")).unwrap();
    let help = ttl.get_help().unwrap().to_string();
    assert!(
        help.contains("suspected and asked again; after twice as long it is offline"),
        "{help}"
    );
}

#[test]
fn a_variable_is_named_by_subcommand_and_flag() {
    let command = environment::name_variables(Cli::command());
    let master = command.find_subcommand("master").unwrap();
    let port = master.get_arguments().find(|arg| arg.get_long() == Some("rpc-port")).unwrap();
    assert_eq!(port.get_env().unwrap(), "MOORING_MASTER_RPC_PORT");
    let config = command.find_subcommand("config").unwrap().find_subcommand("master").unwrap();
    let port = config.get_arguments().find(|arg| arg.get_long() == Some("rpc-port")).unwrap();
    assert_eq!(port.get_env().unwrap(), "MOORING_MASTER_RPC_PORT");
}
