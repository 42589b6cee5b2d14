//! What a member may do, by the names in its certificate.

use mooring_proto::message::Kind;
use mooring_proto::{ErrorCode, WireError};

use crate::tls::{NamePattern, Principal};

/// Which names have which role. A role without names is everybody's.
#[derive(Clone, Debug, Default)]
pub(crate) struct Roles {
    /// Those that may remove all objects.
    pub(crate) admins: Vec<NamePattern>,
    /// Those that may mount memory.
    pub(crate) stores: Vec<NamePattern>,
}

/// What one connection may do beyond what everybody may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Permissions {
    removes_all: bool,
    mounts: bool,
}

impl Roles {
    /// What a peer with this certificate may do.
    pub(crate) fn of(&self, principal: Option<&Principal>) -> Permissions {
        let has = |names: &[NamePattern]| {
            names.is_empty() || principal.is_some_and(|principal| principal.is_one_of(names))
        };
        Permissions { removes_all: has(&self.admins), mounts: has(&self.stores) }
    }
}

impl Permissions {
    /// Whether a request of this kind is permitted.
    ///
    /// # Errors
    /// `Forbidden`, which names what is missing.
    pub(crate) fn check(self, kind: Kind) -> Result<(), WireError> {
        let lacks = match kind {
            Kind::RemoveAll if !self.removes_all => "an administrator (--tls-admin-name)",
            Kind::Mount | Kind::Remount | Kind::Unmount if !self.mounts => {
                "a store (--tls-store-name)"
            }
            _ => return Ok(()),
        };
        let text = format!("no name in the certificate of this client is that of {lacks}");
        Err(WireError::new(ErrorCode::Forbidden, text))
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    fn member(name: &str) -> Principal {
        let params = CertificateParams::new([name.to_owned()]).unwrap();
        Principal::of(params.self_signed(&KeyPair::generate().unwrap()).unwrap().der())
    }

    fn names(name: &str) -> Vec<NamePattern> {
        vec![NamePattern::parse(name).unwrap()]
    }

    fn forbidden(permissions: Permissions) -> Vec<Kind> {
        let kinds = Kind::ALL.iter().copied();
        kinds.filter(|kind| permissions.check(*kind).is_err()).collect()
    }

    #[test]
    fn without_names_everybody_may_do_everything() {
        let roles = Roles::default();
        assert_eq!(forbidden(roles.of(None)), []);
        assert_eq!(forbidden(roles.of(Some(&member("a")))), []);
    }

    #[test]
    fn each_role_is_for_those_that_have_its_name() {
        let roles = Roles { admins: names("admin.*"), stores: names("*.store") };
        let mounting = [Kind::Mount, Kind::Remount, Kind::Unmount];
        assert_eq!(forbidden(roles.of(Some(&member("a.store")))), [Kind::RemoveAll]);
        assert_eq!(forbidden(roles.of(Some(&member("admin.a")))), mounting);
        assert_eq!(forbidden(roles.of(Some(&member("admin.store")))), []);
        let all = [&mounting[..], &[Kind::RemoveAll]].concat();
        for peer in [None, Some(&member("engine"))] {
            let mut found = forbidden(roles.of(peer));
            found.sort_unstable_by_key(|kind| all.iter().position(|it| it == kind));
            assert_eq!(found, all);
        }
    }

    #[test]
    fn a_role_that_is_not_given_out_stays_everybodys() {
        let roles = Roles { admins: names("admin"), stores: Vec::new() };
        assert_eq!(forbidden(roles.of(None)), [Kind::RemoveAll]);
    }
}
