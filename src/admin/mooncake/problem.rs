//! How a request is refused.

use std::borrow::Cow;

use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use mooring_actors::core::CallError;
use mooring_proto::WireError;
use serde::Serialize;

use crate::frontend::bulk::unavailable;

/// Why there is no answer, with the numbers and names of that master.
#[derive(Debug, PartialEq)]
pub(super) struct Problem {
    pub(super) status: StatusCode,
    code: i32,
    message: Cow<'static, str>,
}

#[derive(Serialize)]
struct Body<'a> {
    success: bool,
    error_code: i32,
    error_message: &'a str,
}

impl Problem {
    /// Before the process serves, and once it leaves.
    pub(super) fn not_active() -> Problem {
        let message = Cow::Borrowed("service plane is not active");
        Problem { status: StatusCode::SERVICE_UNAVAILABLE, code: UNAVAILABLE_IN_MODE, message }
    }

    /// What is asked for is switched off.
    pub(super) fn switched_off() -> Problem {
        let message = Cow::Borrowed("UNAVAILABLE_IN_CURRENT_MODE");
        Problem { status: StatusCode::CONFLICT, code: UNAVAILABLE_IN_MODE, message }
    }

    /// A parameter or body makes no sense.
    pub(super) fn invalid(message: impl Into<Cow<'static, str>>) -> Problem {
        Problem { status: StatusCode::BAD_REQUEST, code: INVALID_PARAMS, message: message.into() }
    }

    /// There is no such segment.
    pub(super) fn no_segment() -> Problem {
        Problem::not_found(-101, "SEGMENT_NOT_FOUND")
    }

    /// There is no such object.
    pub(super) fn no_object() -> Problem {
        Problem::not_found(-704, "OBJECT_NOT_FOUND")
    }

    /// There is no such job.
    pub(super) fn no_job() -> Problem {
        Problem::not_found(-1402, "JOB_NOT_FOUND")
    }

    fn not_found(code: i32, message: &'static str) -> Problem {
        Problem { status: StatusCode::NOT_FOUND, code, message: message.into() }
    }
}

impl From<WireError> for Problem {
    /// What an actor refuses is over soon, or the process is leaving.
    fn from(error: WireError) -> Problem {
        Problem { message: error.to_string().into(), ..Problem::not_active() }
    }
}

impl From<CallError> for Problem {
    fn from(error: CallError) -> Problem {
        unavailable(error).into()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = Body { success: false, error_code: self.code, error_message: &self.message };
        (self.status, Json(body)).into_response()
    }
}

const INVALID_PARAMS: i32 = -600;
const UNAVAILABLE_IN_MODE: i32 = -1011;
