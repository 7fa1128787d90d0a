//! How a request is refused: Azure's error body, for both APIs.

use std::time::Duration;

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use cellblock::Error;
use serde_json::json;

const ERROR_CODE: &str = "x-ms-error-code";

/// Why a request is refused, by its code in the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    PropertiesMissing,
    RequestInvalid,
    RequestNotSupported,
    SessionNotFound,
    ExecutionNotFound,
    FileNotFound,
    NotFound,
    WrongMethod,
    Unauthorized,
    Forbidden,
    TooLarge,
    UnsupportedType,
    NoSpace,
    Conflict,
    TooManySessions,
    TooManyExecutions,
    TooManyRequests,
    MemoryPressure,
    Draining,
    EngineUnavailable,
    ImageMissing,
    SessionFailed,
    /// It ended while something ran in it: nobody knows how far that came.
    SessionLost,
    Internal,
}

impl Code {
    pub(crate) fn as_str(self) -> &'static str {
        self.parts().1
    }

    fn parts(self) -> (StatusCode, &'static str) {
        match self {
            Self::PropertiesMissing => (StatusCode::BAD_REQUEST, "SessionPropertiesMissing"),
            Self::RequestInvalid => (StatusCode::BAD_REQUEST, "SessionRequestValidationFailed"),
            Self::RequestNotSupported => (StatusCode::BAD_REQUEST, "SessionRequestNotSupported"),
            Self::SessionNotFound => (StatusCode::NOT_FOUND, "SessionWithIdentifierNotFound"),
            Self::ExecutionNotFound => (StatusCode::NOT_FOUND, "ExecutionNotFound"),
            Self::FileNotFound => (StatusCode::NOT_FOUND, "FileNotFound"),
            Self::NotFound => (StatusCode::NOT_FOUND, "NotFound"),
            Self::WrongMethod => (StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed"),
            Self::Unauthorized => (StatusCode::UNAUTHORIZED, "Unauthorized"),
            Self::Forbidden => (StatusCode::FORBIDDEN, "Forbidden"),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "RequestTooLarge"),
            Self::UnsupportedType => (StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType"),
            Self::NoSpace => (StatusCode::INSUFFICIENT_STORAGE, "InsufficientStorage"),
            Self::Conflict => (StatusCode::CONFLICT, "Conflict"),
            Self::TooManySessions => (StatusCode::TOO_MANY_REQUESTS, "TooManySessions"),
            Self::TooManyExecutions => (StatusCode::TOO_MANY_REQUESTS, "TooManyExecutions"),
            Self::TooManyRequests => (StatusCode::TOO_MANY_REQUESTS, "TooManyRequests"),
            Self::MemoryPressure => (StatusCode::SERVICE_UNAVAILABLE, "MemoryPressure"),
            Self::Draining => (StatusCode::SERVICE_UNAVAILABLE, "ShuttingDown"),
            Self::EngineUnavailable => (StatusCode::SERVICE_UNAVAILABLE, "EngineUnavailable"),
            Self::ImageMissing => (StatusCode::SERVICE_UNAVAILABLE, "ImageMissing"),
            Self::SessionFailed => (StatusCode::SERVICE_UNAVAILABLE, "SessionFailed"),
            Self::SessionLost => (StatusCode::BAD_GATEWAY, "SessionLost"),
            Self::Internal => (StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
        }
    }

    /// When to try again, where trying again can help.
    fn retry_after(self) -> Option<Duration> {
        let seconds = match self {
            Self::TooManyExecutions | Self::TooManyRequests => 1,
            Self::EngineUnavailable | Self::SessionFailed | Self::Draining => 5,
            Self::TooManySessions | Self::MemoryPressure | Self::ImageMissing => 10,
            _ => return None,
        };
        Some(Duration::from_secs(seconds))
    }
}

/// A request that is not served, and why.
#[derive(Debug, Clone)]
pub(crate) struct Refusal {
    code: Code,
    message: String,
}

impl Refusal {
    pub(crate) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::RequestInvalid, message)
    }

    pub(crate) fn with_code(self, code: Code) -> Self {
        Self { code, ..self }
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn code(&self) -> Code {
        self.code
    }
}

/// A failure of the library: what was attempted, why it failed, what to do.
impl From<&Error> for Refusal {
    fn from(error: &Error) -> Self {
        let code = match () {
            () if error.is_engine_unreachable() => Code::EngineUnavailable,
            () if error.is_image_missing() => Code::ImageMissing,
            () if error.is_usage() => Code::RequestInvalid,
            () if error.is_session_gone() => Code::SessionNotFound,
            () => Code::SessionFailed,
        };
        let mut message = error.to_string();
        let mut cause = std::error::Error::source(error);
        while let Some(source) = cause {
            message.push_str(&format!(": {source}"));
            cause = source.source();
        }
        if let Some(hint) = error.hint() {
            message.push_str(&format!(" ({hint})"));
        }
        Self::new(code, message)
    }
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self::from(&error)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let (status, code) = self.code.parts();
        let body = json!({ "error": { "code": code, "message": self.message } });
        let mut response = (status, [(ERROR_CODE, code)], Json(body)).into_response();
        if let Some(after) = self.code.retry_after() {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(after.as_secs()));
        }
        if self.code == Code::Unauthorized {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
