use std::io::Write as _;

use clap::builder::PossibleValuesParser;

use super::*;

/// A command line with each sort of flag and subcommand.
fn command() -> Command {
    let port = || Arg::new("port").long("port").value_parser(clap::value_parser!(u16));
    let master = || Arg::new("master").long("master").default_value("localhost");
    let force = Arg::new("force")
        .long("force")
        .action(ArgAction::SetTrue)
        .value_parser(clap::builder::BoolishValueParser::new());
    let layout = PossibleValuesParser::new(["tasks", "threads"]);
    Command::new("test")
        .arg(Arg::new("level").long("level").global(true).default_value("info"))
        .subcommand(
            Command::new("master")
                .arg(port().default_value("1"))
                .arg(Arg::new("layout").long("layout").value_parser(layout)),
        )
        .subcommand(Command::new("put").arg(master()).arg(force).arg(Arg::new("key")))
        .subcommand(Command::new("get").arg(master().required(true)))
        .subcommand(
            Command::new("bench").subcommand(Command::new("fill").arg(port().required(true))),
        )
        .subcommand(Command::new("config").subcommand(Command::new("master").arg(port())))
}

fn read(text: &str) -> Result<ConfigFile, String> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    ConfigFile::read(&command(), file.path()).map_err(|error| {
        assert_eq!(error.exit_code(), 2);
        let text = error.to_string();
        assert!(text.contains(file.path().to_str().unwrap()), "names the file: {text}");
        text
    })
}

/// The command line that results from one and a file.
fn extended(text: &str, line: &str) -> String {
    let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
    let given = command().ignore_errors(true).get_matches_from(&arguments);
    let extended = read(text).unwrap().apply(&given).extend(&arguments);
    extended.join(std::ffi::OsStr::new(" ")).into_string().unwrap()
}

#[test]
fn a_value_of_the_file_is_added_to_the_subcommand_of_its_table() {
    let text = "level = 'debug'\n[master]\nport = 7\nlayout = 'threads'\n[bench.fill]\nport = 9\n";
    let master = extended(text, "test master");
    assert_eq!(master, "test master --level=debug --layout=threads --port=7");
    assert_eq!(extended(text, "test bench fill"), "test bench fill --port=9 --level=debug");
    assert_eq!(extended(text, "test put"), "test put --level=debug");
    assert_eq!(extended("[master]\nport = 7", "test config master"), "test config master --port=7");
}

#[test]
fn the_command_line_overrides_the_file() {
    let text = "level = 'debug'\n[master]\nport = 7";
    let line = "test master --port 8 --level warn";
    assert_eq!(extended(text, line), line);
}

#[test]
fn a_switch_of_the_file_is_added_only_if_it_is_on() {
    assert_eq!(extended("[put]\nforce = true", "test put"), "test put --force");
    assert_eq!(extended("[put]\nforce = 'yes'", "test put"), "test put --force");
    assert_eq!(extended("[put]\nforce = false", "test put"), "test put");
}

#[test]
fn what_the_file_adds_stands_before_the_end_of_flags() {
    let line = extended("[put]\nmaster = 'a'", "test put -- --key");
    assert_eq!(line, "test put --master=a -- --key");
}

#[test]
fn the_client_table_concerns_all_client_commands_and_their_own_tables_override_it() {
    let text = "[put]\nmaster = 'b'\n[client]\nmaster = 'a'";
    assert_eq!(extended(text, "test get"), "test get --master=a");
    assert_eq!(extended(text, "test put"), "test put --master=b");
}

#[test]
fn what_is_unknown_is_refused_by_name_with_what_is_allowed() {
    let cases = [
        ("[mastre]\nport = 1", "unknown table [mastre]"),
        ("[mastre]", "unknown table [mastre]"),
        ("[bench.file]\nport = 1", "unknown table [bench.file]"),
        ("[master]\nprot = 1", "unknown key [master] prot, allowed are layout, port"),
        ("[client]\nlayout = 1", "unknown key [client] layout"),
        ("levle = 'x'", "unknown key levle, allowed are level"),
        ("[config.master]\nport = 1", "unknown table [config.master]"),
    ];
    for (text, expected) in cases {
        let error = read(text).err().unwrap();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn a_value_that_its_flag_does_not_take_is_refused_with_the_reason() {
    let cases = [
        ("[master]\nport = 70000", "[master] port = 70000: ", "65535"),
        ("[master]\nport = 'x'", "[master] port = \"x\": ", "invalid digit"),
        ("[master]\nlayout = 'rows'", "layout", "allowed are tasks, threads"),
        ("[master]\nport = [1, 2]", "port", "one value"),
        ("[master]\nport = [1]", "port", "one value and no list"),
        ("[master]\nport = []", "port", "one value and no list"),
        ("[master]\nport = 1979-05-27", "port", "allowed is a text"),
        ("[master\n", "", "1"),
    ];
    for (text, place, reason) in cases {
        let error = read(text).err().unwrap();
        assert!(error.contains(place) && error.contains(reason), "{text}: {error}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_refused() {
    let error = ConfigFile::read(&command(), Path::new("/nonexistent/mooring.toml")).err().unwrap();
    assert!(error.to_string().contains("/nonexistent/mooring.toml: cannot read"));
}

#[test]
fn the_path_is_found_in_both_forms_and_not_behind_the_end_of_flags() {
    let path = |line: &str| {
        let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        path_of(&arguments)
    };
    assert_eq!(path("mooring master --config a.toml"), Some("a.toml".into()));
    assert_eq!(path("mooring --config=b.toml master"), Some("b.toml".into()));
    assert_eq!(path("mooring put -- --config c.toml"), None);
}

#[test]
fn a_file_without_end_is_refused() {
    let error = ConfigFile::read(&command(), Path::new("/dev/zero")).err().unwrap();
    assert_eq!(error.exit_code(), 2);
    assert!(error.to_string().starts_with("/dev/zero: more than"), "{error}");
    let long = format!("# {}\n", "x".repeat(FILE_BYTES_MAX as usize));
    assert!(read(&long).is_err_and(|error| error.contains("more than")));
}
