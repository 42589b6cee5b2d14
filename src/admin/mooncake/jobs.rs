//! Drain jobs and quotas of tenants, which do not exist here: requests that make sense are answered
//! as by a master that has them switched off.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{RawQuery, State};
use serde::Deserialize;

use super::super::{Admin, query};
use super::problem::Problem;
use super::segments::{name_of, uses};
use super::serving;

#[derive(Deserialize)]
struct NewJob {
    segments: Vec<String>,
}

/// No job is created.
pub(super) async fn create(State(admin): State<Arc<Admin>>, body: Bytes) -> Problem {
    let job: NewJob = match serde_json::from_slice(&body) {
        Ok(job) => job,
        Err(error) => return invalid_body(&error),
    };
    if job.segments.is_empty() {
        return Problem::invalid("INVALID_PARAMS");
    }
    let known = match serving(&admin) {
        Ok(serving) => uses(serving).await,
        Err(problem) => return problem,
    };
    match known {
        Ok(known) => {
            let is_known =
                |name: &String| known.iter().any(|used| name_of(&used.entry.segment) == name);
            if job.segments.iter().all(is_known) {
                Problem::switched_off()
            } else {
                Problem::no_segment()
            }
        }
        Err(problem) => problem,
    }
}

/// There is no job, whichever is asked for.
pub(super) async fn find(RawQuery(query): RawQuery) -> Problem {
    match query::text(query.as_deref(), "job_id") {
        Some(id) if is_job_id(&id) => Problem::no_job(),
        _ => Problem::invalid("Missing or invalid job_id"),
    }
}

/// Eight, four, four, four and twelve hexadecimal digits.
fn is_job_id(text: &str) -> bool {
    let mut parts = text.split('-');
    let fit = [8, 4, 4, 4, 12].into_iter().all(|digits| {
        parts.next().is_some_and(|part| {
            part.len() == digits && part.bytes().all(|digit| digit.is_ascii_hexdigit())
        })
    });
    fit && parts.next().is_none()
}

#[derive(Deserialize)]
struct Quota {
    #[serde(rename = "requested_quota_bytes")]
    _requested_quota_bytes: u64,
}

/// The quotas of all tenants, or of one.
pub(super) async fn quotas() -> Problem {
    Problem::switched_off()
}

/// No quota is set.
pub(super) async fn set_quota(RawQuery(query): RawQuery, body: Bytes) -> Problem {
    if let Some(problem) = missing_tenant(query.as_deref()) {
        return problem;
    }
    match serde_json::from_slice::<Quota>(&body) {
        Ok(_) => Problem::switched_off(),
        Err(error) => invalid_body(&error),
    }
}

/// No quota is removed.
pub(super) async fn remove_quota(RawQuery(query): RawQuery) -> Problem {
    missing_tenant(query.as_deref()).unwrap_or(Problem::switched_off())
}

fn missing_tenant(query: Option<&str>) -> Option<Problem> {
    let tenant = query::text(query, "tenant_id").filter(|tenant| !tenant.is_empty());
    tenant.is_none().then(|| Problem::invalid("Missing or invalid tenant_id"))
}

fn invalid_body(error: &serde_json::Error) -> Problem {
    Problem::invalid(format!("Invalid JSON body: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_job_has_five_parts() {
        assert!(is_job_id("00000000-0000-0000-0000-00000000abcd"));
        for text in ["", "x", "00000000-0000-0000-0000", "00000000-0000-0000-0000-00000000abcd-1"] {
            assert!(!is_job_id(text), "{text}");
        }
    }
}
