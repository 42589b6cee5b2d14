//! Ids and codes, against the ones that Mooncake's own compiler computes.

use mooring_proto::mooncake::*;

/// A row of the table: name, id, code of the arguments, code of the result.
type Row = (&'static str, u32, Option<u32>, u32);

fn table() -> Vec<Row> {
    let number = |digits| u32::from_str_radix(digits, 16).expect("a number");
    include_str!("functions.txt")
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| {
            let [name, id, arguments, result] =
                line.split(' ').collect::<Vec<_>>().try_into().expect("four columns");
            let arguments = (arguments != "-").then(|| number(arguments));
            (name, number(id), arguments, number(result))
        })
        .collect()
}

fn row_of(function: Function) -> Row {
    (function.name(), function.id(), function.argument_code(), function.reply_code())
}

#[test]
fn ids_and_codes_are_those_of_the_release() {
    let table = table();
    assert_eq!(table.len(), 65);
    let declared: Vec<Row> = Function::ALL.iter().copied().map(row_of).collect();
    for row in table {
        assert!(declared.contains(&row), "{row:x?} is not among {declared:x?}");
    }
}

#[test]
fn what_the_table_has_not_is_of_the_next_release() {
    let table = table();
    let newer: Vec<&str> = Function::ALL
        .iter()
        .filter(|function| !table.contains(&row_of(**function)))
        .map(|function| function.name())
        .collect();
    assert_eq!(
        newer,
        ["ProbeKey", "BatchProbeKey", "GetReplicaListForAdmin", "BatchGetReplicaListForAdmin"]
    );
}

#[test]
fn the_policy_of_a_probe_has_the_code_and_the_padding_of_the_next_release() {
    assert_eq!(Function::BatchProbeKey.argument_code(), Some(0xb75a_4d44));
    let mode = ProbeLeaseMode::LAST_HIT_ONLY;
    let policy = GrantLeasePolicy { lease_mode: mode, candidate_size: 2 };
    let mut body = Vec::new();
    append_body(&mut body, &policy, Form::Plain);
    assert_eq!(body[4..], [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(decode_body(&body), Ok(policy));
}

#[test]
fn the_id_and_the_arguments_together_name_one_function() {
    for one in Function::ALL {
        let same = |other: &&Function| {
            other.id() == one.id() && other.argument_code() == one.argument_code()
        };
        assert_eq!(Function::ALL.iter().filter(same).count(), 1, "{one:?}");
    }
}

#[test]
fn the_arguments_choose_between_two_forms_of_a_function() {
    let client = Uuid { first: 1, second: 2 };
    let (keys, segment_name) = (vec![Str(b"k")], Str(b"s"));
    let old = BatchReplicaClear { keys: keys.clone(), client, segment_name };
    let new = BatchReplicaClearOfTenant { keys, client, segment_name, tenant: Str(b"t") };
    let id = Function::BatchReplicaClear.id();
    let mut body = Vec::new();
    append_body(&mut body, &old, Form::Plain);
    assert_eq!(Call::decode(id, &body), Ok(Call::BatchReplicaClear(old)));
    let mut body = Vec::new();
    append_body(&mut body, &new, Form::WithLiteral);
    assert_eq!(Call::decode(id, &body), Ok(Call::BatchReplicaClearOfTenant(new)));
}

#[test]
fn the_shapes_of_types_are_spelled_as_the_protocol_does() {
    let literal = |function: Function| function.argument_literal().as_bytes();
    assert_eq!(literal(Function::ExistKey), [0xfd, 0x80, 0x0c, 0x80, 0x0c, 0xff]);
    assert_eq!(literal(Function::Ping), [0xfd, 0x04, 0x04, 0x89, 0x89, 0xff]);
    assert_eq!(literal(Function::ServiceReady), [0_u8; 0]);
    let text = readable_type(Function::PutEnd.argument_literal().as_bytes());
    assert_eq!(text.as_deref(), Some("{{u64, u64}@8, {string, optional<u64>}, i32, string}"));
}

#[test]
fn numbers_show_their_names_and_keep_those_without() {
    assert_eq!(ErrorCode::OBJECT_NOT_FOUND.to_string(), "OBJECT_NOT_FOUND");
    assert_eq!(ErrorCode(-1301).to_string(), "ErrorCode(-1301)");
    assert_eq!(ReplicaType(100), ReplicaType::DFS);
    assert_eq!(ErrorCode::NAMED.len(), 36);
    assert!(ErrorCode::NAMED.is_sorted_by(|one, next| one.0 > next.0));
}
