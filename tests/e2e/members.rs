//! Members: what each may do by its certificate, whose client it is, and how much it may take.

use mooring_proto::message::Request;
use mooring_proto::message::inspect::ListSegmentsRequest;
use mooring_proto::message::object::RemoveAllRequest;
use mooring_proto::message::segment::{RemountRequest, UnmountRequest};
use mooring_proto::message::session::{HelloRequest, PingRequest, VERSION, VERSION_MIN};
use mooring_proto::{ClientId, ErrorCode, SegmentId, close};

use crate::harness::{Master, run};
use crate::peer::{Dial, Peer, hello, mount};
use crate::tls::{Authority, Files, Pair};

const ADMIN: &str = "spiffe://place.example/mooring/admin";
const STORE: &str = "store-1.kv.example";

/// A master that lets in who has a certificate of this authority.
struct Place {
    authority: Authority,
    master: Master,
    _directory: tempfile::TempDir,
}

impl Place {
    fn start(flags: &[&str]) -> Place {
        let directory = tempfile::tempdir().unwrap();
        let authority = Authority::new();
        let files = Files::write(directory.path(), &authority.sign("localhost"));
        let roots = directory.path().join("roots.pem");
        std::fs::write(&roots, authority.pem()).unwrap();
        let trust = ["--tls-client-ca", roots.to_str().unwrap()];
        let master = Master::start_with(&[&files.flags()[..], &trust, flags].concat());
        Place { authority, master, _directory: directory }
    }

    async fn dial(&self, identity: Pair) -> Peer {
        let dial = Dial { identity: Some(identity), ..Dial::default() };
        Peer::dial(self.master.rpc(), dial).await.unwrap()
    }

    /// A member that has said hello for a client of its own.
    async fn member(&self, hosts: &[&str], uris: &[&str]) -> Peer {
        let peer = self.dial(self.authority.named(hosts, uris)).await;
        peer.say_hello().await;
        peer
    }

    /// The answer to a hello of this member for this client.
    async fn hello_for(&self, client: ClientId, identity: Pair) -> (Peer, Option<ErrorCode>) {
        let peer = self.dial(identity).await;
        let hello = HelloRequest { client, ..hello(VERSION_MIN, VERSION) };
        let refused = peer.ask(&hello).await.err().map(|error| error.code);
        (peer, refused)
    }
}

async fn refused<R: Request>(peer: &Peer, request: &R) -> Option<ErrorCode> {
    peer.ask(request).await.err().map(|error| error.code)
}

#[tokio::test]
async fn only_members_with_the_name_of_a_role_may_do_what_it_is_for() {
    let names = ["--tls-admin-name", ADMIN, "--tls-store-name", "other.example,*.kv.example"];
    let place = Place::start(&names);
    let engine =
        place.member(&["engine.example"], &["spiffe://place.example/mooring/engine"]).await;
    let store = place.member(&[STORE], &[]).await;
    let admin = place.member(&[], &[ADMIN]).await;

    let (forbidden, segment) = (Some(ErrorCode::Forbidden), SegmentId(1));
    for peer in [&engine, &admin] {
        assert_eq!(refused(peer, &mount(1)).await, forbidden);
        assert_eq!(refused(peer, &RemountRequest { segments: vec![mount(1)] }).await, forbidden);
        assert_eq!(refused(peer, &UnmountRequest { segment, grace_ms: 0 }).await, forbidden);
    }
    assert_eq!(refused(&store, &mount(1)).await, None);
    for peer in [&engine, &store] {
        assert_eq!(refused(peer, &RemoveAllRequest { force: true }).await, forbidden);
    }
    assert_eq!(refused(&admin, &RemoveAllRequest { force: true }).await, None);
    assert_eq!(refused(&store, &UnmountRequest { segment, grace_ms: 0 }).await, None);
    // What was refused closes nothing, and everybody may do the rest.
    for peer in [&engine, &store, &admin] {
        assert_eq!(refused(peer, &PingRequest::default()).await, None);
        assert_eq!(refused(peer, &ListSegmentsRequest {}).await, None);
    }
    assert_eq!(place.master.page("/ready").0, 200, "the own probe needs no role");
    let refusals = "mooring_refusals_total{code=\"Forbidden\"} 8";
    assert!(place.master.page("/metrics").1.contains(refusals));
}

#[tokio::test]
async fn without_names_of_roles_every_member_may_do_everything() {
    let place = Place::start(&[]);
    let member = place.member(&["engine.example"], &[]).await;
    assert_eq!(refused(&member, &mount(1)).await, None);
    assert_eq!(refused(&member, &RemoveAllRequest { force: true }).await, None);
}

#[tokio::test]
async fn nobody_says_hello_for_the_client_of_another_certificate() {
    let place = Place::start(&[]);
    let (client, owner) = (ClientId(rand::random()), ["owner.example"]);
    let identity = || place.authority.named(&owner, &[]);
    let (first, refusal) = place.hello_for(client, identity()).await;
    assert_eq!(refusal, None);
    assert_eq!(refused(&first, &mount(1)).await, None);

    let other = || place.authority.named(&["other.example"], &[]);
    let (peer, refusal) = place.hello_for(client, other()).await;
    assert_eq!(refusal, Some(ErrorCode::Forbidden));
    assert_eq!(peer.closed().await.0, u64::from(close::FORBIDDEN));

    // Also not while its owner is away, who comes back with a renewed certificate of the same name.
    first.connection.close(0_u32.into(), b"");
    place.master.wait_for_metric("mooring_connections", 0.0);
    assert_eq!(place.hello_for(client, other()).await.1, Some(ErrorCode::Forbidden));
    let (again, refusal) = place.hello_for(client, identity()).await;
    assert_eq!(refusal, None);
    let unmount = UnmountRequest { segment: SegmentId(1), grace_ms: 0 };
    assert_eq!(refused(&again, &unmount).await, None);
}

#[tokio::test]
async fn a_client_mounts_no_more_segments_than_it_can_mount_again_and_others_are_not_concerned() {
    let master = Master::start(&[]);
    let peer = Peer::greeted(&master).await;
    let segments = (0..4_096).map(mount).collect();
    assert_eq!(refused(&peer, &RemountRequest { segments }).await, None);
    let error = peer.ask(&mount(4_096)).await.unwrap_err();
    assert_eq!(error.code, ErrorCode::TooLarge);
    assert!(error.text.contains("4097 segments of one client"), "{error}");
    assert_eq!(refused(&peer, &mount(7)).await, None, "it is mounted already");
    let other = Peer::greeted(&master).await;
    assert_eq!(refused(&other, &mount(4_096)).await, None);
}

#[test]
fn names_of_roles_without_an_authority_are_refused_by_name() {
    for flag in ["--tls-admin-name", "--tls-store-name"] {
        let output = run(&["master", "--dev", flag, "a.example"]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(flag) && error.contains("--tls-client-ca"), "{error}");
        let output = run(&["master", "--dev", flag, "a*b"]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(flag) && error.contains("a*b"), "{error}");
        for name in ["a\nb", "a..b", "ü.example"] {
            let output = run(&["master", "--tls-client-ca", "roots.pem", flag, name]);
            let error = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(2), "{name:?}: {error}");
            assert!(error.contains(flag) && error.contains("as it stands in a"), "{error}");
        }
    }
}
